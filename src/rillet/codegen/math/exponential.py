"""exp, exp2, expm1 and the hyperbolic functions.

Method (Cody and Waite, Software Manual for the Elementary Functions, 1980): ``x = n ln 2 + r`` with ``ln 2`` split in
two, a polynomial in ``r`` fitted at Chebyshev nodes to ``(e^r - 1 - r) / r^2``, and the power of two assembled in the
exponent bits. ``n`` is read from the low bits of ``x log2 e + 1.5 * 2^m``. That converts no float to an integer, so NaN
stays defined. An offset added to that number becomes the exponent's bias, so that shifting the sum's bits into place
already gives a power of two ``s``. ``e^r - 1`` is small, so its rounding adds little to the rounding of ``(e^r - 1) s +
s``. All functions take f32 or f64, scalar or vector.
"""

from __future__ import annotations

from dataclasses import dataclass

from rillet.codegen.math.expression import E


@dataclass(frozen=True)
class Format:
    """A float format's constants for these algorithms."""

    mantissa: int  # stored bits of the significand
    bias: int
    magic: float  # 1.5 * 2^mantissa: adding it rounds to an integer
    ln2_high: float  # short enough that n * ln2_high is exact
    shortener: float  # adding and subtracting it shortens a fraction such that its product with ln2_high is exact
    ln2_low: float
    exp_tail: tuple[float, ...]  # (e^r - 1 - r) / r^2
    exp_range: tuple[float, float]  # beyond these, exp is 0 or infinite
    expm1_low: float  # below it, expm1 is -1
    saturates: float  # above it, tanh is 1
    tanh_is_x: float  # below it, x^3 / 3 is less than half a unit in the last place of x
    logistic_is_1: float  # e^-x is much less than half a unit in the last place of 1 there


FORMATS = {
    32: Format(
        mantissa=23,
        bias=127,
        magic=12582912.0,
        ln2_high=0.693359375,
        shortener=1.5 * 2.0 ** (23 - 13),
        ln2_low=-2.12194440054690583e-4,
        exp_tail=(0.00137792341, 0.00837002695, 0.0416691490, 0.166665286, 0.49999997),
        exp_range=(-104.0, 89.0),
        expm1_low=-20.0,
        saturates=10.0,
        tanh_is_x=3.5e-4,
        logistic_is_1=60.0,
    ),
    64: Format(
        mantissa=52,
        bias=1023,
        magic=6755399441055744.0,
        ln2_high=6.93147180369123816490e-01,
        shortener=1.5 * 2.0 ** (52 - 19),
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
        tanh_is_x=7.4e-9,
        logistic_is_1=600.0,
    ),
}

_LOG2_E = 1.4426950408889634074
_LN_2 = 0.69314718055994530942
_SHORT_EXP_TAIL = (0.008312501, 0.041890323, 0.16667116, 0.4999923)  # for f32: relative error of e^r below 1.1e-7


def exp(x: E) -> E:
    """e^x. Error below 1 ULP; overflow to infinity and gradual underflow as IEEE 754 asks."""
    low, high = FORMATS[x.width].exp_range
    r, rest, bits = _reduce(x.at_least(low).at_most(high), _two_halves(x))
    return _scaled(_expm1_reduced(r, rest), bits)


def exp_nonpositive(x: E, *, scaled: bool = False) -> E:
    """e^x for an x that is not positive, as accurate as ``exp``: one normal number gives its power of two.

    ``scaled``: times a power of two, the same for every x, such that no result is denormal. Such results are terms of a
    sum that contains e^0. So in f32 errors of 2.2 ULP near 0 and of 6 ULP near e^-104 are small enough: ``ln 2`` is
    rounded once, and the polynomial has one degree less.
    """
    form = FORMATS[x.width]
    spare = form.mantissa + 2
    x = x.at_least(form.exp_range[0])
    if scaled and x.width == 32 and x.arithmetic.fma:
        rounded = x.fma(_LOG2_E, form.magic + (form.bias + spare))
        r = (rounded - (form.magic + (form.bias + spare))).fma(-_LN_2, x)
        square = r * r
        s = power_of_two(rounded.bits(), x)
        return square.fma(r.paired_polynomial(_SHORT_EXP_TAIL, square), r).fma(s, s)
    r, rest, bits = _reduce(x, form.bias + spare)
    s = power_of_two(bits, x)
    y = _expm1_reduced(r, rest).fma(s, s)
    return y if scaled else y * 2.0**-spare


def exp2(x: E) -> E:
    """2^x: the integer part goes into the exponent, the rest is exact."""
    form = FORMATS[x.width]
    low, high = (-151.0, 129.0) if x.width == 32 else (-1076.0, 1025.0)
    t = x.at_least(low).at_most(high)
    rounded = t + (form.magic + _two_halves(x))
    fraction = t - (rounded - (form.magic + _two_halves(x)))
    return _scaled(_expm1_reduced(*_times_ln2(fraction)), rounded.bits())


def expm1(x: E) -> E:
    """e^x - 1 without cancellation near 0; keeps the sign of zero, and denormals."""
    return _is_tiny(x).where(x, _expm1(x.at_least(FORMATS[x.width].expm1_low)))


