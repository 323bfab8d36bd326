"""Convolutions whose sizes are known only when they are called: results that lie in a frame of other sizes."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

import rillet
from rillet.frontends.onnx.verification.oracles import run_reference

SIZES = [(1, 8, 1, 1), (2, 8, 5, 7), (1, 8, 9, 16)]


def _model(weights: dict[str, np.ndarray], *nodes: NodeProto) -> ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8, "h", "w"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(list(nodes), "g", [x], [y], [numpy_helper.from_array(w, n) for n, w in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _check(model: ModelProto) -> rillet.Module:
    module = rillet.compile(model, threads=2, jobs=1, cache=False)
    for size in SIZES:
        x = np.random.default_rng(0).standard_normal(size, np.float32)
        (expected,) = run_reference(model, {"x": x}).values()
        y = module(x)
        assert isinstance(y, np.ndarray)
        np.testing.assert_allclose(y, expected, rtol=0, atol=2e-6 * max(1, np.abs(expected).max()))
    return module


@pytest.mark.parametrize(("group", "filters"), [(1, 8), (1, 1), (8, 1)])
def test_phases_of_a_transposed_convolution_are_written_in_place(group: int, filters: int) -> None:
    w = np.random.default_rng(1).standard_normal((8, filters, 2, 2), np.float32)
    up = helper.make_node("ConvTranspose", ["x", "w"], ["c"], strides=[2, 2], group=group)
    module = _check(_model({"w": w}, up, helper.make_node("Relu", ["c"], ["y"])))
    transposes, phases = 1 if filters * group == 1 else 2, 2 if group == 1 else 4
    assert module.stats["dispatch_count"] == transposes + phases


@pytest.mark.parametrize("pads", [[0, 0, 1, 1], [1, 1, 1, 1]])
def test_a_result_is_padded_for_its_reader(pads: list[int]) -> None:
    rng = np.random.default_rng(1)
    w, v = rng.standard_normal((16, 8, 1, 1), np.float32), rng.standard_normal((4, 16, 2, 2), np.float32)
    first = helper.make_node("Conv", ["x", "w"], ["c"])
    _check(_model({"w": w, "v": v}, first, helper.make_node("Conv", ["c", "v"], ["y"], pads=pads)))
