"""Factors of a product that are 8-bit integers minus a zero point, as quantized tensors have them."""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rillet.ir.contraction import Product
from rillet.ir.rewrite import defining, int_constant
from rillet.ir.structured import Structured

_MOST_ZERO_POINT = 255


@dataclass(frozen=True)
class NarrowFactor:
    """A factor ``extend(x) - zero_point`` of an 8-bit element ``x``."""

    signed: bool
    zero_point: int


def factors_of(root: Structured, product: Product) -> tuple[NarrowFactor, NarrowFactor] | None:
    """The lhs and rhs factors of the product, when both are narrow and it is summed in 32 bits; else None."""
    accumulator = product.accumulator_type
    if not isinstance(accumulator, ir.IntegerType) or accumulator.width != 32 or product.widen is not None:
        return None
    lhs, rhs = (_factor(root, value) for value in (product.lhs.value, product.rhs.value))
    return None if lhs is None or rhs is None else (lhs, rhs)


def _factor(root: Structured, value: ir.Value) -> NarrowFactor | None:
    zero_point = 0
    owner = defining(value)
    if owner is not None and owner.name == "arith.subi":
        value, subtracted = owner.operands
        known = int_constant(subtracted)
        if known is None or abs(known) > _MOST_ZERO_POINT:
            return None
        zero_point, owner = known, defining(value)
    if owner is None or owner.name not in ("arith.extsi", "arith.extui"):
        return None
    (narrow,) = owner.operands
    is_element = narrow in list(root.body.arguments) and ir.IntegerType(narrow.type).width == 8
    return NarrowFactor(owner.name == "arith.extsi", zero_point) if is_element else None
