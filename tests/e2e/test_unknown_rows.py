"""Products whose number of rows only run time tells: each number goes in parts of its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import rillet

COUNTS = (0, *range(1, 19), 31, 64)
STEPS = 19


def _model(nodes: list[onnx.NodeProto], x: list[int | str], *weights: onnx.TensorProto) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "rows", inputs, outputs, list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def _floats(name: str, *shape: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.random.default_rng(len(name)).standard_normal(shape, dtype=np.float32), name)


def dense(columns: int) -> onnx.ModelProto:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "bias"], ["s"]),
        helper.make_node("Gelu", ["s"], ["y"]),
    ]
    return _model(nodes, ["rows", STEPS], _floats("w", STEPS, columns), _floats("bias", columns))


def narrow_weights(columns: int) -> onnx.ModelProto:
    weights = np.random.default_rng(3).integers(-4, 4, (STEPS, columns)).astype(np.int8)
    scales = _floats("scales", columns)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "scales"], ["f"], axis=1),
        helper.make_node("MatMul", ["x", "f"], ["y"]),
    ]
    return _model(nodes, ["rows", STEPS], numpy_helper.from_array(weights, "w"), scales)


def integers(columns: int) -> onnx.ModelProto:
    weights = np.random.default_rng(3).integers(-128, 128, (STEPS, columns)).astype(np.int8)
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]),
        helper.make_node("MatMulInteger", ["q", "w", "zero"], ["i"]),
        helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["f", "scale"], ["y"]),
    ]
    return _model(nodes, ["rows", STEPS], numpy_helper.from_array(weights, "w"))


@pytest.mark.parametrize("columns", [5, 40, 250])
@pytest.mark.parametrize("build", [dense, narrow_weights, integers])
def test_every_number_of_rows(build: Callable[[int], onnx.ModelProto], columns: int) -> None:
    proto = build(columns)
    module, oracle = rillet.compile(proto, threads=1), ReferenceEvaluator(proto)
    for rows in COUNTS[1:] if build is integers else COUNTS:
        x = np.random.default_rng(rows).standard_normal((rows, STEPS), dtype=np.float32)
        (expected,) = oracle.run(None, {"x": x})
        np.testing.assert_allclose(module(x), expected, rtol=1e-5, atol=1e-4, err_msg=f"{rows} rows")


@pytest.mark.parametrize("size", [2, 3, 6])
def test_rows_of_two_axes(size: int) -> None:
    """The inner axis may fill whole tiles of few rows, and not those of more."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Transpose", ["p"], ["y"], perm=[2, 1, 0]),
    ]
    module = rillet.compile(_model(nodes, ["count", size, STEPS], _floats("w", STEPS, 72)), threads=1)
    weights = numpy_helper.to_array(_floats("w", STEPS, 72))
    for count in (1, 2, 3, 5, 8, 13):
        x = np.random.default_rng(count).standard_normal((count, size, STEPS), dtype=np.float32)
        np.testing.assert_allclose(module(x), (x @ weights).transpose(2, 1, 0), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("kernel", [1, 3])
def test_pixels_of_images_of_any_size(kernel: int) -> None:
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], pads=[kernel // 2] * 4)]
    proto = _model(nodes, [1, 7, "h", "w_"], _floats("w", 20, 7, kernel, kernel))
    module, oracle = rillet.compile(proto, threads=1), ReferenceEvaluator(proto)
    for height, width in ((1, 1), (1, 2), (3, 1), (2, 2), (5, 3), (7, 7), (4, 13)):
        x = np.random.default_rng(height * width).standard_normal((1, 7, height, width), dtype=np.float32)
        (expected,) = oracle.run(None, {"x": x})
        np.testing.assert_allclose(module(x), expected, rtol=1e-5, atol=1e-4, err_msg=f"{height}x{width}")


@pytest.mark.parametrize("columns", [64, 250])
def test_products_by_block_weights_added_where_the_addend_lies(columns: int) -> None:
    """Kernels for few rows and for many share one grid: a column that two workgroups own would be added twice."""
    random = np.random.default_rng(1)
    packed = random.integers(0, 256, (columns, 4, 8)).astype(np.uint8)
    scales = random.uniform(0.1, 0.2, (columns, 4)).astype(np.float32)
    other = random.standard_normal((64, columns)).astype(np.float32)
    numbers = {"bits": 4, "block_size": 16, "K": 64, "N": columns}
    nodes = [
        helper.make_node("MatMul", ["x", "other"], ["addend"]),
        helper.make_node("MatMulNBits", ["x", "packed", "scales"], ["p"], domain="com.microsoft", **numbers),
        helper.make_node("Add", ["addend", "p"], ["y"]),
    ]
    held = {"packed": packed, "scales": scales, "other": other}
    proto = _model(nodes, ["rows", 64], *(numpy_helper.from_array(array, name) for name, array in held.items()))
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    quads = np.stack([packed & 15, packed >> 4], -1).reshape(columns, 4, 16).astype(np.float32) - 8
    weights = (quads * scales[..., None]).reshape(columns, 64).T + other
    module = rillet.compile(proto, threads=1)
    for rows in (1, 2, 3, 5, 6, 7, 40):
        x = np.random.default_rng(rows).standard_normal((rows, 64), dtype=np.float32)
        np.testing.assert_allclose(module(x), x @ weights, rtol=1e-4, atol=1e-3, err_msg=f"{rows} rows")
