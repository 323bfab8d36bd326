"""MatMulNBits of ONNX Runtime: a product with constant weights of 2, 4 or 8 bits, which large language models have.

Source: github.com/microsoft/onnxruntime, docs/ContribOperators.md. The weights are dequantized, block by block of the
sum, as DequantizeLinear does it, and multiplied in the type of the other operand, whatever ``accuracy_level`` allows.
"""

from __future__ import annotations

import numpy as np

from rillet.frontends.building.element_types import is_float
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.matmul import multiply
from rillet.frontends.onnx.ops.quantize import dequantize
from rillet.frontends.onnx.registry import op
from rillet.ir import builders, dtypes

_DTYPES = {2: "uint2", 4: "uint4", 8: "uint8"}


@op("MatMulNBits", domain="com.microsoft", ignores=["accuracy_level"])
def matmul_nbits(
    node: Node,
    a: Tensor,
    b: Tensor,
    scales: Tensor,
    zero_points: Tensor | None = None,
    group_index: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """a @ ((b - zero_points) * scales) + bias; ``b`` is K x N, its parameters are ceil(K / block_size) x N.

    Raises UnsupportedFeature for other widths, ``g_idx`` and prepacked weights.
    """
    bits, block = node.attr("bits", 4), node.attr("block_size")
    steps, columns = node.attr("K"), node.attr("N")
    if bits not in _DTYPES:
        raise UnsupportedFeature(f"weights of {bits} bits", "quantize to 2, 4 or 8 bits")
    if group_index is not None or node.attr("weight_prepacked", 0):
        raise UnsupportedFeature("g_idx or weight_prepacked", "quantize with blocks in the order of the sum")
    blocks = -(-steps // block)
    weights = _unpacked(_array(b, "B"), bits, [columns, blocks, block], "B").reshape(columns, -1)[:, :steps]
    scale = _reshaped(_array(scales, "scales"), [columns, blocks], "scales")
    if zero_points is None:
        zero = np.full([columns, blocks], 1 << (bits - 1), np.uint8)
    elif is_float(zero_points.dtype):
        zero = _reshaped(_array(zero_points, "zero_points"), [columns, blocks], "zero_points")
    else:
        packed = _array(zero_points, "zero_points")
        zero = _unpacked(packed, bits, [columns, blocks], "zero_points")
    narrow = _DTYPES[bits]
    k, n = builders.dims(2)
    place = [builders.ir.AffineExpr.get_floor_div(k, block), n]
    parameters = [
        (node.b.constant(scale.T, scales.dtype), place),
        (node.b.constant(zero.T, None if is_float(dtypes.of_numpy(zero.dtype).name) else narrow), place),
    ]
    matrix = dequantize(node.b, node.b.constant(weights.T, narrow, name=b.name), parameters, scales.dtype)
    product = multiply(node, a, matrix)
    return product if bias is None else node.b.map(lambda x, c: x + c, product, bias)


def _array(tensor: Tensor, name: str) -> np.ndarray:
    if tensor.array is None:
        raise UnsupportedFeature(f"'{name}' that is computed", "make it an initializer")
    return tensor.array


def _reshaped(array: np.ndarray, shape: list[int], name: str) -> np.ndarray:
    if array.size != int(np.prod(shape)):
        raise InvalidNode(f"{name} has {array.size} elements where N x blocks of K takes {shape[0]} x {shape[1]}")
    return array.reshape(shape)


def _unpacked(array: np.ndarray, bits: int, shape: list[int], name: str) -> np.ndarray:
    """Numbers of ``bits`` bits. Each row along the last axis begins with a new byte, whose lowest bits hold the first
    number.
    """
    *lead, length = shape
    row = -(-length * bits // 8)
    if array.dtype != np.uint8 or array.size != int(np.prod(lead)) * row:
        raise InvalidNode(f"{name} is not {' x '.join(map(str, lead))} x {row} bytes (uint8)")
    packed = array.reshape(*lead, row)
    numbers = np.empty((*lead, row, 8 // bits), np.uint8)
    for place in range(8 // bits):
        numbers[..., place] = (packed >> (place * bits)) & ((1 << bits) - 1)
    return numbers.reshape(*lead, -1)[..., :length]
