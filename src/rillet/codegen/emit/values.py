"""Constants, and scalars as vectors."""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith, vector


def broadcast(value: ir.Value, lanes: int) -> ir.Value:
    """``value`` as a vector of ``lanes`` (unchanged when it is one already, or when ``lanes`` is 1)."""
    if lanes == 1 or isinstance(value.type, ir.VectorType):
        return value
    return vector.BroadcastOp(ir.VectorType.get([lanes], value.type), value).result


def element_type(type_: ir.Type) -> ir.Type:
    """A scalar type, or the element type of a vector type."""
    return ir.VectorType(type_).element_type if isinstance(type_, ir.VectorType) else type_


def constant(value: int | float, type_: ir.Type) -> ir.Value:
    """A constant of a scalar or vector type (a splat)."""
    element = element_type(type_)
    scalar = (
        ir.FloatAttr.get(element, float(value))
        if isinstance(element, ir.FloatType)
        else ir.IntegerAttr.get(element, int(value))
    )
    attribute = ir.DenseElementsAttr.get_splat(type_, scalar) if isinstance(type_, ir.VectorType) else scalar
    return arith.ConstantOp(type_, attribute).result
