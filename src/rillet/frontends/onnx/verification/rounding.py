"""The floats that nodes on quantized tensors round to integers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from rillet.frontends.onnx.verification.oracles import run_reference
from rillet.frontends.verification import OracleError, Rounding

if TYPE_CHECKING:
    import onnx

# Operator → the same on floats; the places of integers, scale and zero point of its operands, of an int32 bias, and of
# the result's scale and zero point.
_PAIRS = ((0, 1, 2), (3, 4, 5))
_FLOAT_FORMS: dict[str, tuple[str, tuple[tuple[int, int, int], ...], int | None, tuple[int, int]]] = {
    "QLinearConv": ("Conv", _PAIRS, 8, (6, 7)),
    "QLinearMatMul": ("MatMul", _PAIRS, None, (6, 7)),
    "QGemm": ("Gemm", _PAIRS, 6, (7, 8)),
    "QLinearAdd": ("Add", _PAIRS, None, (6, 7)),
    "QLinearMul": ("Mul", _PAIRS, None, (6, 7)),
    "QLinearSigmoid": ("Sigmoid", _PAIRS[:1], None, (3, 4)),
    "QLinearLeakyRelu": ("LeakyRelu", _PAIRS[:1], None, (3, 4)),
    "QLinearSoftmax": ("Softmax", _PAIRS[:1], None, (3, 4)),
    "QLinearAveragePool": ("AveragePool", _PAIRS[:1], None, (3, 4)),
    "QLinearGlobalAveragePool": ("GlobalAveragePool", _PAIRS[:1], None, (3, 4)),
}
_NOT_OF_FLOATS = ("channels_last", "opset")  # attributes


def rounding_of(node: onnx.NodeProto, name: str, values: Mapping[str, np.ndarray]) -> Rounding | None:
    """The floats that ``node`` rounds for its output ``name``; None for a node that rounds nothing or is of another
    kind.

    ``values`` has all its inputs.
    """
    inputs = [values[n] if n else np.zeros(0) for n in node.input]
    attributes = {a.name: a.i for a in node.attribute}
    if node.op_type == "QuantizeLinear" and not attributes.get("block_size"):
        x, scale = inputs[0].astype(np.float64), inputs[1].astype(np.float64)
        zero = inputs[2].astype(np.float64) if len(inputs) > 2 else np.zeros(())
        axis = attributes.get("axis", 1)
        return Rounding(x, *(_along(p, axis, x.ndim) for p in (scale, zero)))
    if node.op_type == "DynamicQuantizeLinear" and name != node.output[1]:
        x = inputs[0].astype(np.float64)
        low, high = min(x.min(initial=0), 0.0), max(x.max(initial=0), 0.0)
        scale = np.asarray((high - low) / 255 or 1.0)
        if name == node.output[2]:
            return Rounding(np.asarray(-low), scale, np.zeros(()))
        return Rounding(x, scale, np.clip(np.rint(-low / scale), 0, 255))
    if node.op_type not in _FLOAT_FORMS or attributes.get("channels_last") or attributes.get("opset", 13) < 13:
        return None
    real = _in_floats(node, inputs)
    scale_at, zero_at = _FLOAT_FORMS[node.op_type][3]
    if real is None or len(inputs) <= scale_at:
        return None
    zero = inputs[zero_at] if len(inputs) > zero_at and inputs[zero_at].size else np.zeros(())
    return Rounding(real, inputs[scale_at].astype(np.float64), zero.astype(np.float64))


def _along(parameter: np.ndarray, axis: int, rank: int) -> np.ndarray:
    if parameter.size == 1:
        return parameter.reshape(())
    shape = [1] * rank
    shape[axis] = parameter.size
    return parameter.reshape(shape)


def _in_floats(node: onnx.NodeProto, inputs: list[np.ndarray]) -> np.ndarray | None:
    """The result of a node on quantized tensors before it is quantized, by onnx's evaluator."""
    import onnx

    op, operands, bias, _ = _FLOAT_FORMS[node.op_type]
    transposed = any(a.name == "transB" and a.i for a in node.attribute)
    arrays, scales = [], []
    for number, (at, scale_at, zero_at) in enumerate(operands):
        value, scale = inputs[at], inputs[scale_at].astype(np.float64)
        axis = {"Conv": 0, "Gemm": 0 if transposed else 1}.get(op, value.ndim - 2 if number == 0 else value.ndim - 1)
        zero = inputs[zero_at].astype(np.float64) if inputs[zero_at].size else np.zeros(())
        real = (value.astype(np.float64) - _along(zero, axis, value.ndim)) * _along(scale, axis, value.ndim)
        arrays.append(real.astype(np.float32))
        scales.append(scale)
    if bias is not None and len(inputs) > bias and inputs[bias].size:
        alpha = next((a.f for a in node.attribute if a.name == "alpha"), 1.0)
        arrays.append((inputs[bias] * (scales[0] * scales[1] * alpha)).astype(np.float32))
    names = [f"i{n}" for n in range(len(arrays))]
    attributes = [a for a in node.attribute if a.name not in _NOT_OF_FLOATS]
    float_node = onnx.helper.make_node(op, names, ["y"])
    float_node.attribute.extend(attributes)
    graph = onnx.helper.make_graph(
        [float_node],
        "floats",
        [onnx.helper.make_tensor_value_info(n, 1, a.shape) for n, a in zip(names, arrays, strict=True)],
        [onnx.helper.make_empty_tensor_value_info("y")],
    )
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    try:
        return np.asarray(run_reference(made, dict(zip(names, arrays, strict=True)))["y"], np.float64)
    except OracleError:
        return None
