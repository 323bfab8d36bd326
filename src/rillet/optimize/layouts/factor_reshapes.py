"""Computes the operations between a reshape and its inverse on the axes that both shapes have in common.

A normalization of groups of channels reshapes ``[n, 64, h, w]`` to ``[n, 8, 8 * h * w]``, reduces, and reshapes back.
The long axis mixes channels with image positions, so that neither could lie last in memory. ``[n, 8, 8, h, w]`` only
splits and merges whole axes of the image, so any layout is possible again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch_mlir import ir

from rillet.ir import Program, builders
from rillet.ir.contraction import contraction, is_convolution
from rillet.ir.extents import reassociation
from rillet.ir.rewrite import CLEANUP, blocks, defining, erase_dead, run_upstream, users
from rillet.ir.shapes import shape_of
from rillet.ir.structured import DYNAMIC, Structured, is_projected, structured, walk
from rillet.optimize.layouts.sink_reshapes import captures_tensor, expand_below

Groups = list[list[int]]


@dataclass
class _Region:
    """The operations from ``entry``, a reshape of ``source``, to ``exits``, which reshape back; in program order.

    ``shape``: the common axes. ``outer`` groups them to the shape of ``source``, ``inner`` to that of ``entry``.
    """

    entry: ir.Operation
    source: ir.Value
    shape: list[int]
    outer: Groups
    inner: Groups
    members: dict[ir.Operation, None] = field(default_factory=dict)
    exits: dict[ir.Operation, None] = field(default_factory=dict)


def run(program: Program, options: None) -> None:
    """Factor in ``@main`` and its control flow, if there are convolutions: the pass serves their layouts."""
    with program.context, ir.Location.unknown():
        for block in blocks(program.main()):
            if not any(is_convolution(view.operation) for view in block.operations):
                continue
            for op in [view.operation for view in block.operations if _expands(view.operation)]:
                region = _region(op)
                if region is not None:
                    _factor(region)
        erase_dead(program.main())
        run_upstream(program.module.operation, CLEANUP)


def common_axes(a: list[int], b: list[int]) -> tuple[list[int], Groups, Groups] | None:
    """The axes that form both shapes, and their groups in each; None when a boundary of one shape divides an axis of
    the other by no whole factor."""
    shape: list[int] = []
    groups: tuple[Groups, Groups] = ([[] for _ in a], [[] for _ in b])
    at, left = [0, 0], [a[0], b[0]]
    while at[0] < len(a) and at[1] < len(b):
        size = min(left)
        if size == 0 or max(left) % size:
            return None
        for side in (0, 1):
            groups[side][at[side]].append(len(shape))
        shape.append(size)
        for side, other in enumerate((a, b)):
            left[side] //= size
            if left[side] == 1:
                at[side] += 1
                left[side] = other[at[side]] if at[side] < len(other) else 1
    for side, other in enumerate((a, b)):
        for axis in range(at[side], len(other)):
            if other[axis] != 1 or not shape:
                return None
            groups[side][axis].append(len(shape))
            groups[1 - side][-1].append(len(shape))
            shape.append(1)
    return (shape, *groups)


def _region(entry: ir.Operation) -> _Region | None:
    """The region that begins with ``entry``; None when ``entry`` is no such reshape or the region does not lead
    back."""
    collapse = defining(entry.operands[0])
    if collapse is None or collapse.name != "tensor.collapse_shape":
        return None
    source = collapse.operands[0]
    if DYNAMIC in shape_of(source) or DYNAMIC in shape_of(entry.results[0]):
        return None
    found = common_axes(shape_of(source), shape_of(entry.results[0]))
    if found is None:
        return None
    region = _Region(entry, source, *found)
    return region if _grow(region) else None


def _grow(region: _Region) -> bool:
    whole = shape_of(region.entry.results[0])
    pending, seen = [region.entry.results[0]], set()
    while pending:
        value = pending.pop()
        for user in users(value):
            if user in seen:
                continue
            seen.add(user)
            if user.name == "tensor.collapse_shape":
                back = users(user.results[0])
                if not back or any(shape_of(b.results[0]) != shape_of(region.source) for b in back if _expands(b)):
                    return False
                if not all(map(_expands, back)):
                    return False
                region.exits |= dict.fromkeys(back)
                continue
            view = structured(user)
            if view is None or user.block != region.entry.block or not _is_plain(view, whole):
                return False
            region.members[user] = None
            pending += [r for r in user.results if shape_of(r) == whole]
    order = {op.operation: n for n, op in enumerate(region.entry.block.operations)}
    region.members = dict.fromkeys(sorted(region.members, key=order.__getitem__))
    reduces = any(not all(v.parallel) for op in region.members if (v := structured(op)) is not None)
    return reduces and bool(region.exits)


def _expands(op: ir.Operation) -> bool:
    return op.name == "tensor.expand_shape"


def _is_plain(view: Structured, whole: list[int]) -> bool:
    """Whether plain loops run over all of a region's value in order, and the body depends on nothing else."""
    if not all(is_projected(m) for m in view.maps) or captures_tensor(view.op) or view.loops != len(whole):
        return False
    if contraction(view) is not None or any(op.name == "linalg.index" for op in walk(view.op)):
        return False
    full = [m for v, m in zip(view.inputs, view.input_maps, strict=True) if getattr(v.type, "shape", None) == whole]
    return all(m == tuple(range(view.loops)) for m in full)


def _factor(region: _Region) -> None:
    with ir.InsertionPoint(region.entry), region.entry.location:
        fine = builders.expand_shape(region.source, region.outer, region.shape)
        whole = builders.collapse_shape(fine, region.inner, shape_of(region.entry.results[0]))
        region.entry.results[0].replace_all_uses_with(whole)
    for op in region.members:
        view = structured(op)
        assert view is not None
        with ir.InsertionPoint(op), op.location:
            for value, map_ in zip(view.inputs, view.input_maps, strict=True):
                reshape = defining(value)
                if (
                    reshape is not None
                    and reshape.name == "tensor.collapse_shape"
                    and reassociation(reshape) == region.inner
                ):
                    expand_below(view, map_, reshape)
                    break
    for op in region.exits:
        with ir.InsertionPoint(op), op.location:
            flat = defining(op.operands[0])
            assert flat is not None
            fine = builders.expand_shape(flat.operands[0], region.inner, region.shape)
            op.results[0].replace_all_uses_with(builders.collapse_shape(fine, region.outer, shape_of(op.results[0])))
