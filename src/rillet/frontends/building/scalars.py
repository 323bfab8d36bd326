"""Scalars in the bodies of structured ops: an MLIR value with its element type, and Python operators on it.

The element type is a numpy or ml_dtypes name (``"float32"``, ``"uint8"``, ``"bool"``, also ``"index"``), which
decides between the signed, unsigned and floating-point forms of an operation, since MLIR's integers are signless.
Both operands of an operator have the same type; a Python number takes the type of the other operand.

Floating-point ``maximum``/``minimum`` propagate NaN; comparisons are ordered (false on NaN) except ``!=`` (true on
NaN). Integer arithmetic wraps; ``//`` and ``%`` round towards minus infinity, ``truncdiv`` and ``truncmod`` towards
zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, math

from rillet.frontends.building.element_types import bits, element_type, is_float, is_signed, is_unsigned
from rillet.ir.constants import scalar_attr

Number = int | float | bool


@dataclass(frozen=True, eq=False)
class Scalar:
    """A scalar SSA value of a known element type."""

    value: ir.Value
    dtype: str

    def _lift(self, other: Scalar | Number) -> Scalar:
        if isinstance(other, Scalar):
            if other.dtype != self.dtype:
                raise TypeError(f"operands of types {self.dtype} and {other.dtype}")
            return other
        return constant(other, self.dtype)

    def _binary(self, other: Scalar | Number, real: Callable, signed: Callable, unsigned: Callable) -> Scalar:
        rhs = self._lift(other)
        emit = real if is_float(self.dtype) else signed if is_signed(self.dtype) else unsigned
        return Scalar(emit(self.value, rhs.value), self.dtype)

    def __add__(self, other: Scalar | Number) -> Scalar:
        return self._binary(other, arith.addf, arith.addi, arith.addi)

    def __sub__(self, other: Scalar | Number) -> Scalar:
        return self._binary(other, arith.subf, arith.subi, arith.subi)

    def __mul__(self, other: Scalar | Number) -> Scalar:
        return self._binary(other, arith.mulf, arith.muli, arith.muli)

    def __radd__(self, other: Number) -> Scalar:
        return constant(other, self.dtype) + self

    def __rsub__(self, other: Number) -> Scalar:
        return constant(other, self.dtype) - self

    def __rmul__(self, other: Number) -> Scalar:
        return constant(other, self.dtype) * self

    def __truediv__(self, other: Scalar | Number) -> Scalar:
        """Floating-point division."""
        if not is_float(self.dtype):
            raise TypeError(f"'/' on {self.dtype}; use '//' or truncdiv")
        return Scalar(arith.divf(self.value, self._lift(other).value), self.dtype)

    def __rtruediv__(self, other: Number) -> Scalar:
        return constant(other, self.dtype) / self

    def __floordiv__(self, other: Scalar | Number) -> Scalar:
        if is_float(self.dtype):
            return floor(self / other)
        return self._binary(other, arith.divf, arith.floordivsi, arith.divui)

    def __mod__(self, other: Scalar | Number) -> Scalar:
        """The remainder of ``//``: it has the divisor's sign."""
        rhs = self._lift(other)
        if is_unsigned(self.dtype):
            return Scalar(arith.remui(self.value, rhs.value), self.dtype)
        rest = truncmod(self, rhs)
        zero = constant(0, self.dtype)
        wrong_sign = (rest != zero) & ((rest < zero) ^ (rhs < zero))
        return select(wrong_sign, rest + rhs, rest)

    def __neg__(self) -> Scalar:
        if is_float(self.dtype):
            return Scalar(arith.negf(self.value), self.dtype)
        return constant(0, self.dtype) - self

    def __and__(self, other: Scalar | Number) -> Scalar:
        return Scalar(arith.andi(self.value, self._lift(other).value), self.dtype)

    def __or__(self, other: Scalar | Number) -> Scalar:
        return Scalar(arith.ori(self.value, self._lift(other).value), self.dtype)

    def __xor__(self, other: Scalar | Number) -> Scalar:
        return Scalar(arith.xori(self.value, self._lift(other).value), self.dtype)

    def __invert__(self) -> Scalar:
        """Bitwise complement; logical negation of a bool."""
        return self ^ (True if self.dtype == "bool" else -1)

    def _compare(self, other: Scalar | Number, name: str) -> Scalar:
        rhs = self._lift(other)
        if is_float(self.dtype):
            predicate = getattr(arith.CmpFPredicate, ("U" if name == "ne" else "O") + name.upper())
            return Scalar(arith.cmpf(predicate, self.value, rhs.value), "bool")
        prefix = "" if name in ("eq", "ne") else "s" if is_signed(self.dtype) else "u"
        return Scalar(arith.cmpi(getattr(arith.CmpIPredicate, prefix + name), self.value, rhs.value), "bool")

    def __lt__(self, other: Scalar | Number) -> Scalar:
        return self._compare(other, "lt")

    def __le__(self, other: Scalar | Number) -> Scalar:
        return self._compare(other, "le")

    def __gt__(self, other: Scalar | Number) -> Scalar:
        return self._compare(other, "gt")

    def __ge__(self, other: Scalar | Number) -> Scalar:
        return self._compare(other, "ge")

    def __eq__(self, other: Scalar | Number) -> Scalar:  # type: ignore[override]
        return self._compare(other, "eq")

    def __ne__(self, other: Scalar | Number) -> Scalar:  # type: ignore[override]
        return self._compare(other, "ne")

    __hash__ = object.__hash__


