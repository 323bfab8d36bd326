"""Moves reshapes below the structured operations that read them, so that they do not separate a producer from its
epilogue.

Below an expansion (``[b*s, d]`` seen as ``[b, s, d]``) an operation is rewritten with the group's loops collapsed to
one. Below a collapse an elementwise operation is rewritten with the loop expanded. Either way the reshape is applied to
the result instead, and the inverse reshape to the other operands, where it usually meets another reshape or a constant
and disappears.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rillet.ir import Program, builders
from rillet.ir.builders import Extent
from rillet.ir.contraction import contraction
from rillet.ir.extents import extents, multiply, reassociation
from rillet.ir.rewrite import blocks, defining, rebuild_generic
from rillet.ir.shapes import runs, shape_of
from rillet.ir.structured import (
    DYNAMIC,
    Map,
    Structured,
    captures,
    copy_permutation,
    is_permutation,
    is_projected,
    structured,
    walk,
)
from rillet.optimize.layouts.layouts import drops_units, is_flexible


@dataclass(frozen=True)
class _Plan:
    """New loops as groups of old ones (collapsing) or old loops as groups of new ones (expanding)."""

    view: Structured
    groups: list[list[int]]  # collapsing: for each new loop the old loops; expanding: for each old loop the new loops
    new_extents: list[Extent]  # of the new loops


def sink(program: Program) -> bool:
    """Sink reshapes in ``@main`` and its control flow, once in program order. True when anything moved."""
    moved = False
    with program.context, ir.Location.unknown():
        for block in blocks(program.main()):
            for op in list(block.operations):
                view = structured(op)
                if view is not None and _is_plain(view):
                    with ir.InsertionPoint(op), op.location:
                        moved |= _sink(view)
    return moved


def _is_plain(view: Structured) -> bool:
    """Whether maps have only plain loops, and the body depends on its operands only."""
    if not all(is_projected(m) for m in view.maps) or captures_tensor(view.op):
        return False
    roles = contraction(view)
    if roles is not None and roles.batch:
        return False  # its operands may be transpositions of the expanded value
    return not any(inner.name == "linalg.index" for inner in walk(view.op))


def captures_tensor(op: ir.Operation) -> bool:
    """Whether the op's regions read a tensor that is defined outside of them."""
    return any(isinstance(v.type, ir.RankedTensorType) for v in captures(op))


def _sink(view: Structured) -> bool:
    for value, map_ in zip(view.inputs, view.input_maps, strict=True):
        reshape = defining(value)
        if reshape is None or is_flexible(reshape.operands[0] if len(reshape.operands) else value):
            continue
        if reshape.name == "tensor.expand_shape" and copy_permutation(view.op) is None:
            # (Transpositions stay before the contractions that can absorb them.)
            plan = _collapsing(view, map_, reassociation(reshape))
            if plan is not None:
                _collapse(plan)
                return True
        elif reshape.name == "tensor.collapse_shape" and _is_epilogue(view, map_) and _may_expand(view, reshape):
            if copy_permutation(view.op) is not None and drops_units(reshape):
                continue  # ``sink_transposes`` does the reverse
            expand_below(view, map_, reshape)
            return True
    return False


def _is_epilogue(view: Structured, map_: Map) -> bool:
    """An elementwise operation that reads all of the reshaped value once."""
    return view.is_elementwise and is_permutation(map_, view.loops)


def _may_expand(view: Structured, reshape: ir.Operation) -> bool:
    """Whether expanding pays: a single operand has nothing else to reshape; after a contraction the operation is an
    epilogue."""
    return sum(bool(m) for m in view.input_maps) == 1 or _made_by_reduction(reshape)


def _made_by_reduction(reshape: ir.Operation) -> bool:
    """Whether the collapsed value comes from a contraction (or another reduction), possibly through elementwise
    operations."""
    owner = defining(reshape.operands[0])
    while owner is not None:
        view = structured(owner)
        if view is None or not view.inputs:
            return False
        if not all(view.parallel):
            return True
        owner = defining(view.inputs[0])
    return False


# --- below an expansion ---


def _collapsing(view: Structured, map_: Map, axes: Sequence[Sequence[int]]) -> _Plan | None:
    """The plan that makes each group of ``axes`` of the operand indexed by ``map_`` one loop, or None when it is not
    possible.
    """
    sizes = view.extents
    merged = [[map_[axis] for axis in group] for group in axes if len(group) > 1]
    grouped = {loop: group for group in merged for loop in group}
    groups: list[list[int]] = []
    for loop in range(view.loops):
        group = grouped.get(loop, [loop])
        if group not in groups:
            groups.append(group)  # type: ignore[arg-type]
    for group in merged:
        if len({view.parallel[d] for d in group}) > 1:  # type: ignore[index]
            return None
        if not all(_is_run(m, group, sizes) for m in view.maps):  # type: ignore[arg-type]
            return None
    return _Plan(view, groups, [])


def _is_run(map_: Map, group: list[int], sizes: list[int]) -> bool:
    """The loops of ``group`` index neighbouring axes in order, or none does; loops of extent 1 may be missing."""
    positions = [map_.index(d) for d in group if d in map_]
    if not positions:
        return True
    missing = [d for d in group if d not in map_]
    return all(sizes[d] == 1 for d in missing) and positions == list(range(positions[0], positions[0] + len(positions)))


