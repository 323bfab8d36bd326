"""Makes the place of a slice an argument where many slices differ in nothing else, so that they have one kernel.

A kernel that knows the place is a little faster, so few slices (the parts of a gate, of a query) keep theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rillet.dispatch.regions.nodes import argument, host_blocks
from rillet.ir import Program, builders
from rillet.ir.extents import box
from rillet.ir.rewrite import replace


@dataclass(frozen=True)
class Options:
    """``alike``: the most slices that keep their places."""

    alike: int = 8


def run(program: Program, options: Options) -> None:
    """Rewrite the slices of the host program, those of all its blocks together."""
    with program.context, ir.Location.unknown():
        alike: dict[object, list[ir.Operation]] = {}
        for block in host_blocks(program.main()):
            for view in block.operations:
                op = view.operation
                if op.name == "tensor.extract_slice" and _keeps_rank(op):
                    same = [op.attributes["static_sizes"], op.attributes["static_strides"]]
                    alike.setdefault((op.operands[0].type, op.results[0].type, *same), []).append(op)
        for slices in alike.values():
            if len(slices) > options.alike:
                _rewrite(slices)


def _keeps_rank(op: ir.Operation) -> bool:
    return ir.RankedTensorType(op.operands[0].type).rank == ir.RankedTensorType(op.results[0].type).rank


def _rewrite(slices: Sequence[ir.Operation]) -> None:
    """Make the offsets that are not the same in all slices arguments."""
    offsets = [list(ir.DenseI64ArrayAttr(op.attributes["static_offsets"])) for op in slices]
    varies = [len(set(column)) > 1 for column in zip(*offsets, strict=True)]
    for op in slices:
        places, sizes, strides = box(op)
        with ir.InsertionPoint(op), op.location:
            moved = [
                argument(place) if differs and isinstance(place, int) else place
                for place, differs in zip(places, varies, strict=True)
            ]
            replace(op, [builders.extract_slice(op.operands[0], moved, sizes, strides)])
