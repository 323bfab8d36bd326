"""erf and erfc.

f32 erf: ``x P(x^2)`` below 1, above it ``1 - Q(|x|)^4`` with Q fitted to the fourth root of erfc (whose relative
error is worth at most erfc/erf there), such that the error of its fourth power is even. f64:
``x P(x^2)`` below 0.7, above it through erfc(x) = ``t exp(-x^2 + R(2t - 1))``, ``t = 2 / (2 + x)`` (the form of
Numerical Recipes, 3rd edition, 6.2.2). Coefficients fitted at Chebyshev nodes.
"""

from __future__ import annotations

from rillet.codegen.math.exponential import FORMATS, exp
from rillet.codegen.math.expression import E

_SMALL_32 = (-0.000564996561, 0.00492272899, -0.0267164018, 0.112803832, -0.376123518, 0.128379136)  # erf(x) / x - 1
_LARGE_32 = (
    -3.08573944e-05, 0.000312136341, -0.000119169556, -0.00942058116, 0.0362566933, -0.00676991558, -0.102612935,
    -0.289096355, 1.00125051,
)  # fmt: skip
_SMALL_64 = (
    1.1800511424546129e-08, -1.602285887080469e-07, 1.643955163937148e-06, -1.4924721137472718e-05,
    0.00012055308296795711,
    -0.0008548326601313971, 0.005223977620934993, -0.02686617064485022, 0.11283791670954227, -0.3761263890318374,
    1.1283791670955126,
)  # fmt: skip
_ERFC_64 = (
    -1.2688119926824785e-08, 2.8118032825872497e-08, 7.97111903998291e-08, -2.8316490781078863e-07,
    -5.2053721502983554e-08,
    1.2734431343284941e-06, -1.3892961159422826e-06, -2.9555436797351925e-06, 8.641186326008817e-06,
    1.3678355501421476e-07,
    -3.022389030915297e-05, 3.174711277529072e-05, 7.141227503803034e-05, -0.00017430376945205215,
    -9.373738964429896e-05,
    0.0006736789776689058, -0.000146246545913202, -0.00234581252299243, 0.001758933532295934, 0.00882493855852648,
    -0.009872689365321156, -0.04689561023121765, 0.04734330684188674, 0.6726432239776571, -0.6717940840566922,
)  # fmt: skip


def erf(x: E) -> E:
    """The error function."""
    a = x.abs()
    if x.width == 32:
        limited = a.at_most(4.0)
        z = limited * limited
        small = x.fma(z.polynomial(_SMALL_32), x)
        # Even and odd powers apart: two chains of half the length.
        root = limited.fma(z.polynomial(_LARGE_32[1::2]), z.polynomial(_LARGE_32[0::2]))
        square = root * root
        large = (-square).fma(square, 1.0)
        return (a < 1.0).where(small, large.copysign(x))
    z = x * x
    small = x * z.polynomial(_SMALL_64)
    large = 1.0 - _erfc_of_magnitude(a.at_most(7.0))
    return (a < 0.7).where(small, large.copysign(x))


def erfc(x: E) -> E:
    """The complementary error function, accurate in its tail too."""
    a = x.abs()
    y = _erfc_of_magnitude(a.at_most(28.0))
    return (x < 0.0).where(2.0 - y, y)


def _erfc_of_magnitude(a: E) -> E:
    t = 2.0 / (a + 2.0)
    u = t + t - 1.0
    # The rounding error of a^2 would be magnified by exp: square a's upper half exactly and add the rest apart.
    lower_half = (1 << (FORMATS[a.width].mantissa + 1) // 2 + 1) - 1
    high = (a.bits() & ~lower_half).as_float(a.element)
    rest = (high - a).fma(high + a, u.polynomial(_ERFC_64))
    return t * exp(-(high * high)) * exp(rest)
