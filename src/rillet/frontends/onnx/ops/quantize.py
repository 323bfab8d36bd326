"""QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear, and the integer and QLinear ops on top of them.

Integer contractions accumulate in int32 over operands extended in the body, which is the form that integer dot-product
instructions are recognized from.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rillet.frontends.building import element_types
from rillet.frontends.building.builder import Builder
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.scalars import Scalar, constant, maximum, minimum, roundeven, select
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.convolution import convolve
from rillet.frontends.onnx.ops.elementwise import convert_float8
from rillet.frontends.onnx.ops.matmul import multiply
from rillet.frontends.onnx.registry import op
from rillet.frontends.onnx.windows import kernel_of, window_of
from rillet.ir import builders
from rillet.ir.builders import Expr


def limits(dtype: str) -> tuple[int, int]:
    """The smallest and largest integer of ``dtype``."""
    width = element_types.bits(dtype)
    if element_types.is_signed(dtype):
        return -(1 << (width - 1)), (1 << (width - 1)) - 1
    return 0, (1 << width) - 1


def saturate(v: Scalar, dtype: str) -> Scalar:
    """A rounded float clamped to ``dtype`` and converted."""
    low, high = limits(dtype)
    return convert(convert(maximum(minimum(v, float(high)), float(low)), "int32"), dtype)


@op("DequantizeLinear", since=10, ignores=["axis", "block_size"])
def dequantize_linear(node: Node, x: Tensor, scale: Tensor, zero_point: Tensor | None = None) -> Tensor:
    """(x - zero_point) * scale, per tensor, per axis or per block."""
    b = node.b
    dtype = node.dtype_attr("output_dtype", scale.dtype) if node.has("output_dtype") else scale.dtype
    if zero_point is not None and zero_point.array is not None and not np.any(zero_point.array.astype(np.float32)):
        zero_point = None
    return dequantize(b, x, [_operand(node, p, x) for p in (scale, zero_point) if p is not None], dtype)


def dequantize(b: Builder, x: Tensor, parameters: Sequence[tuple[Tensor, Sequence[Expr]]], dtype: str) -> Tensor:
    """(x - zero_point) * scale.

    ``parameters`` has the scale and, if there is one, the zero point, each with the expressions that read it in a loop
    nest over ``x``.
    """
    loops = builders.dims(x.rank)

    def body(v: Scalar, s: Scalar, *rest: Scalar) -> Scalar:
        wide = element_types.compute_dtype(s.dtype)
        if element_types.is_float(v.dtype) or not rest or rest[0].dtype == "bool":
            return convert(v, wide) * s
        if element_types.is_float(rest[0].dtype):
            return (convert(v, wide) - convert(rest[0], wide)) * s
        return convert(convert(v, "int32") - convert(rest[0], "int32"), wide) * s

    output = (b.empty(dtype, x.shape), loops, dtype, x.shape)
    return b.generic([(x, loops), *parameters], [output], "p" * x.rank, lambda *arguments: body(*arguments[:-1]))[0]


def _operand(node: Node, parameter: Tensor, x: Tensor) -> tuple[Tensor, Sequence[Expr]]:
    """A scale or zero point with the expressions that read it in a loop nest over ``x``."""
    b = node.b
    axis = node.attr("axis", 1)
    if parameter.rank == 0 or (parameter.rank == 1 and (parameter.shape[0] == 1 or axis >= x.rank)):
        return b.reshape(parameter, []), []
    axis = node.axis(axis, x.rank)
    loops = builders.dims(x.rank)
    if parameter.rank == 1:  # of a length not known, it may be one for all
        static = isinstance(parameter.shape[0], int)
        return parameter if static else b.broadcast_exactly(parameter, [x.shape[axis]]), [loops[axis]]
    block = node.attr("block_size", 0)
    if not block or parameter.rank != x.rank:
        raise InvalidNode(f"a scale of rank {parameter.rank} for an input of rank {x.rank} needs block_size")
    _check_blocks(parameter, x, axis, block)
    exprs = list(loops)
    exprs[axis] = builders.ir.AffineExpr.get_floor_div(loops[axis], block)
    return parameter, exprs


def _check_blocks(parameter: Tensor, x: Tensor, axis: int, block: int) -> None:
    """Raise InvalidNode unless there is a parameter for each block of ``x`` along ``axis``."""
    if block < 1:
        raise InvalidNode(f"block_size {block} is not positive")
    expected = list(x.shape)
    if isinstance(expected[axis], int):
        expected[axis] = -(-expected[axis] // block)
    else:
        expected[axis] = parameter.shape[axis]
    for has, wants in zip(parameter.shape, expected, strict=True):
        if isinstance(has, int) and isinstance(wants, int) and has != wants:
            shapes = " for an input of ".join("x".join(map(_size, t.shape)) for t in (parameter, x))
            raise InvalidNode(
                f"a scale or zero point of {shapes} in blocks of {block} along axis {axis}: it should be "
                f"{'x'.join(map(_size, expected))}"
            )


def _size(extent: object) -> str:
    return str(extent) if isinstance(extent, int) else "?"


@op("QuantizeLinear", since=10, ignores=["axis", "block_size", "saturate"])
def quantize_linear(node: Node, x: Tensor, scale: Tensor, zero_point: Tensor | None = None) -> Tensor:
    """saturate(round(x / scale) + zero_point), ties to even."""
    b = node.b
    dtype = zero_point.dtype if zero_point is not None else node.dtype_attr("output_dtype", "uint8")
    precision = node.dtype_attr("precision") if node.attr("precision", 0) else None
    operands = [_operand(node, p, x) for p in (scale, zero_point) if p is not None]
    loops = builders.dims(x.rank)

    def body(v: Scalar, s: Scalar, *rest: Scalar) -> Scalar:
        wide = "float64" if "float64" in (v.dtype, precision) else "float32"
        # A narrower precision rounds the quotient.
        ratio = convert(convert(convert(v, wide) / convert(s, wide), precision or wide), wide)
        if element_types.is_float(dtype):
            return convert_float8(ratio, dtype, bool(node.attr("saturate", 1)))
        rounded = roundeven(ratio)
        return saturate(rounded + convert(rest[0], wide) if rest else rounded, dtype)

    output = (b.empty(dtype, x.shape), loops, dtype, x.shape)
    return b.generic([(x, loops), *operands], [output], "p" * x.rank, lambda *arguments: body(*arguments[:-1]))[0]


@op("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(node: Node, x: Tensor) -> list[Tensor]:
    """uint8 quantization over the range of the data extended to zero."""
    b = node.b
    axes = list(range(x.rank))
    low = b.reduce(x, axes, 0.0, lambda v, acc: minimum(acc, v))
    high = b.reduce(x, axes, 0.0, lambda v, acc: maximum(acc, v))
    # The scale of all zeros is 1.
    scale = b.map(lambda h, lo: select(h == lo, constant(1.0, h.dtype), (h - lo) / 255.0), high, low)

    def zero(least: Scalar, s: Scalar) -> Scalar:
        return saturate(roundeven(-least / s), "uint8")

    zero_point = b.map(zero, low, scale, dtype="uint8")

    def quantize(v: Scalar, s: Scalar, z: Scalar) -> Scalar:
        return saturate(roundeven(v / s) + convert(z, "float32"), "uint8")

    return [b.map(quantize, x, scale, zero_point, dtype="uint8"), scale, zero_point]


# --- integer contractions ---


def shifted(node: Node, x: Tensor, zero_point: Tensor | None, axis: int | None) -> Tensor:
    """x - zero_point in int32; ``axis`` is the dimension of ``x`` that a 1-D zero point runs along."""
    b = node.b
    if zero_point is None or (zero_point.array is not None and not np.any(zero_point.array)):
        return x
    if zero_point.rank <= 1:
        following = x.rank - 1 - axis if axis is not None and zero_point.rank == 1 else 0
        zero_point = b.reshape(zero_point, [*zero_point.shape, *[1] * following])
    return b.map(lambda v, z: convert(v, "int32") - convert(z, "int32"), x, zero_point, dtype="int32", shape=x.shape)


@op("MatMulInteger", since=10)
def matmul_integer(
    node: Node, a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None
) -> Tensor:
    """(a - a_zero) @ (b - b_zero) in int32.

    a_zero is one number or one for each row of a, b_zero one number or one for each column of b.
    """
    left = shifted(node, a, a_zero, a.rank - 2 if a.rank > 1 else None)
    return multiply(node, left, shifted(node, b, b_zero, b.rank - 1), "int32")


@op("ConvInteger", since=10)
def conv_integer(
    node: Node, x: Tensor, weights: Tensor, x_zero: Tensor | None = None, w_zero: Tensor | None = None
) -> Tensor:
    """Conv of x - x_zero and weights - w_zero in int32."""
    return _convolve_integer(node, x, weights, x_zero, w_zero)


def _convolve_integer(node: Node, x: Tensor, weights: Tensor, x_zero: Tensor | None, w_zero: Tensor | None) -> Tensor:
    b = node.b
    kernel = kernel_of(node, weights.shape[2:])
    weights = b.refine(weights, [*weights.shape[:2], *kernel])
    window = window_of(node, x.shape[2:], kernel)
    padded = b.pad(shifted(node, x, x_zero, None), [0, 0, *window.low], [0, 0, *window.high])
    return convolve(node, padded, shifted(node, weights, w_zero, 0), node.attr("group", 1), window, "int32")


@op("QLinearMatMul", since=10)
def qlinear_matmul(node: Node, *inputs: Tensor) -> Tensor:
    """(a - a_zero) @ (b - b_zero) a_scale b_scale / y_scale, rounded to even, plus y_zero; the sums are in int32."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = inputs
    left = shifted(node, a, a_zero, a.rank - 2)
    total = multiply(node, left, shifted(node, b, b_zero, b.rank - 1), "int32")
    rows = a_scale if a_scale.rank != 1 or a_scale.shape[0] == 1 else node.b.unsqueeze(a_scale, [1])
    return requantize(node, total, rows, b_scale, y_scale, y_zero)


