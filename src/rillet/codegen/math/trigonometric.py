"""Trigonometric functions and their inverses.

sin, cos, tan: ``x = n pi/2 + r`` with ``pi/2`` in three parts (Cody and Waite; the f64 parts are fdlibm's),
polynomials on [-pi/4, pi/4]. That is accurate while ``n`` times the first part is exact; larger x take a slower way
(``payne_hanek``), one by one where any element is that large.

atan: reduction at tan(pi/8) and tan(3 pi/8); asin: ``pi/2 - 2 asin(sqrt((1 - x) / 2))`` above 1/2 (both as in Cephes).
Coefficients fitted at Chebyshev nodes.
"""

from __future__ import annotations

import math as pymath

from torch_mlir import ir
from torch_mlir.dialects import scf

from rillet.codegen.math import payne_hanek
from rillet.codegen.math.exponential import FORMATS
from rillet.codegen.math.expression import E

_PI_2_PARTS = {
    32: (1.5703125, 4.837512969970703125e-4, 7.54978995489188216e-8),
    64: (1.57079632673412561417e00, 6.07710050630396597660e-11, 2.02226624879595063154e-21),
}
_LARGE = {32: 2.0**10, 64: 2.0**20}  # n times the first part has no more bits than the format
_LARGE_FUSED = {32: 2.0**12, 64: 2.0**30}  # the same where their product is not rounded
_SIN = {
    32: (2.72493139e-06, -0.000198400827, 0.00833333191, -0.166666672),
    64: (
        -7.586576588161299e-13, 1.605852957226768e-10, -2.505210621952189e-08, 2.755731921930192e-06,
        -0.00019841269841265017, 0.008333333333333331, -0.16666666666666666,
    ),
}  # fmt: skip
_COS = {
    32: (2.45474366e-05, -0.00138883002, 0.0416666642),
    64: (
        4.7458048897552406e-14, -1.1470459749675497e-11, 2.087675578389404e-09, -2.7557319221382114e-07,
        2.4801587301584618e-05, -0.0013888888888888887, 0.041666666666666664,
    ),
}  # fmt: skip
_ATAN = {
    32: (0.0851620734, -0.140232161, 0.199911892, -0.333332866),
    64: (
        0.016258132056324044, -0.03454561009628897, 0.045506220388065746, -0.05230241150698834, 0.05878900032329022,
        -0.06666422364031803, 0.07692296234491422, -0.09090908748635228, 0.1111111110505757, -0.14285714285658824,
        0.199999999999998, -0.3333333333333333,
    ),
}  # fmt: skip
_ASIN = {
    32: (0.0380939618, 0.0265506636, 0.0450018942, 0.0749885291, 0.166666731),
    64: (
        0.028778442630682865, -0.014881409421021383, 0.017419357984227668, 0.005450878180048017, 0.010324318290690684,
        0.011478952689927567, 0.013971235301162371, 0.017352391265906313, 0.022372173002005745, 0.03038194413708521,
        0.04464285714637338, 0.07499999999998425, 0.16666666666666669,
    ),
}  # fmt: skip
_PI = pymath.pi
_PI_LOW = 1.2246467991473531772e-16
_TAN_PI_8 = 0.4142135623730950488
_TAN_3PI_8 = 2.4142135623730950488


def sin(x: E) -> E:
    """Sine; keeps the sign of zero."""
    s, c, quadrant = _sin_cos(x)
    y = _signed((quadrant & 1).equals(1).where(c, s), quadrant)
    return x.equals(0.0).where(x, y)


def cos(x: E) -> E:
    """Cosine."""
    s, c, quadrant = _sin_cos(x)
    return _signed((quadrant & 1).equals(1).where(s, c), quadrant + 1)


def tan(x: E) -> E:
    """Tangent; keeps the sign of zero."""
    s, c, quadrant = _sin_cos(x)
    odd = (quadrant & 1).equals(1)
    return x.equals(0.0).where(x, odd.where(-c, s) / odd.where(s, c))


