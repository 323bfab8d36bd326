"""Operators on quantized tensors that ONNX Runtime's quantizer writes (domain ``com.microsoft``; semantics:
docs/ContribOperators.md of ONNX Runtime).

Operators that move, add or activate become ``DequantizeLinear``, the operator on floats and ``QuantizeLinear``.
Products become the integer operators of ONNX. The optimizer thus sees the same forms as from ONNX's own operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rillet.frontends.building.conversions import convert
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.activation import leaky_relu, logistic
from rillet.frontends.onnx.ops.elementwise import where
from rillet.frontends.onnx.ops.matmul import multiply
from rillet.frontends.onnx.ops.pooling import average_pool, global_pool, max_pool
from rillet.frontends.onnx.ops.quantize import (
    dequantize_linear,
    dynamic_quantize_linear,
    qlinear_conv,
    quantize_linear,
    requantize,
    shifted,
)
from rillet.frontends.onnx.ops.reduction import mean, reduce_over, softmax, softmax_flattened
from rillet.frontends.onnx.registry import op

_DOMAIN = "com.microsoft"
_QUANTIZED = ("uint8", "int8")

Quantized = tuple[Tensor, Tensor, Tensor | None]  # a tensor, its scale and its zero point

op("DequantizeLinear", domain=_DOMAIN)(dequantize_linear)
op("QuantizeLinear", domain=_DOMAIN)(quantize_linear)


def operands(node: Node, inputs: Sequence[Tensor | None], names: str) -> list[Any]:
    """One operand for each of ``names``, None where one that ends in ``?`` is absent. onnx has no schema to check with.

    Operands whose name is a capital letter are quantized. Scales and zero points are one number; those marked with
    ``*`` may also have one for each column. A zero point has the type of the tensor that it belongs to.
    """
    expected = names.split()
    if len(inputs) > len(expected):
        raise InvalidNode(f"it has {len(inputs)} inputs; the op takes at most {len(expected)}")
    found = [*inputs, *[None] * (len(expected) - len(inputs))]
    for name, value in zip(expected, found, strict=True):
        if value is None and "?" not in name:
            raise InvalidNode(f"input '{name.rstrip('*')}' is missing")
        if value is not None and name.isupper() and value.dtype not in _QUANTIZED:
            raise InvalidNode(f"input '{name}' is {value.dtype}; the op takes uint8 and int8")
    by_name = dict(zip(expected, found, strict=True))
    for name, value in by_name.items():
        if value is not None and "_" in name:
            _check_parameter(name.rstrip("?*"), value, "*" in name, by_name.get(name[0].upper()))
    return found


def _check_parameter(name: str, value: Tensor, may_be_vector: bool, of: Tensor | None) -> None:
    """Raise InvalidNode for a scale or zero point of another shape than its operand takes, or of another type."""
    if value.rank > 1 or not (may_be_vector or value.rank == 0 or value.shape[0] == 1):
        shape = f"[{', '.join(str(d) if isinstance(d, int) else '?' for d in value.shape)}]"
        raise InvalidNode(f"input '{name}' is {shape}; it is one number{' or a vector' if may_be_vector else ''}")
    if name.endswith("zero_point") and of is not None and value.dtype != of.dtype:
        raise InvalidNode(f"input '{name}' is {value.dtype}, but what it belongs to is {of.dtype}")


def _quantized(node: Node, y: Tensor, scale: Tensor, zero_point: Tensor | None, dtype: str) -> Tensor:
    return quantize_linear(node, y, scale, zero_point or node.b.constant(0, dtype))


# --- one operand ---


def _of_one(node: Node, inputs: Sequence[Tensor | None], function: Callable[[Node, Tensor], Tensor]) -> Tensor:
    x, x_scale, x_zero, y_scale, y_zero = operands(node, inputs, "X X_scale X_zero_point? Y_scale Y_zero_point?")
    return _quantized(node, function(node, dequantize_linear(node, x, x_scale, x_zero)), y_scale, y_zero, x.dtype)


@op("QLinearSigmoid", domain=_DOMAIN)
def qlinear_sigmoid(node: Node, *inputs: Tensor | None) -> Tensor:
    """Sigmoid of the dequantized x, quantized."""
    return _of_one(node, inputs, logistic)


@op("QLinearLeakyRelu", domain=_DOMAIN)
def qlinear_leaky_relu(node: Node, *inputs: Tensor | None) -> Tensor:
    """LeakyRelu of the dequantized x, quantized."""
    return _of_one(node, inputs, leaky_relu)


@op("QLinearSoftmax", domain=_DOMAIN)
def qlinear_softmax(node: Node, *inputs: Tensor | None) -> Tensor:
    """Softmax of the dequantized x, quantized.

    ``opset`` is the opset of that Softmax; before 13 it flattens the dimensions from ``axis`` on into one.
    """
    return _of_one(node, inputs, softmax if node.attr("opset", 13) >= 13 else softmax_flattened)


@op("QLinearAveragePool", domain=_DOMAIN)
def qlinear_average_pool(node: Node, *inputs: Tensor | None) -> Tensor:
    """AveragePool of the dequantized x, quantized; with ``channels_last`` x is [batch, spatial..., channels]."""
    return _of_one(node, inputs, lambda node, x: _channels_second(node, x, average_pool))


@op("QLinearGlobalAveragePool", domain=_DOMAIN)
def qlinear_global_average_pool(node: Node, *inputs: Tensor | None) -> Tensor:
    """GlobalAveragePool of the dequantized x, quantized; with ``channels_last`` x is [batch, spatial..., channels]."""
    return _of_one(node, inputs, lambda node, x: _channels_second(node, x, global_pool))


def _channels_second(node: Node, x: Tensor, function: Callable[[Node, Tensor], Tensor]) -> Tensor:
    """``function`` of a tensor whose channels may come last."""
    return with_channels_second(node, x, function) if node.attr("channels_last", 0) else function(node, x)


def with_channels_second(node: Node, x: Tensor, function: Callable[[Node, Tensor], Tensor]) -> Tensor:
    """``function``, which wants channels in the second dimension, of a tensor whose channels come last."""
    last = x.rank - 1
    y = function(node, node.b.transpose(x, [0, last, *range(1, last)]))
    return node.b.transpose(y, [0, *range(2, x.rank), 1])


@op("NhwcMaxPool", domain=_DOMAIN)
def nhwc_max_pool(node: Node, x: Tensor) -> Tensor:
    """MaxPool of x [batch, spatial..., channels]."""
    return with_channels_second(node, x, lambda node, x: max_pool(node, x)[0])


@op("QLinearReduceMean", domain=_DOMAIN)
def qlinear_reduce_mean(node: Node, *inputs: Tensor | None) -> Tensor:
    """ReduceMean of the dequantized x over ``axes`` (default: all), quantized."""
    return _of_one(node, inputs, lambda node, x: reduce_over(node, x, node.attr("axes", None), mean))


# --- several operands ---


@op("QLinearAdd", "QLinearMul", domain=_DOMAIN)
def qlinear_binary(node: Node, *inputs: Tensor | None) -> Tensor:
    """The sum or the product of the dequantized A and B, quantized."""
    names = "A A_scale A_zero_point? B B_scale B_zero_point? C_scale C_zero_point?"
    a, a_scale, a_zero, b, b_scale, b_zero, c_scale, c_zero = operands(node, inputs, names)
    left, right = dequantize_linear(node, a, a_scale, a_zero), dequantize_linear(node, b, b_scale, b_zero)
    is_sum = node.op_type == "QLinearAdd"
    result = node.b.map(lambda v, w: v + w if is_sum else v * w, left, right)
    return _quantized(node, result, c_scale, c_zero, a.dtype)


@op("QLinearWhere", domain=_DOMAIN)
def qlinear_where(node: Node, *inputs: Tensor | None) -> Tensor:
    """The dequantized X where the condition holds, else the dequantized Y, quantized."""
    names = "condition X x_scale x_zero_point Y y_scale y_zero_point z_scale z_zero_point"
    condition, x, x_scale, x_zero, y, y_scale, y_zero, z_scale, z_zero = operands(node, inputs, names)
    left, right = dequantize_linear(node, x, x_scale, x_zero), dequantize_linear(node, y, y_scale, y_zero)
    return _quantized(node, where(node, condition, left, right), z_scale, z_zero, x.dtype)


@op("QLinearConcat", domain=_DOMAIN)
def qlinear_concat(node: Node, y_scale: Tensor, y_zero: Tensor, *inputs: Tensor | None) -> Tensor:
    """The dequantized inputs, one after the other along ``axis``, quantized.

    After the scale and zero point of the result come three inputs for each part: tensor, scale, zero point.
    """
    triples = [inputs[i : i + 3] for i in range(0, max(1, len(inputs)), 3)]
    parts = [dequantize_linear(node, *operands(node, triple, "X X_scale X_zero_point")) for triple in triples]
    joined = node.b.concat(parts, node.axis(node.attr("axis"), parts[0].rank))
    return _quantized(node, joined, y_scale, y_zero, y_zero.dtype)


# --- products ---


@op("QGemm", domain=_DOMAIN)
def qgemm(node: Node, *inputs: Tensor | None) -> Tensor:
    """alpha * A' * B' + C; C is quantized with the scale of the product. Without a scale the result is in floats."""
    builder = node.b
    names = "A a_scale a_zero_point B b_scale* b_zero_point* c? y_scale? y_zero_point?"
    a, a_scale, a_zero, b, b_scale, b_zero, c, y_scale, y_zero = operands(node, inputs, names)
    a, b = builder.refine(a, [None, None], "A"), builder.refine(b, [None, None], "B")
    alpha, turned = float(node.attr("alpha", 1.0)), bool(node.attr("transB", 0))
    left, right = shifted(node, a, a_zero, None), shifted(node, b, b_zero, 0 if turned else 1)
    left = builder.transpose(left, [1, 0]) if node.attr("transA", 0) else left
    right = builder.transpose(right, [1, 0]) if turned else right
    total = multiply(node, left, right, "int32")
    if c is not None:
        total = builder.map(lambda v, w: v + w, total, c, dtype="int32", shape=total.shape)
    if alpha != 1.0:
        a_scale = builder.map(lambda v: v * alpha, a_scale)
    if y_scale is None:
        return _scaled(node, total, a_scale, b_scale, None)
    return requantize(node, total, a_scale, b_scale, y_scale, y_zero or builder.constant(np.zeros((), np.uint8)))


@op("QLinearConv", domain=_DOMAIN)
def qlinear_conv_of_either_layout(node: Node, *inputs: Tensor | None) -> Tensor:
    """QLinearConv of ONNX; with ``channels_last`` x is [batch, spatial..., channels], but the weights are not."""
    names = "X x_scale x_zero_point W w_scale* w_zero_point* y_scale y_zero_point bias?"
    x, *rest = operands(node, inputs, names)
    given = rest if rest[-1] is not None else rest[:-1]
    return _channels_second(node, x, lambda node, x: qlinear_conv(node, x, *given))


@op("MatMulInteger16", domain=_DOMAIN)
def matmul_integer_16(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """a @ b of int16 in int32."""
    return multiply(node, a, b, "int32")


@op("MatMulIntegerToFloat", domain=_DOMAIN)
def matmul_integer_to_float(node: Node, *inputs: Tensor | None) -> Tensor:
    """(A - a_zero_point) @ (B - b_zero_point) in int32, times a_scale b_scale, plus bias."""
    names = "A B a_scale b_scale* a_zero_point? b_zero_point?* bias?"
    a, b, a_scale, b_scale, a_zero, b_zero, bias = operands(node, inputs, names)
    return integer_product(node, (a, a_scale, a_zero), (b, b_scale, b_zero), bias)


@op("DynamicQuantizeMatMul", domain=_DOMAIN)
def dynamic_quantize_matmul(node: Node, *inputs: Tensor | None) -> Tensor:
    """MatMulIntegerToFloat of a, which DynamicQuantizeLinear quantizes at run time, and the quantized B."""
    a, b, b_scale, b_zero, bias = operands(node, inputs, "a B b_scale* b_zero_point?* bias?")
    return dynamically_quantized_product(node, a, b, b_scale, b_zero, bias)


def dynamically_quantized_product(
    node: Node, a: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor | None, bias: Tensor | None = None
) -> Tensor:
    """a @ ((b - b_zero) * b_scale) + bias of floats, after ``a`` was quantized to 8 bits over its range."""
    quantized, a_scale, a_zero = dynamic_quantize_linear(node, a)
    return integer_product(node, (quantized, a_scale, a_zero), (b, b_scale, b_zero), bias)


def integer_product(node: Node, a: Quantized, b: Quantized, bias: Tensor | None) -> Tensor:
    """The product in int32, times both scales, plus ``bias``. The parameters of ``b`` may be one for each column."""
    (x, x_scale, x_zero), (y, y_scale, y_zero) = a, b
    total = multiply(node, shifted(node, x, x_zero, None), shifted(node, y, y_zero, y.rank - 1), "int32")
    return _scaled(node, total, x_scale, y_scale, bias)


def _scaled(node: Node, total: Tensor, a_scale: Tensor, b_scale: Tensor, bias: Tensor | None) -> Tensor:
    """total * (a_scale * b_scale) + bias, in floats."""
    b = node.b
    scale = b.map(lambda v, w: v * w, a_scale, b_scale)
    result = b.map(lambda v, s: convert(v, "float32") * s, total, scale, dtype="float32", shape=total.shape)
    return result if bias is None else b.map(lambda v, c: v + c, result, bias, shape=total.shape)
