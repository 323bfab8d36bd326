"""Writes the parts of a concatenation of many tensors one by one, so that no kernel has code for each of them.

``concat(a, b, …)`` becomes ``insert … (insert b (insert a (empty)))``. Each insertion joins the dispatch that makes its
part, where that is possible, and updates the tensor in place. Where a part begins is an argument, so that parts of one
shape have one kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch_mlir import ir

from rillet.dispatch.regions.nodes import argument, host_blocks
from rillet.ir import Program, builders
from rillet.ir.builders import Extent
from rillet.ir.extents import add, extents, joined_axis
from rillet.ir.rewrite import defining, replace


@dataclass(frozen=True)
class Options:
    """``parts``: the most that one kernel joins."""

    parts: int = 32


def run(program: Program, options: Options) -> None:
    """Rewrite every long concatenation of the host program."""
    with program.context, ir.Location.unknown():
        for block in host_blocks(program.main()):
            operations = [view.operation for view in block.operations]
            position = {op: i for i, op in enumerate(operations)}
            for op in operations:
                if op.name == "tensor.concat" and len(op.operands) > options.parts:
                    with op.location:
                        _rewrite(op, position)


def _rewrite(op: ir.Operation, position: Mapping[ir.Operation, int]) -> None:
    shape = ir.RankedTensorType(op.results[0].type)
    if shape.has_static_shape:
        replace(op, [_behind_makers(op, position)])
        return
    # Sizes are known only here.
    with ir.InsertionPoint(op):
        whole = builders.empty(extents(op.results[0]), shape.element_type)
        start: Extent = 0
        for part in op.operands:
            sizes = extents(part)
            whole = _inserted(part, whole, joined_axis(op), start, sizes)
            start = add(start, sizes[joined_axis(op)])
        replace(op, [whole])


def _behind_makers(op: ir.Operation, position: Mapping[ir.Operation, int]) -> ir.Value:
    """The insertions of parts of known sizes, each right behind what makes its part, so that few lie between both."""
    parts, start = [], 0
    for part in op.operands:
        maker = defining(part)
        parts.append((position.get(maker, -1) if maker is not None else -1, start, part))
        start += ir.RankedTensorType(part.type).shape[joined_axis(op)]
    parts.sort(key=lambda part: part[:2])
    type_ = ir.RankedTensorType(op.results[0].type)
    with ir.InsertionPoint.at_block_begin(op.block):
        whole = builders.empty(list(type_.shape), type_.element_type)
    last, last_position = whole.owner.operation, -1
    for maker_position, start, part in parts:
        maker = defining(part)
        if maker is not None and maker_position > last_position:
            last, last_position = maker, maker_position
        with ir.InsertionPoint.after(last):
            whole = _inserted(part, whole, joined_axis(op), start, list(ir.RankedTensorType(part.type).shape))
        last = last if 0 in ir.RankedTensorType(part.type).shape else whole.owner.operation
    return whole


def _inserted(part: ir.Value, whole: ir.Value, axis: int, start: Extent, sizes: list[Extent]) -> ir.Value:
    place = argument(start) if isinstance(start, int) else start
    return builders.insert_slice(
        part, whole, [place if a == axis else 0 for a in range(len(sizes))], sizes, [1] * len(sizes)
    )
