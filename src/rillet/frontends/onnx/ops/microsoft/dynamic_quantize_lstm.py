"""The LSTM of ONNX Runtime's dynamic quantizer: 8-bit weights, and activations that each product quantizes.

Source: github.com/microsoft/onnxruntime, docs/ContribOperators.md. The input is quantized over all steps at once, the
hidden state over the batch at each step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.microsoft.quantized_tensors import dynamically_quantized_product
from rillet.frontends.onnx.ops.recurrent import direction_of, inputs_of, lstm_of, with_biases
from rillet.frontends.onnx.registry import op

_GATES = 4


@op("DynamicQuantizeLSTM", domain="com.microsoft", ignores=["hidden_size"])
def dynamic_quantize_lstm(node: Node, x: Tensor, w: Tensor, r: Tensor, *_: Tensor | None) -> list[Tensor]:
    """LSTM with W [directions, inputs, 4 * size] and R [directions, size, 4 * size] in 8 bits.

    Their scales and zero points are one number for each direction, or one for each of its columns.
    """
    for name, tensor in (("W", w), ("R", r)):
        if tensor.rank != 3:
            raise InvalidNode(f"{name} has rank {tensor.rank}, not 3")
    inputs = inputs_of(node, _GATES, x, *(node.b.transpose(tensor, [0, 2, 1]) for tensor in (w, r)))
    scales = [_parameter(node, number, name) for number, name in ((8, "W_scale"), (10, "R_scale"))]
    zeros = [node.input(9), node.input(11)]

    def product(a: Tensor, which: int, direction: int) -> Tensor:
        weights = node.b.transpose(direction_of(node, (inputs.weights, inputs.recurrence)[which], direction), [1, 0])
        zero = zeros[which]
        zero = None if zero is None else _of_direction(node, zero, direction)
        scale = _of_direction(node, scales[which], direction)
        return dynamically_quantized_product(node, a, weights, scale, zero)

    def project(direction: int, biases: Sequence[Tensor | None]) -> Tensor:
        return with_biases(node, product(inputs.x, 0, direction), biases)

    def recur(direction: int) -> Callable[[Tensor], Tensor]:
        return lambda hidden: product(hidden, 1, direction)

    return lstm_of(node, inputs, project, recur)


def _parameter(node: Node, number: int, name: str) -> Tensor:
    value = node.input(number)
    if value is None:
        raise InvalidNode(f"{name} is missing")
    return value


def _of_direction(node: Node, parameter: Tensor, direction: int) -> Tensor:
    """One direction's part of a scale or zero point: a scalar, or a number for each column."""
    if parameter.rank not in (1, 2):
        raise InvalidNode(f"a scale or zero point has rank {parameter.rank}, not 1 or 2")
    part = node.b.slice_axis(parameter, 0, direction, 1)
    return node.b.reshape(part, part.shape[1:])
