"""Padded tensors that are inserted with steps, into a tensor filled with the padding's value.

Upstream's canonicalization inserts the unpadded tensor instead, and moves it by the padding without the steps. To do it
right beforehand leaves it nothing to find.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.ir import builders
from rillet.ir.builders import Extent
from rillet.ir.extents import box, extents, has_unit_strides, margins, padding_value
from rillet.ir.rewrite import defining, replace, scalar_constant
from rillet.ir.structured import walk


def insert_unpadded(root: ir.Operation | ir.OpView) -> None:
    """Rewrite the insertions nested in ``root``; pads that nothing else reads stay for later clean-ups."""
    for op in list(walk(root)):
        if op.name != "tensor.insert_slice" or has_unit_strides(op):
            continue
        pad, filled = defining(op.operands[0], "tensor.pad"), defining(op.operands[1], "linalg.fill")
        if pad is None or filled is None or not _are_equal(padding_value(pad), filled.operands[0]):
            continue
        offsets, _, strides = box(op)
        lows, _ = margins(pad)
        if len(offsets) != len(lows):
            continue
        with ir.InsertionPoint(op), op.location:
            moved = [_moved(*place) for place in zip(offsets, lows, strides, strict=True)]
            source = pad.operands[0]
            replace(op, [builders.insert_slice(source, op.operands[1], moved, extents(source), strides)])


def _are_equal(a: ir.Value, b: ir.Value) -> bool:
    constant = scalar_constant(a)
    return a == b or (constant is not None and constant == scalar_constant(b))


def _moved(offset: Extent, low: Extent, stride: Extent) -> Extent:
    if isinstance(offset, int) and isinstance(low, int) and isinstance(stride, int):
        return offset + low * stride
    by = arith.MulIOp(builders.as_index(low), builders.as_index(stride)).result
    return arith.AddIOp(builders.as_index(offset), by).result
