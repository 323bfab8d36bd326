"""Rewrites TOSA that upstream's conversions leave out as TOSA that they take."""

from __future__ import annotations

from torch_mlir import ir

from rillet.ir.structured import walk

_HALVES = ("f16", "bf16")


def prepare(module: ir.Module) -> None:
    """Decide what the specification leaves open, and split casts between the two types of 16 bits."""
    for op in list(walk(module.operation)):
        if op.name == "tosa.rescale" and "INEXACT_ROUND" in str(op.attributes["rounding_mode"]):
            # Any rounding will do.
            op.attributes["rounding_mode"] = ir.Attribute.parse("#tosa.rounding_mode<SINGLE_ROUND>")
        elif op.name == "tosa.cast" and all(str(v.type.element_type) in _HALVES for v in (*op.operands, *op.results)):
            _cast_by_f32(op)


def _cast_by_f32(op: ir.Operation) -> None:
    shape = ir.ShapedType(op.operands[0].type)
    wide = ir.RankedTensorType.get(shape.shape, ir.F32Type.get()) if shape.has_rank else None
    if wide is None or op.operands[0].type == op.results[0].type:
        return
    with ir.InsertionPoint(op):
        middle = ir.Operation.create("tosa.cast", results=[wide], operands=[op.operands[0]], loc=op.location)
    op.operands[0] = middle.results[0]
