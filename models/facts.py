"""Sizes of a model: parameters and multiply-accumulates, as papers count them."""

from __future__ import annotations

import math

import onnx
from onnx import helper

_STATISTICS_INPUTS = {"BatchNormalization": (3, 4)}


def count_parameters(model: onnx.ModelProto, *, with_statistics: bool = False) -> int:
    """Elements of floating-point initializers of rank ≥ 1.

    BatchNorm's running statistics count only `with_statistics` (as Keras counts); PyTorch counts trainable ones.
    """
    statistics = {node.input[i] for node in model.graph.node for i in _STATISTICS_INPUTS.get(node.op_type, ())}
    skipped = set() if with_statistics else statistics
    floats = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE)
    return sum(
        math.prod(tensor.dims)
        for tensor in model.graph.initializer
        if tensor.dims and tensor.data_type in floats and tensor.name not in skipped
    )


def count_macs(model: onnx.ModelProto) -> int:
    """Multiply-accumulates of convolutions and matrix products for one call; dynamic extents count as 1."""
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    shapes = {tensor.name: tuple(tensor.dims) for tensor in inferred.initializer}
    for info in (*inferred.input, *inferred.value_info, *inferred.output):
        shapes[info.name] = tuple(dim.dim_value or 1 for dim in info.type.tensor_type.shape.dim)
    total = 0
    for node in inferred.node:
        if node.op_type not in ("Conv", "Gemm", "MatMul") or node.output[0] not in shapes:
            continue
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        left, right = shapes[node.input[0]], shapes[node.input[1]]
        if node.op_type == "Conv":
            depth = math.prod(right[1:])
        elif node.op_type == "Gemm" and attributes.get("transA", 0):
            depth = left[0]
        else:
            depth = left[-1]
        total += math.prod(shapes[node.output[0]]) * depth
    return total
