"""Arithmetic of single elements: unary, binary, comparisons, selection, conversion."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import helper

from tests.fuzz.maker import FLOATS, INTEGERS, Dim, Maker, Stuck, Value, np_type
from tests.fuzz.ops.registry import applies

_UNARY = (
    "Abs",
    "Neg",
    "Exp",
    "Log",
    "Sqrt",
    "Relu",
    "Sigmoid",
    "Tanh",
    "Erf",
    "Floor",
    "Ceil",
    "Round",
    "Sign",
    "Reciprocal",
    "Softplus",
    "Softsign",
    "Elu",
    "Selu",
    "Celu",
    "LeakyRelu",
    "HardSigmoid",
    "HardSwish",
    "Mish",
    "Gelu",
    "ThresholdedRelu",
    "Shrink",
    "Sin",
    "Cos",
    "Tan",
    "Atan",
    "Asin",
    "Acos",
    "Sinh",
    "Cosh",
    "Asinh",
    "Acosh",
    "Atanh",
    "Identity",
    "IsNaN",
    "IsInf",
)
# Their attributes (or, in onnx's evaluator, constants) are float32; float64 results may or may not show it.
_FLOAT32_CONSTANTS = {"Erf", "HardSigmoid", "Gelu", "LeakyRelu", "Selu", "HardSwish", "Mish", "Elu", "Celu", "Shrink"}
_COMPARE = ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")


@applies(10)
def unary(g: Maker) -> None:
    op, x = g.one_of(_UNARY), g.floating()
    if x.dtype == "float64" and op in _FLOAT32_CONSTANTS:
        raise Stuck
    g.add(op, [x])


@applies(1)
def unary_other(g: Maker) -> None:
    x = g.value((*INTEGERS, "bool"))
    if x.dtype == "bool":
        g.add("Not", [x])
    else:
        g.add(g.one_of(["Abs", "Neg", "Sign", "BitwiseNot", "Relu"]), [x])


@applies(10)
def binary(g: Maker) -> None:
    x = g.floating()
    operands = [x, g.partner(x)]
    if g.chance(0.5):
        operands.reverse()
    op = g.one_of(["Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu"])
    if op == "PRelu" and not _widens_to(operands[1].dims, operands[0].dims):
        op = "Max"
    g.add(op, operands)


def _widens_to(dims: Sequence[Dim], wanted: Sequence[Dim]) -> bool:
    """Whether a tensor of extents ``dims`` broadcasts to ``wanted`` alone, as the slopes of PRelu must."""
    pairs = zip(reversed(dims), reversed(wanted), strict=False)
    return len(dims) <= len(wanted) and all(d in (1, w) for d, w in pairs)


@applies(2)
def integers(g: Maker) -> None:
    x = g.value(INTEGERS)
    if g.chance(0.4):
        divisor = g.scalar(g.integer(1, 5), x.dtype)
        op = g.one_of(["Div", "Mod"])
        g.add(op, [x, divisor], **({"fmod": g.integer(0, 1)} if op == "Mod" else {}))
    else:
        g.add(g.one_of(["Add", "Sub", "Mul", "Max", "Min", "BitwiseAnd", "BitwiseOr", "BitwiseXor"]), [x, g.partner(x)])


@applies(1)
def power(g: Maker) -> None:
    x = g.floating()
    g.add("Pow", [g.add("Abs", [x])[0], g.scalar(g.one_of([0.5, 1, 2, 3, -1]), x.dtype)])


@applies(2)
def compare(g: Maker) -> None:
    x = g.value((*FLOATS, *INTEGERS))
    g.add(g.one_of(_COMPARE), [x, g.partner(x)])


@applies(1.5)
def logic(g: Maker) -> None:
    x = g.value(("bool",))
    g.add(g.one_of(["And", "Or", "Xor"]), [x, g.partner(x)])


@applies(2)
def where(g: Maker) -> None:
    x = g.value()
    condition = Value("", "bool", x.dims)
    g.add("Where", [g.partner(condition), x, g.partner(x)])


@applies(2)
def cast(g: Maker) -> None:
    x = g.value()
    target = g.one_of([*FLOATS, *INTEGERS, "bool"])
    if x.is_float and target in INTEGERS:
        x = g.add(
            "Clip",
            [
                g.number(x),
                g.scalar(0, x.dtype),
                g.scalar(9, x.dtype),
            ],
        )[0]
    g.add("Cast", [x], to=helper.np_dtype_to_tensor_dtype(np_type(target)))


@applies(2)
def clip(g: Maker) -> None:
    x = g.value((*FLOATS, "int32", "int64"))
    low, high = g.scalar(-1, x.dtype), g.scalar(2, x.dtype)
    g.add("Clip", g.one_of([[x, low, high], [x, low], [x, "", high], [x]]))


@applies(1.5)
def variadic(g: Maker) -> None:
    x = g.floating()
    g.add(g.one_of(["Sum", "Mean", "Max", "Min"]), [x, *(g.partner(x) for _ in range(g.integer(0, 2)))])


@applies(0.7)
def shift(g: Maker) -> None:
    """Bits, of unsigned numbers."""
    x = g.value(("uint8",))
    g.add("BitShift", [x, g.scalar(g.integer(0, 7), "uint8")], direction=g.one_of(["LEFT", "RIGHT"]))


@applies(0.5)
def cast_like(g: Maker) -> None:
    x, like = g.value(FLOATS), g.value(FLOATS)
    g.add("CastLike", [x, like])


@applies(0.5)
def power_of_values(g: Maker) -> None:
    """Exponents that vary, and whole ones of signed bases."""
    x = g.value(("float32", "float64"))
    if g.chance(0.5):
        base = g.add("Add", [g.add("Abs", [x])[0], g.scalar(0.1, x.dtype)])[0]
        g.add("Pow", [base, g.add("Clip", [g.number(g.partner(base)), g.scalar(-3, x.dtype), g.scalar(3, x.dtype)])[0]])
    else:
        g.add("Pow", [x, g.scalar(g.one_of([2, 3, 0, 4]), g.one_of([x.dtype, "int64"]))])
