"""Division of many elements by the same number from its reciprocal, where multiply-adds are fused.

The reciprocal of ``d`` is computed once in two parts: ``r``, which is rounded, and ``r (1 - d r)``, the rounding error.
``x`` times their sum is the quotient, with an error of little more than half a unit in the last place. A vector
division occupies its unit several times as long.
"""

from __future__ import annotations

from torch_mlir import ir

from rillet.codegen.math.expression import E
from rillet.codegen.recognize.softmax import SHARE


def divide(op: ir.Operation, x: E, d: E) -> E | None:
    """``x / d`` for an ``arith.divf`` that ``rewrites.mark_softmax`` marked; None when it is to stay."""
    if SHARE not in op.attributes or not x.arithmetic.fma:
        return None
    r = 1.0 / d
    rest = (-r).fma(d, 1.0) * r
    return x.fma(r, x * rest)
