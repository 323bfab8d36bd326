"""Division of many elements by the same number from its reciprocal, where multiply-adds are fused.

With ``r`` the rounded reciprocal of ``d`` and ``q = x r``, the remainder ``e = x - q d`` is exact and ``q + e r`` is
the correctly rounded quotient (Markstein, Computation of elementary functions on the IBM RISC System/6000 processor,
1990); a denormal quotient may be one unit off. A vector division occupies its unit several times as long.
"""

from __future__ import annotations

from torch_mlir import ir

from rillet.codegen.cpu.math.expression import E
from rillet.codegen.cpu.shares import SHARE


def divide(op: ir.Operation, x: E, d: E) -> E | None:
    """``x / d`` for an ``arith.divf`` that ``cpu.shares`` has marked, or None where the instruction is to be used."""
    if SHARE not in op.attributes or not x.target.fma:
        return None
    r = 1.0 / d
    q = x * r
    return (-q).fma(d, x).fma(r, q)
