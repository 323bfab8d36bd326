"""Logarithms, powers, inverse hyperbolic functions.

Method: ``x = 2^e m`` with ``m`` in [sqrt(1/2), sqrt(2)) read off the bits. f32: ``log(1 + f) = f - f^2/2 + f^3 P(f)``
(Cephes' form); f64: fdlibm's ``s = f / (2 + f)``, ``log(1 + f) = f - (f^2/2 - s (f^2/2 + R(s^2)))``. Coefficients
fitted at Chebyshev nodes.
"""

from __future__ import annotations

import math as pymath
from dataclasses import dataclass

from rillet.codegen.math.exponential import FORMATS, exp
from rillet.codegen.math.expression import E

_LOG2_E = 1.4426950408889634074
_LOG10_E = 0.43429448190325182765
_LOG10_2_HIGH = {32: 0.301025390625, 64: 3.01029995663611771306e-01}
_LOG10_2_LOW = {32: 4.605038981195214e-06, 64: 3.69423907715893078616e-13}
_LN2 = 0.69314718055994530942

_ROOT_HALF_BITS = {32: 0x3F3504F3, 64: 0x3FE6A09E667F3BCD}
_MIN_NORMAL = {32: 2.0**-126, 64: 2.0**-1022}
_TAIL_32 = (
    0.0697161183, -0.114797339, 0.116854198, -0.124256872, 0.142490581, -0.166678026, 0.200007156, -0.24999997,
    0.333333313,
)  # fmt: skip
_TAIL_64 = (
    0.13100721383550756, 0.13267418596469616, 0.15386290534659228, 0.18181794700897794, 0.2222222240054776,
    0.2857142857076445, 0.4000000000000094, 0.6666666666666666,
)  # fmt: skip


@dataclass(frozen=True)
class _Split:
    exponent: E  # as a float
    f: E  # m - 1
    tail: E  # log(1 + f) - f


def _split(x: E) -> _Split:
    form = FORMATS[x.width]
    is_small = x < _MIN_NORMAL[x.width]
    scaled = is_small.where(x * 2.0**form.mantissa, x)
    shifted = scaled.bits() - _ROOT_HALF_BITS[x.width]
    exponent = (shifted >> form.mantissa).to_float(x.element)
    exponent = is_small.where(exponent - float(form.mantissa), exponent)
    m = ((shifted & ((1 << form.mantissa) - 1)) + _ROOT_HALF_BITS[x.width]).as_float(x.element)
    f = m - 1.0
    square = f * f
    if x.width == 32:
        return _Split(exponent, f, square * (f.fma(f.polynomial(_TAIL_32), -0.5)))
    s = f / (f + 2.0)
    z = s * s
    half = square * 0.5
    return _Split(exponent, f, s * (half + z * z.polynomial(_TAIL_64)) - half)


def _specials(x: E, y: E) -> E:
    """A logarithm's value at 0, below 0, at infinity and NaN."""
    y = (x < pymath.inf).where(y, x)
    y = x.equals(0.0).where(-pymath.inf, y)
    return (x < 0.0).where(pymath.nan, y)


def log(x: E) -> E:
    """Natural logarithm."""
    form = FORMATS[x.width]
    s = _split(x)
    low = s.exponent.fma(form.ln2_low, s.tail)
    return _specials(x, s.exponent.fma(form.ln2_high, s.f + low))


def log2(x: E) -> E:
    """Logarithm to base 2."""
    s = _split(x)
    return _specials(x, (s.f + s.tail).fma(_LOG2_E, s.exponent))


def log10(x: E) -> E:
    """Logarithm to base 10."""
    s = _split(x)
    low = (s.f + s.tail).fma(_LOG10_E, s.exponent * _LOG10_2_LOW[x.width])
    return _specials(x, s.exponent.fma(_LOG10_2_HIGH[x.width], low))


def log1p(x: E) -> E:
    """log(1 + x): the rounding error of ``1 + x`` is added back to first order (Kahan's correction, as in fdlibm)."""
    u = x + 1.0
    error = (x >= 1.0).where(1.0 - (u - x), x - (u - 1.0))
    usable = (u > 0.0) & (u < pymath.inf)
    y = log(u) + usable.where(error / u, x.constant(0.0))
    return x.equals(0.0).where(x, y)


def asinh(x: E) -> E:
    """Inverse hyperbolic sine: ``log1p(a + a^2 / (1 + sqrt(a^2 + 1)))``, ``log(a) + log 2`` for large a."""
    a = x.abs()
    square = a * a
    small = log1p(a + square / ((square + 1.0).sqrt() + 1.0))
    large = log(a) + _LN2
    return (a > _large(x)).where(large, small).copysign(x)


def acosh(x: E) -> E:
    """Inverse hyperbolic cosine: ``log1p(t + sqrt(2t + t^2))`` with ``t = x - 1``; NaN below 1."""
    t = x - 1.0
    small = log1p(t + t.fma(t, t + t).sqrt())
    y = (x > _large(x)).where(log(x) + _LN2, small)
    return (x < 1.0).where(pymath.nan, y)


def atanh(x: E) -> E:
    """Inverse hyperbolic tangent: ``log1p(2a / (1 - a)) / 2``."""
    a = x.abs()
    return (log1p((a + a) / (1.0 - a)) * 0.5).copysign(x)


def cbrt(x: E) -> E:
    """Cube root: ``exp(log(a) / 3)``, then one step of Newton's method."""
    a = x.abs()
    y = exp(log(a) * (1.0 / 3.0))
    better = y + (a / (y * y) - y) * (1.0 / 3.0)
    ordinary = (a > 0.0) & (a < pymath.inf)
    return ordinary.where(better, a).copysign(x)


def power(x: E, y: E) -> E:
    """x^y as ``exp(y log |x|)`` with IEEE 754's special cases. f32 callers run it in f64, where it is accurate to 1
    ULP of f32."""
    a = x.abs()
    magnitude = exp(y * log(a))
    is_one = a.equals(1.0) | y.equals(0.0)
    magnitude = is_one.where(x.constant(1.0), magnitude)
    whole, odd = _integrality(y)
    negative = (x.bits() < 0) & odd
    signed = negative.where(-magnitude, magnitude)
    invalid = (x < 0.0) & whole.negate() & (y.abs() < pymath.inf) & (a < pymath.inf)
    result = invalid.where(pymath.nan, signed)
    keeps_nan = (x.is_nan() | y.is_nan()) & (y.equals(0.0) | x.equals(1.0)).negate()
    return keeps_nan.where(pymath.nan, result)


def _integrality(y: E) -> tuple[E, E]:
    """Whether y is an integer, and whether it is an odd one."""
    form = FORMATS[y.width]
    limit = 2.0**form.mantissa
    a = y.abs()
    magic = y.constant(limit)
    # For a < 2^mantissa, adding 2^mantissa rounds to an integer and leaves its parity in the lowest bit.
    rounded = a + magic
    whole_small = (rounded - magic).equals(a)
    odd_small = (rounded.bits() & 1).equals(1)
    # In [2^mantissa, 2^(mantissa+1)) every float is an integer and the lowest bit is its parity.
    odd_large = (a.bits() & 1).equals(1) & (a < 2.0 * limit)
    is_small = a < limit
    return (is_small.negate() | whole_small), (is_small & whole_small & odd_small) | (is_small.negate() & odd_large)


def _large(x: E) -> float:
    return 1e4 if x.width == 32 else 1e8
