"""The logistic function, ``1 / (1 + e^-x)``, as one formula: the sigmoid, also in SiLU and recurrent layers.

With ``e^-x = (q + 1) 2^n`` and ``c`` a power of two, it is ``c / (q s + (s + c))`` with ``s = 2^n c``. n is limited to
the range that matters to the sum, so that s is a normal number and no second factor is needed. c is so small that the
sum never overflows, so the division alone rounds a denormal quotient.
"""

from __future__ import annotations

from torch_mlir import ir

from rillet.codegen.math.arithmetic import Arithmetic
from rillet.codegen.math.exponential import FORMATS, power_of_two, reduced_expm1
from rillet.codegen.math.expression import E, only_user
from rillet.ir.rewrite import float_constant, is_defined_by


def fuse(exp: ir.Operation, arithmetic: Arithmetic) -> None:
    """Replace the quotient ``1 / (1 + e^z)`` that alone reads this ``math.exp``, if there is one."""
    total = only_user(exp, "arith.addf")
    if total is None or 1.0 not in map(float_constant, total.operands):
        return
    quotient = only_user(total, "arith.divf")
    if quotient is None or float_constant(quotient.operands[0]) != 1.0:
        return
    with ir.InsertionPoint(quotient), quotient.location:
        result = logistic(_negated(exp.operands[0], arithmetic))
    quotient.results[0].replace_all_uses_with(result.value)
    for op in (quotient, total, exp):
        op.erase()


def logistic(x: E) -> E:
    """``1 / (1 + e^-x)`` for f32 or f64. Error below 2.5 ULP, for denormal results too."""
    form = FORMATS[x.width]
    spare = form.mantissa + 2
    c = 2.0**-spare
    x = x.at_least(form.exp_range[0]).at_most(form.logistic_is_1)
    q, bits = reduced_expm1(x, form.bias - spare, -1)
    s = power_of_two(bits, x)
    return c / q.fma(s, s + c)


def _negated(z: ir.Value, arithmetic: Arithmetic) -> E:
    """``-z``: x where ``z = -x``, else a negation."""
    if is_defined_by(z, "arith.negf"):
        return E(z.owner.operation.operands[0], arithmetic)
    return -E(z, arithmetic)
