"""Unary, binary, comparison, logical and bitwise ops, Cast, Where, Clip: one elementwise generic each."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from rillet.frontends.building import e8m0, element_types, scalars
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.element_types import compute_dtype, is_float
from rillet.frontends.building.scalars import Scalar, maximum, minimum, select
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.frontends.onnx.node import Node, dtype_name
from rillet.frontends.onnx.registry import op
from rillet.ir import dtypes

# The most operands of one loop of a variadic operation.
_AT_A_TIME = 16

_UNARY: dict[str, Callable[[Scalar], Scalar]] = {
    "Abs": scalars.absolute,
    "Neg": lambda x: -x,
    "Exp": scalars.exp,
    "Log": scalars.log,
    "Sqrt": scalars.sqrt,
    "Reciprocal": lambda x: 1.0 / x,
    "Erf": scalars.erf,
    "Sin": scalars.sin,
    "Cos": scalars.cos,
    "Tan": scalars.tan,
    "Asin": scalars.asin,
    "Acos": scalars.acos,
    "Atan": scalars.atan,
    "Sinh": scalars.sinh,
    "Cosh": scalars.cosh,
    "Asinh": scalars.asinh,
    "Acosh": scalars.acosh,
    "Atanh": scalars.atanh,
    "Ceil": scalars.ceil,
    "Floor": scalars.floor,
    "Round": scalars.roundeven,
    "Not": lambda x: ~x,
    "BitwiseNot": lambda x: ~x,
}


@op(*_UNARY)
def unary(node: Node, x: Tensor) -> Tensor:
    """The function of ``_UNARY`` on each element."""
    return node.b.map(_UNARY[node.op_type], x)


@op("Sign")
def sign(node: Node, x: Tensor) -> Tensor:
    """-1, 0 or 1; NaN stays NaN."""

    def body(v: Scalar) -> Scalar:
        one = scalars.constant(1, v.dtype)
        if element_types.is_unsigned(v.dtype):
            return select(v > 0, one, 0)
        # NaN stays NaN: it is neither above nor below zero, and v itself is returned.
        return select(v > 0, one, select(v < 0, scalars.constant(-1, v.dtype), v))

    return node.b.map(body, x)


@op("IsNaN")
def is_nan(node: Node, x: Tensor) -> Tensor:
    """Whether each element is NaN, as bool."""
    return node.b.map(scalars.is_nan, x, dtype="bool")


@op("IsInf")
def is_inf(node: Node, x: Tensor) -> Tensor:
    """Whether each element is -inf (with ``detect_negative``) or +inf (with ``detect_positive``), as bool."""
    infinity = float("inf")
    negative, positive = node.attr("detect_negative", 1), node.attr("detect_positive", 1)

    def body(v: Scalar) -> Scalar:
        if negative and positive:
            return scalars.absolute(v) == infinity
        if negative or positive:
            return v == (infinity if positive else -infinity)
        return scalars.constant(False, "bool")

    return node.b.map(body, x, dtype="bool")


# --- binary ---


def _legacy_broadcast(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """Before opset 7 the second operand broadcasts only with ``broadcast=1``, aligned at ``axis``."""
    if node.opset >= 7 or not node.attr("broadcast", 0) or not node.has("axis"):
        return b
    axis = node.axis(node.attr("axis"), a.rank)
    return node.b.reshape(b, [*b.shape, *[1] * (a.rank - axis - b.rank)])


_BINARY: dict[str, Callable[[Scalar, Scalar], Scalar]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": scalars.truncdiv,
    "And": lambda a, b: a & b,
    "Or": lambda a, b: a | b,
    "Xor": lambda a, b: a ^ b,
    "BitwiseAnd": lambda a, b: a & b,
    "BitwiseOr": lambda a, b: a | b,
    "BitwiseXor": lambda a, b: a ^ b,
}
_COMPARE: dict[str, Callable[[Scalar, Scalar], Scalar]] = {
    "Equal": lambda a, b: a == b,
    "Less": lambda a, b: a < b,
    "LessOrEqual": lambda a, b: a <= b,
    "Greater": lambda a, b: a > b,
    "GreaterOrEqual": lambda a, b: a >= b,
}


@op(*_BINARY)
def binary(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """The function of ``_BINARY`` on each pair of elements; Div of integers truncates."""
    return node.b.map(_BINARY[node.op_type], a, _legacy_broadcast(node, a, b))


@op(*_COMPARE)
def compare(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """The comparison of ``_COMPARE`` on each pair of elements, as bool. Raises UnsupportedFeature for strings."""
    if "string" in (a.dtype, b.dtype):
        raise UnsupportedFeature("comparison of strings", "number the strings before the model")
    return node.b.map(_COMPARE[node.op_type], a, _legacy_broadcast(node, a, b), dtype="bool")


@op("Mod")
def mod(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """The remainder with the divisor's sign, or with ``fmod=1`` that of C's fmod, with the dividend's sign."""
    if node.attr("fmod", 0):
        return node.b.map(scalars.truncmod, a, b)
    return node.b.map(lambda x, y: x % y, a, b)


