"""exp, exp2, expm1 and the hyperbolic functions.

Method (Cody and Waite, Software Manual for the Elementary Functions, 1980): ``x = n ln 2 + r`` with ``ln 2`` split in
two, a polynomial in ``r`` fitted at Chebyshev nodes to ``(e^r - 1 - r) / r^2``, and the power of two put together in
the exponent bits. ``n`` is read from the low bits of ``x log2 e + 1.5 * 2^m``, so that no float is converted to an
integer: NaN stays defined. An offset added to that number becomes the exponent's bias, so that shifting the sum's bits
into place already gives a power of two. All functions take f32 or f64, scalar or vector.
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

    @property
    def offset(self) -> int:
        """What ``_scaled`` wants added to n: enough for half of the sum to be an exponent of a normal number."""
        return self.bias + self.mantissa + 3

    @property
    def unit(self) -> float:
        """What ``_scaled`` wants instead of 1."""
        return 2.0 ** (2 * self.bias - self.offset)


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
    r, bits = _reduce(x.at_least(low).at_most(high), form.offset)
    return _scaled(_exp_reduced(r, form.unit), bits)


def exp_nonpositive(x: E) -> E:
    """e^x of an x that is not positive, as of ``exp``: the power of two is a single normal number."""
    form = FORMATS[x.width]
    spare = form.mantissa + 2  # the polynomial is that many powers of two smaller, and the power larger
    r, bits = _reduce(x.at_least(form.exp_range[0]), form.bias + spare)
    return _exp_reduced(r, 2.0**-spare) * _power_of_two(bits, x)


def exp2(x: E) -> E:
    """2^x: the integer part goes into the exponent, the rest is exact."""
    form = FORMATS[x.width]
    low, high = (-151.0, 129.0) if x.width == 32 else (-1076.0, 1025.0)
    t = x.at_least(low).at_most(high)
    rounded = t + (form.magic + form.offset)
    r = t - (rounded - (form.magic + form.offset))
    if x.width == 32:
        y = r.polynomial(_times((*_EXP2_TAIL[32], 1.0), form.unit))
    else:
        y = _exp_reduced(r * 0.69314718055994530942, form.unit)
    return _scaled(y, rounded.bits())


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


def _reduce(x: E, offset: int) -> tuple[E, E]:
    """``(r, bits)`` with ``x = n ln 2 + r``, ``|r| <= ln 2 / 2``; the low bits are those of ``n + offset``."""
    form = FORMATS[x.width]
    rounded = x.fma(_LOG2_E, form.magic + offset)
    n = rounded - (form.magic + offset)
    r = n.fma(-form.ln2_low, n.fma(-form.ln2_high, x))
    return r, rounded.bits()


def _exp_reduced(r: E, unit: float) -> E:
    """``e^r`` times a power of two, for a reduced ``r``."""
    form = FORMATS[r.width]
    if r.target.fma:
        return r.polynomial(_times((*form.exp_tail, 1.0, 1.0), unit))
    # Every step rounds twice, so the 1 is added to something small and last.
    return ((r * r) * r.polynomial(form.exp_tail) + r) * unit + unit


def _power_of_two(bits: E, like: E) -> E:
    """``2^(k - bias)``, ``k`` the low bits of ``bits``, of which the exponent's field takes as many as it has."""
    return (bits << FORMATS[like.width].mantissa).as_float(like.element)


def _scaled(y: E, bits: E) -> E:
    """``y / unit * 2^n`` for any n that exp lets through, ``n + offset`` in the low bits of ``bits``.

    In two steps, so that neither factor leaves the format: ``n + offset`` is halved, and as biased exponents both
    halves are those of normal numbers. Only the last product rounds, also when it is denormal.
    """
    form = FORMATS[y.width]
    half = (bits << (form.mantissa - 1)) & (-1 << form.mantissa)
    rest = (bits << form.mantissa) - half
    return y * half.as_float(y.element) * rest.as_float(y.element)


def _times(coefficients: tuple[float, ...], power_of_two: float) -> tuple[float, ...]:
    return tuple(c * power_of_two for c in coefficients)


def _expm1(x: E) -> E:
    """``(q 2^(n-1) + (2^(n-1) - 1/2)) 2`` with ``q = e^r - 1``: exact for n = 0, and 2^(n-1) never overflows."""
    form = FORMATS[x.width]
    r, bits = _reduce(x.at_most(form.exp_range[1]), form.bias - 1)
    q = (r * r).fma(r.polynomial(form.exp_tail), r)
    s = _power_of_two(bits, x)
    y = q.fma(s, s - 0.5)
    return y + y
