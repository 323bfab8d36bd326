"""Moves transpositions below elementwise operations and below reshapes that drop axes of extent 1, towards the
contraction that can read a transposed operand in place.

``f(transpose(x))`` becomes ``transpose(f(x))``, so that ``f`` can join the operation that makes ``x``. ``f`` must read
no other tensor of full rank, and no other operation may use the transposition.
"""

from __future__ import annotations

from torch_mlir import ir

from rillet.ir import Program, builders
from rillet.ir.extents import extents, reassociation
from rillet.ir.rewrite import blocks, defining, rebuild_generic, renumber_index
from rillet.ir.shapes import transpose
from rillet.ir.structured import Structured, copy_permutation, inverse, is_permutation, rename, structured
from rillet.optimize.layouts.layouts import drops_units


def sink(program: Program) -> bool:
    """Sink transpositions in ``@main`` and its control flow, once in program order. True when anything moved."""
    moved = False
    with program.context, ir.Location.unknown():
        for block in blocks(program.main()):
            for op in [view.operation for view in block.operations]:
                if op.name == "tensor.collapse_shape":
                    with ir.InsertionPoint(op), op.location:
                        moved |= _sink_below_collapse(op)
                    continue
                view = structured(op)
                number = _transposed_input(view) if view is not None else None
                if view is not None and number is not None:
                    with ir.InsertionPoint(op), op.location:
                        _sink(view, number)
                    moved = True
    return moved


def _sink_below_collapse(op: ir.Operation) -> bool:
    """``collapse(transpose(x))`` as ``transpose(collapse(x))``, where only axes of extent 1 disappear."""
    copy = defining(op.operands[0])
    permutation = copy_permutation(copy) if copy is not None and len(list(op.operands[0].uses)) == 1 else None
    if copy is None or permutation is None or not drops_units(op):
        return False
    shape = ir.RankedTensorType(op.operands[0].type).shape
    kept = [permutation[next((a for a in group if shape[a] != 1), group[0])] for group in reassociation(op)]
    source = copy.operands[0]
    groups: list[list[int]] = []
    for axis in range(len(shape)):
        if not groups or (axis in kept and any(a in kept for a in groups[-1])):
            groups.append([])
        groups[-1].append(axis)
    order = sorted(kept)
    static = ir.RankedTensorType(source.type).shape
    collapsed = builders.collapse_shape(source, groups, [static[axis] for axis in order])
    op.results[0].replace_all_uses_with(transpose(collapsed, [order.index(axis) for axis in kept]))
    op.erase()
    copy.erase()
    return True


def _transposed_input(view: Structured) -> int | None:
    """The input that is a transposition, if it is the only tensor of full rank, read once, and used nowhere else."""
    if not view.is_elementwise or len(view.inits) != 1 or view.init_is_read() or copy_permutation(view.op) is not None:
        return None
    tensors = [i for i, v in enumerate(view.inputs) if isinstance(v.type, ir.RankedTensorType)]
    full = [i for i in tensors if len(view.maps[i]) == view.loops]
    if len(full) != 1 or not is_permutation(view.maps[full[0]], view.loops):
        return None
    if not all(isinstance(e, int) for i in tensors for e in view.maps[i]):
        return None
    value = view.inputs[full[0]]
    owner = defining(value)
    if owner is None or copy_permutation(owner) is None or len(list(value.uses)) != 1:
        return None
    return full[0]


def _sink(view: Structured, number: int) -> None:
    copy = defining(view.inputs[number])
    assert copy is not None
    permutation = copy_permutation(copy)
    assert permutation is not None
    source = copy.operands[0]
    # Loop ``order[i]`` of the operation runs over axis ``i`` of the source: it is the new loop ``i``.
    order = tuple(view.maps[number][permutation.index(axis)] for axis in range(view.loops))
    new = inverse(order)  # type: ignore[arg-type]
    identity = tuple(range(view.loops))
    maps = [rename(map_, new) for map_ in view.maps]
    maps[number] = maps[-1] = identity
    operands = list(view.op.operands)
    operands[number] = source
    element = ir.RankedTensorType(view.op.results[0].type).element_type
    operands[-1] = builders.empty(extents(source), element)
    rebuilt = rebuild_generic(view.op, operands, [operands[-1].type], maps, view.parallel)
    renumber_index(rebuilt, new)
    # Result axis ``a`` is indexed by loop ``init_map[a]``, which is axis ``new[...]`` of the rebuilt result.
    back = tuple(new[loop] for loop in view.init_maps[0])  # type: ignore[index]
    view.op.results[0].replace_all_uses_with(transpose(rebuilt.results[0], back))
    view.op.erase()
    if not any(True for _ in copy.results[0].uses):
        copy.erase()
