"""The types of elements in memory, and constants in these types.

Bool is a byte (0 or 1), ``index`` is ``i64``, and types narrower than a byte take one byte each.
"""

from __future__ import annotations

import numpy as np
from torch_mlir import ir

from rillet.ir import dtypes


def storage_type(element: ir.Type) -> ir.Type:
    """The type in which an element lies in memory."""
    if isinstance(element, ir.IndexType):
        return ir.IntegerType.get_signless(64)
    if isinstance(element, ir.IntegerType):
        return ir.IntegerType.get_signless(max(8, element.width))
    if isinstance(element, ir.FloatType) and element.width <= 16:
        # As integers: LLVM moves vectors of small floats by f32 conversions, which may be library calls.
        return ir.IntegerType.get_signless(max(8, element.width))
    return element


def stored_constant(value: ir.Attribute, stored: ir.Type) -> ir.Attribute:
    """A scalar constant in its storage type: its bits, where that is an integer."""
    type_ = value.type  # type: ignore[attr-defined]
    if type_ == stored:
        return value
    if isinstance(type_, ir.IntegerType):
        return ir.IntegerAttr.get(stored, ir.IntegerAttr(value).value)
    narrow = next(t.numpy for t in dtypes.by_code.values() if t.mlir == str(type_))
    bits = np.array(ir.FloatAttr(value).value, narrow).view(f"i{narrow.itemsize}")
    return ir.IntegerAttr.get(stored, int(bits))
