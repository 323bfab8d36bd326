"""Conversions between f32 and smaller floats, for targets without the instructions: on bits, rounding to nearest
even."""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rillet.codegen.math.expression import E


@dataclass(frozen=True)
class Small:
    """A small float format. ``nan``: bits of NaN without sign; ``infinity``: bits, or None when there is none."""

    width: int
    exponent: int
    mantissa: int
    bias: int
    infinity: int | None
    nan: int | None
    largest: int  # bits of the largest finite value
    unsigned_zero: bool = False  # the FNUZ formats: NaN is the bit pattern of -0


FORMATS = {
    "f16": Small(16, 5, 10, 15, 0x7C00, 0x7E00, 0x7BFF),
    "f8E4M3FN": Small(8, 4, 3, 7, None, 0x7F, 0x7E),
    "f8E4M3FNUZ": Small(8, 4, 3, 8, None, 0x80, 0x7F, unsigned_zero=True),
    "f8E5M2": Small(8, 5, 2, 15, 0x7C, 0x7E, 0x7B),
    "f8E5M2FNUZ": Small(8, 5, 2, 16, None, 0x80, 0x7F, unsigned_zero=True),
    "f4E2M1FN": Small(4, 2, 1, 1, None, None, 0x7),
}


def extend(x: E, f32: ir.Type) -> E:
    """A small float as f32, exactly. A power of two moves the exponent, which handles denormals too."""
    form = FORMATS[str(x.element)]
    bits = x.bits().resize(32)
    magnitude = bits & ((1 << (form.width - 1)) - 1)
    sign = (bits & (1 << (form.width - 1))) << (32 - form.width)
    value = (magnitude << (23 - form.mantissa)).as_float(f32) * 2.0 ** (127 - form.bias)
    result = value.bits()
    if form.infinity is not None:
        special = (magnitude << (23 - form.mantissa)) | 0x7F800000
        result = (magnitude >= form.infinity).where(special, result)
    elif form.nan is not None and not form.unsigned_zero:
        result = magnitude.equals(form.nan).where(0x7FC00000, result)
    result = result | sign
    if form.unsigned_zero:
        result = bits.equals(form.nan or 0).where(0x7FC00000, result)
    return result.as_float(f32)


def truncate(x: E, small: ir.Type) -> E:
    """f32 to a small float. Overflow gives infinity where the format has one, else NaN, else the largest value."""
    form = FORMATS[str(small)]
    shift = 23 - form.mantissa
    bits = x.bits()
    magnitude = bits & 0x7FFFFFFF
    sign = (bits & -0x80000000).logical_shift(32 - form.width)
    rebias = (127 - form.bias) << 23
    normal = ((magnitude - rebias) + ((1 << (shift - 1)) - 1) + (magnitude.logical_shift(shift) & 1)).logical_shift(
        shift
    )
    # Denormals: adding 2^k, whose last place is the format's smallest denormal, rounds to it.
    anchor = 2.0 ** (23 + 1 - form.bias - form.mantissa)
    denormal = (magnitude.as_float(x.element) + anchor).bits() - x.constant(anchor).bits()
    smallest_normal = (127 - form.bias + 1) << 23
    result = (magnitude < smallest_normal).where(denormal, normal)
    overflow = form.infinity if form.infinity is not None else form.nan if form.nan is not None else form.largest
    # Numbers this large overflow however they round, and the arithmetic above would wrap.
    too_large = (magnitude >= ((128 - form.bias + (1 << form.exponent)) << 23)) | (result > form.largest)
    if form.unsigned_zero:
        result = too_large.where(0, result)
        nan = too_large | x.is_nan()
        sign = result.equals(0).where(0, sign)
        result = nan.where(form.nan or 0, result | sign)
        return result.resize(form.width).as_float(small)
    result = too_large.where(overflow, result)
    nan_bits = form.nan if form.nan is not None else form.largest
    result = x.is_nan().where(nan_bits, result) | sign
    return result.resize(form.width).as_float(small)


def round_to_odd(x: E, f32: ir.Type) -> E:
    """f64 to f32 such that a second rounding, to a smaller float, gives the result of a single rounding: inexact
    results get an odd last bit (Boldo and Melquiond, Emulation of a FMA and correctly rounded sums, 2008)."""
    nearest = x.truncate(f32)
    back = nearest.extend(x.element)
    bits = nearest.bits()
    overshot = back.abs() > x.abs()
    toward_zero = overshot.where(bits - 1, bits)
    inexact = back.differs(x) & x.is_nan().negate()
    # An overflow to infinity must stay one: the largest f32 still overflows every smaller format.
    return inexact.where(toward_zero | 1, bits).as_float(f32)
