"""exp, exp2, expm1 and the hyperbolic functions.

Method (Cody and Waite, Software Manual for the Elementary Functions, 1980): ``x = n ln 2 + r`` with ``ln 2`` split in
two, a polynomial in ``r`` fitted at Chebyshev nodes to ``(e^r - 1 - r) / r^2``, and the power of two put together in
the exponent bits. ``n`` is read from the low bits of ``x log2 e + 1.5 * 2^m``, so that no float is converted to an
integer: NaN stays defined. All functions take f32 or f64, scalar or vector.
"""

from __future__ import annotations

from dataclasses import dataclass

from rillet.codegen.cpu.math.expression import E


@dataclass(frozen=True)
class Format:
    """A float format's constants for these algorithms."""

    mantissa: int  # stored bits of the significand
    bias: int
    magic: float  # 1.5 * 2^mantissa: adding it rounds to an integer
    ln2_high: float  # short enough that n * ln2_high is exact
    ln2_low: float
    exp_tail: tuple[float, ...]  # (e^r - 1 - r) / r^2
    exp_range: tuple[float, float]  # beyond, exp is 0 or infinite
    expm1_low: float  # below, expm1 is -1
    saturates: float  # above, tanh is 1


FORMATS = {
    32: Format(
        mantissa=23,
        bias=127,
        magic=12582912.0,
        ln2_high=0.693359375,
        ln2_low=-2.12194440054690583e-4,
        exp_tail=(0.00139269268, 0.00836377405, 0.0416665487, 0.166665733, 0.5),
        exp_range=(-104.0, 89.0),
        expm1_low=-20.0,
        saturates=10.0,
    ),
    64: Format(
        mantissa=52,
        bias=1023,
        magic=6755399441055744.0,
        ln2_high=6.93147180369123816490e-01,
        ln2_low=1.90821492927058770002e-10,
        exp_tail=(
            2.0915442297780116e-09,
            2.5106274733573296e-08,
            2.75572718102198e-07,
            2.755725283351691e-06,
            2.4801587327007187e-05,
            0.00019841269876864356,
            0.0013888888888883327,
            0.008333333333325544,
            0.04166666666666667,
            0.1666666666666667,
            0.5,
        ),
        exp_range=(-746.0, 710.0),
        expm1_low=-40.0,
        saturates=20.0,
    ),
}

_LOG2_E = 1.4426950408889634074
_EXP2_TAIL = {  # (2^r - 1) / r
    32: (0.000154541616, 0.0013392017, 0.00961808022, 0.0555035509, 0.240226507, 0.693147182),
}


def exp(x: E) -> E:
    """e^x. Error below 1 ULP; overflow to infinity and gradual underflow as IEEE 754 asks."""
    form = FORMATS[x.width]
    low, high = form.exp_range
    r, n = _reduce(x.at_least(low).at_most(high))
    y = (r * r).fma(r.polynomial(form.exp_tail), r) + 1.0
    return _scale(y, n)


def exp_in_range(x: E) -> E:
    """e^x where neither x nor the result is near a limit of the format (no denormal, no overflow, no NaN check
    needed)."""
    r, n = _reduce(x)
    y = (r * r).fma(r.polynomial(FORMATS[x.width].exp_tail), r) + 1.0
    return y * _power_of_two(n, x)


def exp2(x: E) -> E:
    """2^x: the integer part goes into the exponent, the rest is exact."""
    form = FORMATS[x.width]
    low, high = (-151.0, 129.0) if x.width == 32 else (-1076.0, 1025.0)
    t = x.at_least(low).at_most(high)
    rounded = t + form.magic
    r = t - (rounded - form.magic)
    if x.width == 32:
        y = r.fma(r.polynomial(_EXP2_TAIL[32]), 1.0)
    else:
        s = r * 0.69314718055994530942
        y = (s * s).fma(s.polynomial(form.exp_tail), s) + 1.0
    return _scale(y, rounded.bits() - x.constant(form.magic).bits())


def expm1(x: E) -> E:
    """e^x - 1 without cancellation near 0; keeps the sign of zero, and denormals."""
    return _is_tiny(x).where(x, _expm1(x.at_least(FORMATS[x.width].expm1_low)))


def tanh(x: E) -> E:
    """Hyperbolic tangent as ``t / (t + 2)`` with ``t = e^(2|x|) - 1``."""
    magnitude = x.abs()
    t = _expm1((magnitude + magnitude).at_most(2.0 * FORMATS[x.width].saturates))
    return (t / (t + 2.0)).copysign(x)


def sinh(x: E) -> E:
    """Hyperbolic sine as ``(t + t / (t + 1)) / 2`` with ``t = e^|x| - 1``; ``(e^(|x|/2))^2 / 2`` near overflow."""
    magnitude = x.abs()
    t = _expm1(magnitude.at_most(FORMATS[x.width].exp_range[1]))
    return _is_tiny(x).where(x, _near_overflow(x, (t + t / (t + 1.0)) * 0.5).copysign(x))


def cosh(x: E) -> E:
    """Hyperbolic cosine as ``(e^|x| + e^-|x|) / 2``; ``(e^(|x|/2))^2 / 2`` near overflow."""
    e = exp(x.abs())
    return _near_overflow(x, 0.5 * e + 0.5 / e)


def _is_tiny(x: E) -> E:
    """So small that e^x - 1 and sinh x round to x."""
    return x.abs() < 2.0 ** -(FORMATS[x.width].mantissa + 3)


def _near_overflow(x: E, y: E) -> E:
    half = exp(x.abs() * 0.5)
    return (x.abs() > (85.0 if x.width == 32 else 700.0)).where((half * 0.5) * half, y)


def _reduce(x: E) -> tuple[E, E]:
    """``(r, n)`` with ``x = n ln 2 + r``, ``|r| <= ln 2 / 2``; n as an integer of the same width."""
    form = FORMATS[x.width]
    rounded = x.fma(_LOG2_E, form.magic)
    n = rounded - form.magic
    r = n.fma(-form.ln2_low, n.fma(-form.ln2_high, x))
    return r, rounded.bits() - x.constant(form.magic).bits()


def _power_of_two(n: E, like: E) -> E:
    form = FORMATS[like.width]
    return ((n + form.bias) << form.mantissa).as_float(like.element)


def _scale(y: E, n: E) -> E:
    """``y * 2^n`` for any n: in two steps, so that neither factor leaves the format."""
    half = n >> 1
    return y * _power_of_two(half, y) * _power_of_two(n - half, y)


def _expm1(x: E) -> E:
    """``(q 2^(n-1) + (2^(n-1) - 1/2)) 2`` with ``q = e^r - 1``: exact for n = 0, and 2^(n-1) never overflows."""
    form = FORMATS[x.width]
    r, n = _reduce(x.at_most(form.exp_range[1]))
    q = (r * r).fma(r.polynomial(form.exp_tail), r)
    s = _power_of_two(n - 1, x)
    y = q.fma(s, s - 0.5)
    return y + y
