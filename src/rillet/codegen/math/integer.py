"""Integer division that no operand can make trap: division by zero gives 0 (as numpy does), and the lowest value by -1
wraps.

Lanes that a mask excludes hold zeros, so a vector division meets zero divisors even where the data has none.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.codegen.math.expression import E
from rillet.ir.rewrite import scalar_constant


def divide_signed(n: E, d: E) -> E:
    """Quotient, toward zero."""
    usual, safe = _signed_divisor(d)
    quotient = E(arith.DivSIOp(n.value, safe.value).result, n.arithmetic)
    other = d.equals(0).where(n.constant(0), n.constant(0) - n)
    return usual.where(quotient, other)


def remainder_signed(n: E, d: E) -> E:
    """Remainder with the sign of the dividend."""
    usual, safe = _signed_divisor(d)
    return usual.where(E(arith.RemSIOp(n.value, safe.value).result, n.arithmetic), n.constant(0))


def divide_unsigned(n: E, d: E) -> E:
    """Quotient of unsigned numbers."""
    zero = d.equals(0)
    safe = zero.where(d.constant(1), d)
    return zero.where(n.constant(0), E(arith.DivUIOp(n.value, safe.value).result, n.arithmetic))


def remainder_unsigned(n: E, d: E) -> E:
    """Remainder of unsigned numbers."""
    zero = d.equals(0)
    safe = zero.where(d.constant(1), d)
    return zero.where(n.constant(0), E(arith.RemUIOp(n.value, safe.value).result, n.arithmetic))


def floor_divide(n: E, d: E) -> E:
    """Quotient toward minus infinity."""
    quotient, remainder = divide_signed(n, d), remainder_signed(n, d)
    below = remainder.differs(0) & ((remainder < 0) ^ (d < 0))
    return below.where(quotient - 1, quotient)


def ceil_divide(n: E, d: E) -> E:
    """Quotient toward plus infinity."""
    quotient, remainder = divide_signed(n, d), remainder_signed(n, d)
    above = remainder.differs(0) & ((remainder < 0) ^ (d < 0)).negate()
    return above.where(quotient + 1, quotient)


def ceil_divide_unsigned(n: E, d: E) -> E:
    """Quotient of unsigned numbers toward plus infinity."""
    quotient, remainder = divide_unsigned(n, d), remainder_unsigned(n, d)
    return remainder.differs(0).where(quotient + 1, quotient)


def _signed_divisor(d: E) -> tuple[E, E]:
    """Whether the division is an ordinary one, and a divisor that is always safe."""
    usual = d.differs(0) & d.differs(-1)
    return usual, usual.where(d, d.constant(1))


def is_safe(op: ir.Operation) -> bool:
    """True for a divisor that is a constant other than 0 and -1: the instruction cannot trap."""
    divisor = scalar_constant(op.operands[1])
    return divisor is not None and ir.IntegerAttr(divisor).value not in (0, -1)