@op("BitShift")
def bit_shift(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """a << b or a >> b, as ``direction`` says."""
    shift = scalars.shift_left if node.attr("direction") == "LEFT" else scalars.shift_right
    return node.b.map(shift, a, b)


@op("Pow")
def power(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """a ** b in a's type.

    A constant b of 1, 2, 3, 4 or 1/2 becomes products or a square root. Integer powers of integers are exact.
    """
    b = _legacy_broadcast(node, a, b)
    exponent = b.array.reshape(-1)[0].item() if b.array is not None and b.array.size == 1 else None
    if exponent in (1, 2, 3, 4):
        # Small whole powers are products: exact where pow is not, for negative bases too.
        shape = node.b.broadcast_shape([a.shape, b.shape])
        return node.b.map(lambda x: reduce(lambda p, q: p * q, [x] * int(exponent)), a, shape=shape)
    if exponent == 0.5 and is_float(a.dtype):
        return node.b.map(scalars.sqrt, a, shape=node.b.broadcast_shape([a.shape, b.shape]))

    def body(x: Scalar, y: Scalar) -> Scalar:
        if is_float(x.dtype):
            return scalars.power(x, convert(y, x.dtype))
        if element_types.is_integer(y.dtype):
            return scalars.integer_power(x, convert(y, x.dtype))
        # Whole exponents are exact; the others are truncated.
        real = convert(scalars.power(convert(x, "float64"), convert(y, "float64")), x.dtype)
        whole = (y == scalars.floor(y)) & (y >= 0.0)
        return select(whole, scalars.integer_power(x, convert(y, x.dtype)), real)

    return node.b.map(body, a, b)


@op("Max", "Min", "Sum", "Mean")
def variadic(node: Node, *tensors: Tensor) -> Tensor:
    """The maximum, minimum, sum or mean of any number of tensors, broadcast to one shape.

    Raises InvalidNode when there are none.
    """

    if not tensors:
        raise InvalidNode("it has no inputs")
    join = {"Max": maximum, "Min": minimum}.get(node.op_type, Scalar.__add__)

    def body(*values: Scalar) -> Scalar:
        return reduce(join, values)

    def last(*values: Scalar) -> Scalar:
        return body(*values) / len(tensors) if node.op_type == "Mean" else body(*values)

    if len(tensors) <= _AT_A_TIME:
        return node.b.map(last, *tensors)
    # A kernel's code grows with its operands. In between nothing is rounded to less than one loop would keep.
    dtype = tensors[0].dtype
    total, *rest = (node.b.cast(t, compute_dtype(dtype)) for t in tensors)
    for start in range(0, len(rest), _AT_A_TIME - 1):
        some = rest[start : start + _AT_A_TIME - 1]
        total = node.b.map(last if start + len(some) == len(rest) else body, total, *some)
    return node.b.cast(total, dtype)


@op("Where")
def where(node: Node, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """a where the condition holds, else b; the three are broadcast to one shape."""
    return node.b.map(select, condition, a, b, dtype=a.dtype)


# --- Clip ---


@op("Clip", until=10)
def clip_attributes(node: Node, x: Tensor) -> Tensor:
    """Clip before opset 11, with its bounds in attributes."""
    return _clip(node, x, node.attr("min", None), node.attr("max", None))


@op("Clip", since=11)
def clip(node: Node, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    """min(max(x, low), high); the upper bound wins where the bounds cross."""
    return _clip(node, x, _bound(node, low), _bound(node, high))


def _bound(node: Node, bound: Tensor | None) -> float | int | Scalar | None:
    if bound is None:
        return None
    if bound.array is not None and bound.array.size == 1:
        return bound.array.reshape(-1)[0].item()
    return node.b.scalar(bound)


def _clip(node: Node, x: Tensor, low: float | int | Scalar | None, high: float | int | Scalar | None) -> Tensor:
    def body(v: Scalar) -> Scalar:
        # The upper bound is applied last, so it wins when the bounds cross, as ONNX says.
        if low is not None:
            v = maximum(v, convert(low, v.dtype) if isinstance(low, Scalar) else low)
        if high is not None:
            v = minimum(v, convert(high, v.dtype) if isinstance(high, Scalar) else high)
        return v

    return node.b.map(body, x) if low is not None or high is not None else x


# --- Cast ---

_CODES = {t.name.upper(): t.code for t in dtypes.by_code.values()} | {"FLOAT": 1, "DOUBLE": 11}


@op("Cast")
def cast(node: Node, x: Tensor) -> Tensor:
    """x converted to the type ``to``. Raises UnsupportedFeature for types that Rillet lacks."""
    to = node.attr("to")
    if isinstance(to, str):  # opsets 1-5 name the type
        if to not in _CODES:
            raise UnsupportedFeature(f"cast to {to}", "cast to a type that newer opsets have")
        to = _CODES[to]
    return cast_to(node, x, dtype_name(to))


@op("CastLike")
def cast_like(node: Node, x: Tensor, like: Tensor) -> Tensor:
    """x in the type of ``like``, as Cast converts it."""
    return cast_to(node, x, like.dtype)


_F8_MAX = {"float8_e4m3fn": 448.0, "float8_e4m3fnuz": 240.0, "float8_e5m2": 57344.0, "float8_e5m2fnuz": 57344.0}
_F4 = "float4_e2m1fn"  # has neither infinity nor NaN, so it always saturates
_F4_MAX = 6.0


def convert_float8(v: Scalar, dtype: str, saturate: bool = True) -> Scalar:
    """A float as float8 or float4. A value out of range becomes the largest one; without ``saturate`` it becomes the
    result of truncation.
    """
    wide = v if v.dtype == "float64" else convert(v, "float32")
    limit = _F8_MAX.get(dtype, _F4_MAX)
    # NaN passes both bounds; float4 has none and takes -0, as ONNX's reference does.
    clamped = maximum(minimum(wide, limit), -limit)
    if dtype == _F4:
        return convert(select(scalars.is_nan(wide), scalars.constant(-0.0, wide.dtype), clamped), dtype)
    return convert(clamped if saturate else wide, dtype)


def cast_to(node: Node, x: Tensor, dtype: str) -> Tensor:
    """Convert as ONNX's Cast does; float8 targets saturate unless ``saturate=0``.

    Raises UnsupportedFeature for complex types and InvalidNode for an unknown rounding.
    """
    if x.dtype == dtype:
        return x
    if element_types.is_complex(dtype) or element_types.is_complex(x.dtype):
        raise UnsupportedFeature(
            f"cast from {x.dtype} to {dtype}", "split complex numbers into real and imaginary parts before"
        )
    saturate = bool(node.attr("saturate", 1))
    if dtype == e8m0.DTYPE:
        rounding = node.attr("round_mode", "up")
        if rounding not in ("up", "down", "nearest"):
            raise InvalidNode(f"round_mode '{rounding}' is not one of up, down, nearest")
        return node.b.map(lambda v: e8m0.from_float32(convert(v, "float32"), rounding, saturate), x, dtype=dtype)
    if dtype in _F8_MAX or dtype == _F4:
        return node.b.map(lambda v: convert_float8(_as_float(v), dtype, saturate), x, dtype=dtype)
    return node.b.map(lambda v: convert(v, dtype), x, dtype=dtype)


def _as_float(v: Scalar) -> Scalar:
    return v if is_float(v.dtype) else convert(v, "float32")