def constant(value: Number, dtype: str) -> Scalar:
    """A constant of ``dtype``."""
    type_ = element_type(dtype)
    return Scalar(arith.ConstantOp(type_, scalar_attr(value, type_)).result, dtype)


def select(condition: Scalar, a: Scalar, b: Scalar | Number) -> Scalar:
    """``a`` where ``condition`` holds, else ``b``."""
    return Scalar(arith.select(condition.value, a.value, a._lift(b).value), a.dtype)


def maximum(a: Scalar, b: Scalar | Number) -> Scalar:
    """The larger operand; NaN when either is NaN."""
    return a._binary(b, arith.maximumf, arith.maxsi, arith.maxui)


def minimum(a: Scalar, b: Scalar | Number) -> Scalar:
    """The smaller operand; NaN when either is NaN."""
    return a._binary(b, arith.minimumf, arith.minsi, arith.minui)


def truncdiv(a: Scalar, b: Scalar | Number) -> Scalar:
    """Integer division rounding towards zero; floating-point division for floats."""
    return a._binary(b, arith.divf, arith.divsi, arith.divui)


def truncmod(a: Scalar, b: Scalar | Number) -> Scalar:
    """The remainder with the dividend's sign, as C's ``%`` and ``fmod``."""
    return a._binary(b, arith.remf, arith.remsi, arith.remui)


def shift_left(a: Scalar, b: Scalar | Number) -> Scalar:
    """``a << b``; zero when ``b`` is negative or at least the width."""
    rhs = a._lift(b)
    return select(_unsigned(rhs) < bits(a.dtype), Scalar(arith.shli(a.value, rhs.value), a.dtype), 0)


def shift_right(a: Scalar, b: Scalar | Number) -> Scalar:
    """Logical (unsigned) or arithmetic (signed) ``a >> b``; all bits are the fill when ``b`` is negative or at least
    the width.
    """
    rhs = _unsigned(a._lift(b))
    if is_signed(a.dtype):
        return Scalar(arith.shrsi(a.value, minimum(rhs, bits(a.dtype) - 1).value), a.dtype)
    return select(rhs < bits(a.dtype), Scalar(arith.shrui(a.value, rhs.value), a.dtype), 0)


def _unsigned(a: Scalar) -> Scalar:
    """The same bits as an unsigned integer; a negative number becomes larger than any width."""
    return Scalar(a.value, "u" + a.dtype) if a.dtype.startswith("int") else a


def absolute(a: Scalar) -> Scalar:
    """The absolute value; identity for unsigned types."""
    if is_float(a.dtype):
        return Scalar(math.absf(a.value), a.dtype)
    return Scalar(math.absi(a.value), a.dtype) if is_signed(a.dtype) else a


def _unary(emit: Callable[[ir.Value], ir.Value], doc: str) -> Callable[[Scalar], Scalar]:
    def apply(a: Scalar) -> Scalar:
        return Scalar(emit(a.value), a.dtype)

    apply.__doc__ = doc
    return apply


exp = _unary(math.exp, "e to the power of a")
expm1 = _unary(math.expm1, "exp(a) - 1, accurate near zero")
log = _unary(math.log, "Natural logarithm")
log1p = _unary(math.log1p, "log(1 + a), accurate near zero")
sqrt = _unary(math.sqrt, "Square root")
tanh = _unary(math.tanh, "Hyperbolic tangent")
erf = _unary(math.erf, "Error function")
sin = _unary(math.sin, "Sine of radians")
cos = _unary(math.cos, "Cosine of radians")
tan = _unary(math.tan, "Tangent of radians")
asin = _unary(math.asin, "Inverse sine")
acos = _unary(math.acos, "Inverse cosine")
atan = _unary(math.atan, "Inverse tangent")
sinh = _unary(math.sinh, "Hyperbolic sine")
cosh = _unary(math.cosh, "Hyperbolic cosine")
asinh = _unary(math.asinh, "Inverse hyperbolic sine")
acosh = _unary(math.acosh, "Inverse hyperbolic cosine")
atanh = _unary(math.atanh, "Inverse hyperbolic tangent")
floor = _unary(math.floor, "Rounds down")
ceil = _unary(math.ceil, "Rounds up")
trunc = _unary(math.trunc, "Rounds towards zero")
roundeven = _unary(math.roundeven, "Rounds to nearest, ties to even")


def power(a: Scalar, b: Scalar) -> Scalar:
    """``a ** b`` of floats of one type."""
    return Scalar(math.powf(a.value, b.value), a.dtype)


def integer_power(a: Scalar, b: Scalar) -> Scalar:
    """``a ** b`` of integers of one type, exact modulo their width."""
    return Scalar(math.ipowi(a.value, b.value), a.dtype)


def is_nan(a: Scalar) -> Scalar:
    """Whether a float is NaN."""
    return Scalar(arith.cmpf(arith.CmpFPredicate.UNO, a.value, a.value), "bool")


def sigmoid(a: Scalar) -> Scalar:
    """1 / (1 + exp(-a))"""
    return 1.0 / (1.0 + exp(-a))
