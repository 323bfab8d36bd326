"""Products with 1 + erf, such as GELU, ``x/2 (1 + erf(x/sqrt 2))``.

Such a product needs a small absolute error of erf. ``t = tanh(artanh(erf)/2)`` is a quotient of short polynomials, ``N
/ D``. Where erf is near 1, ``erf = 2t / (1 + t^2) = 2ND / (N^2 + D^2)`` keeps little of that quotient's error. The
formula computes half of it, ``h``: ``a (1 + 2h) = a + 2a h``, with one rounding of the sum. The coefficients are fitted
such that the absolute error of erf is even.
"""

from __future__ import annotations

from torch_mlir import ir

from rillet.codegen.math.arithmetic import Arithmetic
from rillet.codegen.math.expression import E, only_user
from rillet.ir.rewrite import float_constant, is_defined_by

_NUMERATOR = (18.041601, 422.1698, 7988.313, 53831.145)
_DENOMINATOR = (118.97055, 1744.3917, 21037.533, 134934.64)  # after a leading 1
_LARGEST = 5.625  # half_erf is exactly 1/2 there, with fused multiply-adds and without
_SQRT_2 = 1.41421356237309505


def fuse(erf: ir.Operation, arithmetic: Arithmetic) -> None:
    """Replace the product ``a (1 + erf(z))`` or ``a (1 + erf(z)) / 2`` that alone reads this ``math.erf``, if there is
    one, in f32."""
    total = only_user(erf, "arith.addf")
    if total is None or 1.0 not in _constants(total) or E(erf.operands[0], arithmetic).width != 32:
        return
    product = only_user(total, "arith.mulf")
    factors = [v for v in product.operands if v != total.results[0]] if product is not None else []
    if product is None or len(factors) != 1:
        return
    outer = only_user(product, "arith.mulf")
    halved = outer if outer is not None and 0.5 in _constants(outer) else None
    last = halved or product
    with ir.InsertionPoint(last), erf.location:
        a, h = E(factors[0], arithmetic), half_erf(_times_sqrt_2(erf.operands[0], arithmetic))
        twice = _other_factor(a.value, 0.5)
        if halved is not None:
            result = a.fma(h, a * 0.5)
        else:
            result = (h + h).fma(a, a) if twice is None else E(twice, arithmetic).fma(h, a)
    last.results[0].replace_all_uses_with(result.value)
    for op in (halved, product, total, erf):
        if op is not None:
            op.erase()


def half_erf(y: E) -> E:
    """``erf(y / sqrt 2) / 2`` for f32, which is ``Phi(y) - 1/2`` for the normal distribution ``Phi``. Absolute error
    below 1.5 * 2^-24, or 1.7 * 2^-24 where multiply-adds round twice; +0 for zeros of both signs."""
    y = y.at_most(_LARGEST).at_least(-_LARGEST)
    s = y * y
    n = y.fma(s.polynomial(_NUMERATOR), 0.0)
    d = s + _DENOMINATOR[0]
    for c in _DENOMINATOR[1:]:
        d = d.fma(s, c)
    return (n * d) / n.fma(n, d * d)


def _times_sqrt_2(z: ir.Value, arithmetic: Arithmetic) -> E:
    """``z sqrt 2``: the y of ``z = y sqrt(1/2)`` or ``z = y / sqrt 2``, else a product."""
    y = _other_factor(z, _SQRT_2 / 2)
    if y is None and is_defined_by(z, "arith.divf") and _is_about(float_constant(z.owner.operands[1]), _SQRT_2):
        y = z.owner.operands[0]
    return E(z, arithmetic) * _SQRT_2 if y is None else E(y, arithmetic)


def _other_factor(value: ir.Value, number: float) -> ir.Value | None:
    """The x of a value ``x * number``."""
    if not is_defined_by(value, "arith.mulf"):
        return None
    a, b = value.owner.operands
    return next((x for x, c in ((a, b), (b, a)) if _is_about(float_constant(c), number)), None)


def _is_about(constant: float | None, number: float) -> bool:
    """Whether a constant equals this number rounded to f32."""
    return constant is not None and abs(constant - number) <= 2.0**-24 * number


def _constants(op: ir.Operation) -> list[float | None]:
    return [float_constant(v) for v in op.operands]
