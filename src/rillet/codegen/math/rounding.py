"""Rounding to integers, remainders and integer powers."""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import math, scf

from rillet.codegen.math.exponential import FORMATS
from rillet.codegen.math.expression import E


def roundeven(x: E) -> E:
    """Rounds to the nearest integer, halves to even: adding and subtracting 2^mantissa leaves no room for a
    fraction."""
    a = x.abs()
    limit = 2.0 ** FORMATS[x.width].mantissa
    return (a < limit).where((a + limit) - limit, a).copysign(x)


def floor(x: E) -> E:
    """Rounds toward minus infinity."""
    r = roundeven(x)
    return (r > x).where(r - 1.0, r).copysign(x)


def ceil(x: E) -> E:
    """Rounds toward plus infinity."""
    r = roundeven(x)
    return (r < x).where(r + 1.0, r).copysign(x)


def trunc(x: E) -> E:
    """Rounds toward zero."""
    if x.arithmetic.rounding:
        return E(math.TruncOp(x.value).result, x.arithmetic)
    return floor(x.abs()).copysign(x)


def round_half_away(x: E) -> E:
    """Rounds to the nearest integer, halves away from zero: truncates after adding the float just below 1/2."""
    below_half = 0.5 - 2.0 ** -(FORMATS[x.width].mantissa + 2)
    return trunc(x + x.constant(below_half).copysign(x))


def remainder(x: E, y: E) -> E:
    """C's fmod, exact: long division that subtracts ``|y| 2^k`` for falling k. No subtraction rounds.

    A denormal divisor is scaled up by 2^s. The dividend is first reduced by ``y 2^s``, which y divides, then the
    remainder is scaled up too.
    """
    form = FORMATS[x.width]
    d = y.abs()
    valid = (x.abs() < float("inf")) & (d > 0.0)
    scale = (d < 2.0 ** (2 - form.bias)).where(x.constant(2.0 ** (form.mantissa + 2)), x.constant(1.0))
    d = valid.where(d * scale, x.constant(1.0))  # a zero divisor would never end
    r = _reduce(valid.where(x.abs(), x.constant(0.0)), d)
    r = _reduce(r * scale, d) / scale
    invalid = valid.negate() | y.is_nan()
    return invalid.where(float("nan"), r.copysign(x))


def _reduce(start: E, d: E) -> E:
    """``start`` modulo ``d``, for a normal ``d`` (or NaN, which ends at once)."""
    mantissa, width = FORMATS[start.width].mantissa, start.width
    type_ = start.value.type
    loop = scf.WhileOp([type_], [start.value])
    before = ir.Block.create_at_start(loop.regions[0], [type_])
    after = ir.Block.create_at_start(loop.regions[1], [type_])
    with ir.InsertionPoint(before):
        r = E(before.arguments[0], start.arithmetic)
        scf.ConditionOp((r >= d).any(), [r.value])
    with ir.InsertionPoint(after):
        r = E(after.arguments[0], start.arithmetic)
        exponent = ((1 << (width - 1 - mantissa)) - 1) << mantissa
        gap = (r.bits() & exponent) - (d.bits() & exponent)
        shifted = (d.bits() + gap).as_float(start.element)
        shifted = (shifted > r).where(shifted * 0.5, shifted)
        scf.YieldOp([(r >= d).where(r - shifted, r).value])
    return E(loop.results[0], start.arithmetic)


def integer_power(x: E, n: E) -> E:
    """x^n for integers by squaring, wrapping on overflow. Negative n: 1 for x = 1, +-1 for x = -1, else 0."""
    one = x.constant(1)
    loop = scf.WhileOp([x.value.type] * 3, [x.value, n.value, one.value])
    types = [x.value.type] * 3
    before = ir.Block.create_at_start(loop.regions[0], types)
    after = ir.Block.create_at_start(loop.regions[1], types)
    with ir.InsertionPoint(before):
        rest = E(before.arguments[1], x.arithmetic)
        scf.ConditionOp((rest > 0).any(), list(before.arguments))
    with ir.InsertionPoint(after):
        base, rest, result = (E(a, x.arithmetic) for a in after.arguments)
        odd = (rest & 1).equals(1) & (rest > 0)
        scf.YieldOp([(base * base).value, (rest >> 1).value, odd.where(result * base, result).value])
    result = E(loop.results[2], x.arithmetic)
    odd = (n & 1).equals(1)
    negative = x.equals(1).where(one, x.equals(-1).where(odd.where(x.constant(-1), one), x.constant(0)))
    return (n < 0).where(negative, result)