def _collapse(plan: _Plan) -> None:
    view = plan.view
    new_loop = {old: new for new, group in enumerate(plan.groups) for old in group}
    operands, maps = [], []
    for number, (value, map_) in enumerate(zip((*view.inputs, *view.inits), view.maps, strict=True)):
        axes = _axis_groups(map_, new_loop)
        maps.append(tuple(new_loop[map_[group[0]]] for group in axes))  # type: ignore[index]
        operands.append(_collapsed(value, axes, number >= len(view.inputs)))
    parallel = [view.parallel[group[0]] for group in plan.groups]
    types = [v.type for v in operands[len(view.inputs) :]]
    rebuilt = rebuild_generic(view.op, operands, types, maps, parallel)
    for old, result, map_ in zip(view.op.results, rebuilt.results, view.init_maps, strict=True):
        axes = _axis_groups(map_, new_loop)
        if len(axes) == len(map_):
            old.replace_all_uses_with(result)
            continue
        old.replace_all_uses_with(builders.expand_shape(result, axes, extents(old)))
    view.op.erase()


def _axis_groups(map_: Map, new_loop: dict[int, int]) -> list[list[int]]:
    """Neighbouring axes indexed by loops that become one."""
    groups: list[list[int]] = []
    for axis, loop in enumerate(map_):
        if groups and new_loop[map_[groups[-1][0]]] == new_loop[loop]:  # type: ignore[index]
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return groups


def _collapsed(value: ir.Value, axes: list[list[int]], is_init: bool) -> ir.Value:
    if not isinstance(value.type, ir.RankedTensorType) or len(axes) == ir.RankedTensorType(value.type).rank:
        return value
    shape = shape_of(value)
    source = defining(value)
    if is_init and source is not None and source.name in ("tensor.empty", "linalg.fill"):
        element = ir.RankedTensorType(value.type).element_type
        fresh = builders.empty([_product([extents(value)[a] for a in group]) for group in axes], element)
        return builders.fill_into(source.operands[0], fresh) if source.name == "linalg.fill" else fresh
    return builders.collapse_shape(value, axes, [_static_product([shape[a] for a in group]) for group in axes])


# --- below a collapse ---


def expand_below(view: Structured, map_: Map, reshape: ir.Operation) -> None:
    """Rewrite ``view``, which reads a ``tensor.collapse_shape`` through ``map_``, with the loops that it collapses
    expanded, parallel or reduced. Its maps are plain loops only.
    """
    _expand(_expanding(view, map_, reshape))


def _expanding(view: Structured, map_: Map, reshape: ir.Operation) -> _Plan:
    inner = extents(reshape.operands[0])
    groups: list[list[int]] = [[] for _ in range(view.loops)]
    sizes: list[Extent] = []
    axes_of = dict(zip(map_, reassociation(reshape), strict=True))
    known = _loop_extents(view)
    for loop in range(view.loops):
        parts = [inner[a] for a in axes_of[loop]] if loop in axes_of else [known[loop]]
        groups[loop] = list(range(len(sizes), len(sizes) + len(parts)))
        sizes += parts
    return _Plan(view, groups, sizes)


def _loop_extents(view: Structured) -> list[Extent]:
    known: list[Extent] = list(view.extents)
    shape = extents(view.op.results[0])
    for axis, loop in enumerate(view.init_maps[0]):
        known[loop] = shape[axis]  # type: ignore[index]
    return known


def _expand(plan: _Plan) -> None:
    view = plan.view
    operands, maps = [], []
    for number, (value, map_) in enumerate(zip((*view.inputs, *view.inits), view.maps, strict=True)):
        maps.append(tuple(new for loop in map_ for new in plan.groups[loop]))  # type: ignore[index]
        operands.append(_expanded(value, map_, plan, number >= len(view.inputs)))
    types = [v.type for v in operands[len(view.inputs) :]]
    parallel = [view.parallel[loop] for loop, group in enumerate(plan.groups) for _ in group]
    rebuilt = rebuild_generic(view.op, operands, types, maps, parallel)
    for old, result, map_ in zip(view.op.results, rebuilt.results, view.init_maps, strict=True):
        same = result.type == old.type
        whole = result if same else builders.collapse_shape(result, _axis_runs(map_, plan), shape_of(old))
        old.replace_all_uses_with(whole)
    view.op.erase()


def _axis_runs(map_: Map, plan: _Plan) -> list[list[int]]:
    return runs([len(plan.groups[loop]) for loop in map_])  # type: ignore[index]


def _expanded(value: ir.Value, map_: Map, plan: _Plan, is_init: bool) -> ir.Value:
    if not isinstance(value.type, ir.RankedTensorType):
        return value
    shape = [plan.new_extents[new] for loop in map_ for new in plan.groups[loop]]  # type: ignore[index]
    if len(shape) == len(map_):
        return value
    source = defining(value)
    if is_init and source is not None and is_flexible(value):
        fresh = builders.empty(shape, ir.RankedTensorType(value.type).element_type)
        return builders.fill_into(source.operands[0], fresh) if source.name == "linalg.fill" else fresh
    return builders.expand_shape(value, _axis_runs(map_, plan), shape)


# --- shapes ---


def _static_product(parts: Sequence[int]) -> int:
    total = 1
    for part in parts:
        if part == DYNAMIC:
            return DYNAMIC
        total *= part
    return total


def _product(parts: Sequence[Extent]) -> Extent:
    total: Extent = 1
    for part in parts:
        total = multiply(total, part)
    return total
