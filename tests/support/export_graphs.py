"""Small ONNX models for the tests of this folder."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def value(name: str, type_: int, shape: list[int | str]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, type_, shape)


def model(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    constants: dict[str, np.ndarray] | None = None,
) -> onnx.ModelProto:
    initializers = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def weights(*shape: int) -> np.ndarray:
    return (np.random.default_rng(0).standard_normal(shape) * 0.5).astype(np.float32)


def dense(rows: int | str = 3, columns: int = 4) -> onnx.ModelProto:
    """relu(x @ w)"""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], name="dense"),
        helper.make_node("Relu", ["m"], ["y"], name="relu"),
    ]
    return model(
        nodes, [value("x", FLOAT, [rows, 4])], [value("y", FLOAT, [rows, columns])], {"w": weights(4, columns)}
    )


def lstm() -> onnx.ModelProto:
    """A recurrence over five steps: a loop of the host program that carries two states."""
    node = helper.make_node("LSTM", ["x", "W", "R"], ["y", "yh", "yc"], hidden_size=4, name="lstm")
    outputs = [value("y", FLOAT, [5, 1, 2, 4]), value("yh", FLOAT, [1, 2, 4])]
    return model([node], [value("x", FLOAT, [5, 2, 3])], outputs, {"W": weights(1, 16, 3), "R": weights(1, 16, 4)})


def loop() -> onnx.ModelProto:
    """``n`` times y = relu(y @ w), ``n`` an input."""
    state = [value("i", INT64, []), value("c", BOOL, []), value("s", FLOAT, [3, 4])]
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["s", "w"], ["m"]),
            helper.make_node("Relu", ["m"], ["next"]),
            helper.make_node("Identity", ["c"], ["go"]),
        ],
        "body",
        state,
        [value("go", BOOL, []), value("next", FLOAT, [3, 4])],
    )
    node = helper.make_node("Loop", ["n", "true", "x"], ["y"], body=body, name="loop")
    inputs = [value("x", FLOAT, [3, 4]), value("n", INT64, [])]
    constants = {"w": weights(4, 4), "true": np.array(True)}
    return model([node], inputs, [value("y", FLOAT, [3, 4])], constants)


def search(most: str = "") -> onnx.ModelProto:
    """``y`` doubled until its sum is at least 100, ``most`` times at the most: a constant ("ten"), an input ("n") or no
    limit."""
    state = [value("i", INT64, []), value("c", BOOL, []), value("s", FLOAT, [3, 4])]
    body = helper.make_graph(
        [
            helper.make_node("Add", ["s", "s"], ["next"], name="double"),
            helper.make_node("ReduceSum", ["next"], ["sum"], keepdims=0),
            helper.make_node("Less", ["sum", "limit"], ["go"]),
        ],
        "body",
        state,
        [value("go", BOOL, []), value("next", FLOAT, [3, 4])],
    )
    node = helper.make_node("Loop", [most, "true", "x"], ["y"], body=body, name="search")
    inputs = [value("x", FLOAT, [3, 4]), *([value("n", INT64, [])] if most == "n" else [])]
    constants = {"true": np.array(True), "limit": np.array(100, np.float32), "ten": np.array(10)}
    return model([node], inputs, [value("y", FLOAT, [3, 4])], constants)


def condition() -> onnx.ModelProto:
    """x @ w or relu(x), as the input says."""
    then = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["a"])], "a", [], [value("a", FLOAT, [3, 4])])
    other = helper.make_graph([helper.make_node("Relu", ["x"], ["b"])], "b", [], [value("b", FLOAT, [3, 4])])
    node = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other, name="if")
    inputs = [value("c", BOOL, []), value("x", FLOAT, [3, 4])]
    return model([node], inputs, [value("y", FLOAT, [3, 4])], {"w": weights(4, 4)})


def passed_through() -> onnx.ModelProto:
    """Two outputs: the input itself and a constant."""
    nodes = [helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Identity", ["k"], ["z"])]
    outputs = [value("y", FLOAT, [3, 4]), value("z", FLOAT, [2, 2])]
    return model(nodes, [value("x", FLOAT, [3, 4])], outputs, {"k": weights(2, 2)})


def inverted_residual() -> onnx.ModelProto:
    """A block of MobileNetV2, and its head: expansion, depthwise, projection, residual, pooling, classifier."""
    constants = {
        "expand": weights(48, 8, 1, 1),
        "depthwise": weights(48, 1, 3, 3),
        "project": weights(8, 48, 1, 1),
        "classify": weights(8, 10),
        "low": np.array(0, np.float32),
        "high": np.array(6, np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "expand"], ["a"], name="expand"),
        helper.make_node("Clip", ["a", "low", "high"], ["b"]),
        helper.make_node("Conv", ["b", "depthwise"], ["c"], pads=[1, 1, 1, 1], group=48, name="depthwise"),
        helper.make_node("Clip", ["c", "low", "high"], ["d"]),
        helper.make_node("Conv", ["d", "project"], ["e"], name="project"),
        helper.make_node("Add", ["x", "e"], ["f"]),
        helper.make_node("GlobalAveragePool", ["f"], ["g"]),
        helper.make_node("Flatten", ["g"], ["h"]),
        helper.make_node("Gemm", ["h", "classify"], ["i"], name="classify"),
        helper.make_node("Softmax", ["i"], ["y"]),
    ]
    return model(nodes, [value("x", FLOAT, [1, 8, 14, 14])], [value("y", FLOAT, [1, 10])], constants)