@op("QLinearConv", since=10)
def qlinear_conv(node: Node, *inputs: Tensor) -> Tensor:
    """The convolution of x - x_zero and weights - w_zero, plus the bias, in int32, requantized.

    ``requantize`` multiplies by x_scale w_scale / y_scale. The bias (int32 [output channels]) has the scale
    x_scale w_scale. w_scale and w_zero may have one element for each output channel.
    """
    b = node.b
    x, x_scale, x_zero, weights, w_scale, w_zero, y_scale, y_zero = inputs[:8]
    total = _convolve_integer(node, x, weights, x_zero, w_zero)
    every = range(total.rank)
    if len(inputs) > 8:
        total = b.map_along(lambda v, c: v + c, total.shape, (total, every), (inputs[8], [1]), dtype="int32")
    if w_scale.rank == 1 and w_scale.shape[0] != 1:
        w_scale = b.reshape(w_scale, [w_scale.shape[0], *[1] * (total.rank - 2)])
    return requantize(node, total, x_scale, w_scale, y_scale, y_zero)


def requantize(node: Node, total: Tensor, a_scale: Tensor, b_scale: Tensor, y_scale: Tensor, y_zero: Tensor) -> Tensor:
    """saturate(round(total * a_scale * b_scale / y_scale) + y_zero)"""

    def body(v: Scalar, a: Scalar, w: Scalar, y: Scalar, z: Scalar) -> Scalar:
        scaled = convert(v, "float32") * (convert(a, "float32") * convert(w, "float32") / convert(y, "float32"))
        return saturate(roundeven(scaled) + convert(z, "float32"), y_zero.dtype)

    return node.b.map(body, total, a_scale, b_scale, y_scale, y_zero, dtype=y_zero.dtype, shape=total.shape)
