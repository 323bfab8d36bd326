"""float8_e8m0fnu, the scale of the microscaling formats: a power of two, 2^(code - 127), stored as an 8-bit integer.

MLIR computes nothing with it, so its conversions are spelled out on the bits of float32.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.frontends.building.scalars import Scalar, constant, maximum, select

DTYPE = "float8_e8m0fnu"
_NAN = 255
_LARGEST = 254


def to_float32(a: Scalar) -> Scalar:
    """The value as float32; the smallest, 2^-127, is a denormal there."""
    code = Scalar(arith.extui(ir.IntegerType.get_signless(32), a.value), "int32")
    bits = select(code == 0, constant(0x00400000, "int32"), Scalar(arith.shli(code.value, _int(23)), "int32"))
    bits = select(code == _NAN, constant(0x7FC00000, "int32"), bits)
    return Scalar(arith.bitcast(ir.F32Type.get(), bits.value), "float32")


def from_float32(a: Scalar, rounding: str = "up", saturate: bool = True) -> Scalar:
    """The power of two above (``up``), below (``down``) or nearest to a non-negative number, ties up.

    A number out of range becomes the nearest value with ``saturate``, and NaN without it.
    """
    bits = Scalar(arith.bitcast(ir.IntegerType.get_signless(32), a.value), "int32") & 0x7FFFFFFF
    exponent = Scalar(arith.shrui(bits.value, _int(23)), "int32")
    fraction = bits & 0x7FFFFF
    one = constant(1, "int32")
    # Below 2^-126 the fraction counts from 2^-127 (half of its range) on.
    normal, denormal = {"up": (0, 0x400000), "nearest": (0x3FFFFF, 0x5FFFFF), "down": (0x7FFFFF, 0x7FFFFF)}[rounding]
    code = exponent + select(select(exponent == 0, fraction > denormal, fraction > normal), one, 0)
    too_large, too_small = code > _LARGEST, bits < 0x00400000
    if saturate:
        code = select(too_large, constant(_LARGEST, "int32"), code)
    else:
        code = select(too_large | too_small, constant(_NAN, "int32"), code)
    code = select(bits > 0x7F800000, constant(_NAN, "int32"), maximum(code, 0))
    return Scalar(arith.trunci(ir.IntegerType.get_signless(8), code.value), DTYPE)


def _int(value: int) -> ir.Value:
    return constant(value, "int32").value
