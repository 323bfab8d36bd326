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

from rillet.ir import dtypes
from rillet.ir.constants import scalar_attr

Number = int | float | bool

_FLOATS = {"float64", "float32", "float16", "bfloat16"}
_SIGNED = {"int2", "int4", "int8", "int16", "int32", "int64", "index"}
_UNSIGNED = {"uint2", "uint4", "uint8", "uint16", "uint32", "uint64"}


def is_float(dtype: str) -> bool:
    """Whether ``dtype`` is a floating-point type of any width."""
    return dtype in _FLOATS or dtype.startswith("float")


def is_signed(dtype: str) -> bool:
    """Whether ``dtype`` is a signed integer (or ``index``)."""
    return dtype in _SIGNED


def is_unsigned(dtype: str) -> bool:
    """Whether ``dtype`` is an unsigned integer."""
    return dtype in _UNSIGNED


def is_integer(dtype: str) -> bool:
    """Whether ``dtype`` is an integer; bool is not."""
    return dtype in _SIGNED or dtype in _UNSIGNED


def is_complex(dtype: str) -> bool:
    """Whether ``dtype`` is complex."""
    return dtype.startswith("complex")


def element_type(dtype: str) -> ir.Type:
    """The MLIR type of a scalar of ``dtype``."""
    return ir.IndexType.get() if dtype == "index" else dtypes.mlir_type(dtype)


def compute_dtype(dtype: str) -> str:
    """The type in which arithmetic on ``dtype`` happens: narrow floats are storage types and compute in float32."""
    return "float32" if is_float(dtype) and dtype not in ("float32", "float64") else dtype


def bits(dtype: str) -> int:
    """Width of an integer or floating-point type; bool is 1 and index 64."""
    if dtype == "index":
        return 64
    type_ = dtypes.mlir_type(dtype)
    return type_.width  # type: ignore[attr-defined]


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
    """Logical (unsigned) or arithmetic (signed) ``a >> b``; only the fill is left when ``b`` is no bit's position."""
    rhs = _unsigned(a._lift(b))
    if is_signed(a.dtype):
        return Scalar(arith.shrsi(a.value, minimum(rhs, bits(a.dtype) - 1).value), a.dtype)
    return select(rhs < bits(a.dtype), Scalar(arith.shrui(a.value, rhs.value), a.dtype), 0)


def _unsigned(a: Scalar) -> Scalar:
    """The same bits as an unsigned integer, in which a negative number is out of every range."""
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


def convert(a: Scalar, dtype: str) -> Scalar:
    """Converts between element types: numbers keep their value as far as the target can hold it.

    Floats become integers by truncation (out-of-range values are undefined), integers wrap, anything becomes a bool
    by ``!= 0``, and floats round to nearest even. Saturation is the caller's business.
    """
    if a.dtype == dtype:
        return a
    if "float8_e8m0fnu" in (a.dtype, dtype):
        return _convert_e8m0(a, dtype)
    target = element_type(dtype)
    if dtype == "bool":
        return a != 0
    if dtype == "index" or a.dtype == "index":
        return _convert_index(a, dtype)
    if is_float(a.dtype):
        if is_float(dtype):
            return Scalar(_convert_float(a.value, a.dtype, dtype, target), dtype)
        return _float_to_integer(a, dtype)
    if is_float(dtype):
        emit = arith.sitofp if is_signed(a.dtype) else arith.uitofp
        if bits(dtype) < 32:  # integers have no direct conversion to the narrow storage types
            return convert(Scalar(emit(ir.F32Type.get(), a.value), "float32"), dtype)
        return Scalar(emit(target, a.value), dtype)
    if bits(a.dtype) == bits(dtype):
        return Scalar(a.value, dtype)
    if bits(a.dtype) > bits(dtype):
        return Scalar(arith.trunci(target, a.value), dtype)
    emit = arith.extsi if is_signed(a.dtype) else arith.extui
    return Scalar(emit(target, a.value), dtype)


def _convert_e8m0(a: Scalar, dtype: str) -> Scalar:
    from rillet.frontends.building import e8m0

    return e8m0.from_float32(convert(a, "float32")) if dtype == e8m0.DTYPE else convert(e8m0.to_float32(a), dtype)


def _convert_index(a: Scalar, dtype: str) -> Scalar:
    if dtype == "index":
        whole = a if is_integer(a.dtype) else convert(a, "int64")
        emit = arith.index_castui if is_unsigned(whole.dtype) else arith.index_cast
        return Scalar(emit(ir.IndexType.get(), whole.value), dtype)
    whole = Scalar(arith.index_cast(ir.IntegerType.get_signless(64), a.value), "int64")
    return convert(whole, dtype)


def _convert_float(value: ir.Value, source: str, dtype: str, target: ir.Type) -> ir.Value:
    if bits(source) < bits(dtype):
        return arith.extf(target, value)
    if bits(source) > bits(dtype):
        return arith.truncf(target, value)
    return arith.truncf(target, arith.extf(ir.F32Type.get(), value))


def _float_to_integer(a: Scalar, dtype: str) -> Scalar:
    if bits(a.dtype) < 32:
        a = convert(a, "float32")
    # Go through a wide signed integer, so that a negative value wraps into a narrow type as C compilers do.
    if bits(dtype) < 32:
        return convert(Scalar(arith.fptosi(ir.IntegerType.get_signless(32), a.value), "int32"), dtype)
    if dtype == "uint32":
        return convert(Scalar(arith.fptosi(ir.IntegerType.get_signless(64), a.value), "int64"), dtype)
    emit = arith.fptoui if is_unsigned(dtype) else arith.fptosi
    return Scalar(emit(element_type(dtype), a.value), dtype)