def atan(x: E) -> E:
    """Inverse tangent."""
    return _atan_of_magnitude(x.abs()).copysign(x)


def atan2(y: E, x: E) -> E:
    """The angle of (x, y) in (-pi, pi], with C's special cases."""
    ay, ax = y.abs(), x.abs()
    ratio = ay.equals(ax).where(ay.constant(1.0), ay / ax)  # also infinite by infinite
    ratio = ay.equals(0.0).where(ay.constant(0.0), ratio)
    angle = _atan_of_magnitude(ratio)
    angle = (x.bits() < 0).where(_PI - (angle - _PI_LOW), angle).copysign(y)
    return (x.is_nan() | y.is_nan()).where(pymath.nan, angle)


def asin(x: E) -> E:
    """Inverse sine; NaN outside [-1, 1]."""
    a = x.abs()
    big, p = _asin_parts(a)
    return big.where((_PI / 2) - (p + p - _PI_LOW / 2), p).copysign(x)


def acos(x: E) -> E:
    """Inverse cosine; NaN outside [-1, 1]."""
    big, p = _asin_parts(x.abs())
    twice = p + p
    near_ends = (x < 0.0).where(_PI - (twice - _PI_LOW), twice)
    middle = (_PI / 2) - (p.copysign(x) - _PI_LOW / 2)
    return big.where(near_ends, middle)


def _sin_cos(x: E) -> tuple[E, E, E]:
    """sin and cos of the reduced argument, and the quadrant as an integer."""
    r, quadrant = _reduced(x)
    z = r * r
    s = (r * z).fma(z.polynomial(_SIN[x.width]), r)
    c = (z * z).fma(z.polynomial(_COS[x.width]), z.fma(-0.5, 1.0))
    return s, c, quadrant


def _reduced(x: E) -> tuple[E, E]:
    """``x - n pi/2`` on [-pi/4, pi/4], and ``n`` modulo 4 in the low bits of an integer."""
    rounded = x.fma(2.0 / _PI, FORMATS[x.width].magic)
    n = rounded - FORMATS[x.width].magic
    r = x
    for part in _PI_2_PARTS[x.width]:
        r = n.fma(-part, r)
    near = (r, rounded.bits())
    limit = (_LARGE_FUSED if x.arithmetic.fma else _LARGE)[x.width]
    large = x.abs() > limit
    branch = scf.IfOp(large.any(), [e.value.type for e in near], has_else=True)
    with ir.InsertionPoint(branch.then_block):
        chosen = large & (x.abs() < pymath.inf)
        scf.YieldOp([chosen.where(f, n).value for f, n in zip(payne_hanek.reduce(x), near, strict=True)])
    with ir.InsertionPoint(branch.else_block):
        scf.YieldOp([e.value for e in near])
    first, second = (E(v, x.arithmetic) for v in branch.results)
    return first, second


def _signed(y: E, quadrant: E) -> E:
    """Negate where bit 1 of the quadrant is set."""
    sign = (quadrant & 2) << (y.width - 2)
    return (y.bits() ^ sign).as_float(y.element)


def _atan_of_magnitude(a: E) -> E:
    large, middle = a > _TAN_3PI_8, a > _TAN_PI_8
    z = large.where(-1.0 / a, middle.where((a - 1.0) / (a + 1.0), a))
    base = large.where(a.constant(_PI / 2), middle.where(a.constant(_PI / 4), a.constant(0.0)))
    low = large.where(a.constant(_PI_LOW / 2), middle.where(a.constant(_PI_LOW / 4), a.constant(0.0)))
    square = z * z
    return base + ((z * square).fma(square.polynomial(_ATAN[a.width]), low) + z)


def _asin_parts(a: E) -> tuple[E, E]:
    """Whether a > 1/2, and asin of a, or of sqrt((1 - a) / 2) when it is."""
    big = a > 0.5
    z = big.where((1.0 - a) * 0.5, a * a)
    s = big.where(z.sqrt(), a)
    return big, (s * z).fma(z.polynomial(_ASIN[a.width]), s)
