"""QAttention and QEmbedLayerNormalization, which ONNX Runtime's quantizer makes of an optimized transformer.

Source: github.com/microsoft/onnxruntime, docs/ContribOperators.md.
"""

from __future__ import annotations

from typing import Any

from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.microsoft.multi_head_attention import attend_to_itself
from rillet.frontends.onnx.ops.microsoft.quantized_tensors import integer_product, operands
from rillet.frontends.onnx.ops.microsoft.skip_normalization import layer_normalized, mask_counts, sum_of_embeddings
from rillet.frontends.onnx.ops.quantize import dequantize_linear
from rillet.frontends.onnx.registry import op

_DOMAIN = "com.microsoft"


@op("QAttention", domain=_DOMAIN)
def quantized_attention(node: Node, *inputs: Tensor | None) -> list[Tensor | None]:
    """Attention whose input and weights are quantized; what follows the projections is in floats.

    The scale and zero point of the weights are one number, or one for each column.
    """
    b = node.b
    names = "X W bias x_scale w_scale* mask? x_zero_point? w_zero_point?* past?"
    x, weights, bias, x_scale, w_scale, mask, x_zero, w_zero, past = operands(node, inputs, names)
    columns = weights.shape[1:]
    bias = b.refine(bias, columns, "bias")

    def part(parameter: Tensor | None, first: int, size: int) -> Any:
        """What the columns have of a scale or zero point."""
        if parameter is None or parameter.rank == 0 or parameter.shape[0] == 1:
            return parameter
        return b.slice_axis(b.refine(parameter, columns, "a scale or zero point of the weights"), 0, first, size)

    def project(first: int, size: int) -> Tensor:
        own = b.slice_axis(weights, 1, first, size), part(w_scale, first, size), part(w_zero, first, size)
        return integer_product(node, (x, x_scale, x_zero), own, b.slice_axis(bias, 0, first, size))

    return attend_to_itself(node, weights, project, mask, past)


@op("QEmbedLayerNormalization", domain=_DOMAIN)
def quantized_embed_layer_normalization(node: Node, *inputs: Tensor | None) -> list[Tensor | None]:
    """EmbedLayerNormalization with quantized tables; rows are dequantized after they were read."""
    names = (
        "ids segments? W P T? G B mask? w_scale p_scale t_scale? g_scale b_scale "
        "w_zero_point p_zero_point t_zero_point? g_zero_point b_zero_point"
    )
    ids, segments, *rest = operands(node, inputs, names)
    tables, (gamma, beta), mask = rest[:3], rest[3:5], rest[5]
    if (tables[2] is None) != (rest[8] is None):
        raise InvalidNode("segment_embedding and its scale come together or not at all")
    parameters = list(zip(rest[6:11], rest[11:], strict=True))
    total = sum_of_embeddings(
        node, ids, segments, tables, as_floats=lambda rows, table: dequantize_linear(node, rows, *parameters[table])
    )
    gamma, beta = (dequantize_linear(node, t, *p) for t, p in zip((gamma, beta), parameters[3:], strict=True))
    return [layer_normalized(node, total, gamma, beta), mask_counts(node, ids, mask)][: node.output_count]