def tanh(x: E) -> E:
    """Hyperbolic tangent as ``t / (t + 1)`` with ``t = (e^(2|x|) - 1) / 2``, which never exceeds 1. The result is x
    where x is the nearest number. Error below 2.5 ULP."""
    form = FORMATS[x.width]
    magnitude = x.abs()
    q, bits = reduced_expm1(magnitude.at_most(form.saturates), form.bias, 2)
    s = power_of_two(bits, x)
    t = q.fma(s, s.fma(0.5, -0.5))  # exact for n = 0
    y = (t / (t + 1.0)).bits() | (x.bits() ^ magnitude.bits())  # not negative itself
    return (magnitude < form.tanh_is_x).where(x, y.as_float(x.element))


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
    """Whether x is so small that e^x - 1 and sinh x round to x."""
    return x.abs() < 2.0 ** -(FORMATS[x.width].mantissa + 3)


def _near_overflow(x: E, y: E) -> E:
    half = exp(x.abs() * 0.5)
    return (x.abs() > (85.0 if x.width == 32 else 700.0)).where((half * 0.5) * half, y)


def reduced_expm1(x: E, offset: int, factor: int) -> tuple[E, E]:
    """``(q, bits)`` with ``e^(factor x) = (|factor| q + 1) 2^n`` for a ``factor`` of 1, -1 or 2; the low bits of
    ``bits`` are those of ``n + offset``."""
    r, rest, bits = _reduce(x, offset, factor)
    return _expm1_reduced(r, rest, factor), bits


def _reduce(x: E, offset: int, factor: int = 1) -> tuple[E, E | None, E]:
    """``(r, rest, bits)`` with ``factor x = n ln 2 + factor (r + rest)``, ``|factor r| <= ln 2 / 2``; the low bits of
    ``bits`` are those of ``n + offset``. The result depends on ``rest`` only where multiply-adds round twice."""
    form = FORMATS[x.width]
    rounded = x.fma(factor * _LOG2_E, form.magic + offset)
    n = rounded - (form.magic + offset)
    high = n.fma(-form.ln2_high / factor, x)  # exact
    r = n.fma(-form.ln2_low / factor, high)
    rest = None if x.arithmetic.fma else (high - r) - n * (form.ln2_low / factor)
    return r, rest, rounded.bits()


def _times_ln2(x: E) -> tuple[E, E]:
    """``x ln 2`` for a fraction x: the rounded product, and its rounding error."""
    form = FORMATS[x.width]
    ln2 = form.ln2_high + form.ln2_low
    r = x * ln2
    if x.arithmetic.fma:
        return r, x.fma(ln2, -r)
    short = (x + form.shortener) - form.shortener
    return r, (short * form.ln2_high - r) + (short * form.ln2_low + (x - short) * ln2)


def _expm1_reduced(r: E, rest: E | None, factor: int = 1) -> E:
    """``(e^(factor r) - 1) / |factor|`` for a reduced ``r``; ``rest`` is small and added to ``r``."""
    square = r * r
    # The factor goes into the constants: a sign, for example, would not always be part of another instruction.
    powers = reversed(range(len(FORMATS[r.width].exp_tail)))
    coefficients = zip(FORMATS[r.width].exp_tail, powers, strict=True)
    *others, last = (c * abs(factor) * factor**power for c, power in coefficients)
    tail = r.paired_polynomial(others, square).fma(r, last)
    if factor < 0:
        r, rest = -r, None if rest is None else -rest
    return square.fma(tail, r) if rest is None else r + square.fma(tail, rest)


def power_of_two(bits: E, like: E) -> E:
    """``2^(k - bias)``, where ``k`` is the low bits of ``bits``, as many as the exponent's field has."""
    return (bits << FORMATS[like.width].mantissa).as_float(like.element)


def _two_halves(like: E) -> int:
    """The offset that ``_scaled`` needs added to n: half of the sum is then the exponent of a normal number."""
    return 2 * FORMATS[like.width].bias


def _scaled(q: E, bits: E) -> E:
    """``(q + 1) 2^n`` for any n that exp lets through; ``bits`` has ``n + _two_halves`` in its low bits.

    It takes two steps, so that neither factor leaves the format: the sum is halved, and both halves are biased
    exponents of normal numbers. The first step rounds as if the exponent were unbounded. The last step rounds only a
    denormal result.
    """
    form = FORMATS[q.width]
    half = (bits << (form.mantissa - 1)) & (-1 << form.mantissa)
    rest = (bits << form.mantissa) - half
    s = half.as_float(q.element)
    return q.fma(s, s) * rest.as_float(q.element)


def _expm1(x: E) -> E:
    """``(q 2^(n-1) + (2^(n-1) - 1/2)) 2`` with ``q = e^r - 1``: exact for n = 0, and 2^(n-1) never overflows."""
    form = FORMATS[x.width]
    r, rest, bits = _reduce(x.at_most(form.exp_range[1]), form.bias - 1)
    q = _expm1_reduced(r, rest)
    s = power_of_two(bits, x)
    y = q.fma(s, s - 0.5)
    return y + y
