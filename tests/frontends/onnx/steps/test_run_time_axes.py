"""Ops whose axes are inputs of the model, against ONNX Runtime for every axis."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import rillet
from rillet.frontends.onnx.verification.oracles import run_onnxruntime

_X = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)


def _model(node: onnx.NodeProto, count: int | None, shape: list | None = None, **constants: object) -> onnx.ModelProto:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node],
        "g",
        [
            value("x", TensorProto.FLOAT, shape or ["a", 3, "c"]),
            value("axes", TensorProto.INT64, [] if count is None else [count]),
        ],
        [value("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


_ONE = [np.array([axis]) for axis in (-3, -1, 0, 1, 2)]
CASES = {
    "CumSum": (helper.make_node("CumSum", ["x", "axes"], ["y"], reverse=1), None, [a[0] for a in _ONE], {}),
    "ReduceMax": (helper.make_node("ReduceMax", ["x", "axes"], ["y"], keepdims=0), 1, _ONE, {}),
    "two axes": (
        helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=1),
        2,
        [np.array(a) for a in ([0, 1], [-1, 0], [1, 2])],
        {},
    ),
    "Unsqueeze": (helper.make_node("Unsqueeze", ["x", "axes"], ["y"]), 1, [*_ONE, np.array([3]), np.array([-4])], {}),
    "Slice": (
        helper.make_node("Slice", ["x", "starts", "ends", "axes"], ["y"]),
        1,
        _ONE,
        {"starts": [1], "ends": [3]},
    ),
    "Pad": (helper.make_node("Pad", ["x", "pads", "", "axes"], ["y"]), 1, _ONE, {"pads": [1, 2]}),
}


@pytest.mark.parametrize("name", CASES)
def test_every_axis_gives_what_onnx_runtime_gives(name: str) -> None:
    node, count, axes, constants = CASES[name]
    model = _model(node, count, **constants)
    module = rillet.compile(model, threads=1)
    for value in axes:
        feeds = {"x": _X, "axes": np.asarray(value, np.int64)}
        expected, (ours,) = run_onnxruntime(model, feeds)["y"], module.run(feeds).values()
        assert ours.dtype == expected.dtype and ours.shape == expected.shape
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)


def test_an_axis_out_of_range_is_an_error_at_run_time() -> None:
    node = helper.make_node("CumSum", ["x", "axes"], ["y"], name="sum")
    module = rillet.compile(_model(node, None), threads=1)
    for axis in (3, -4):
        with pytest.raises(rillet.RunError, match="'sum': the axes are not what the operands can have"):
            module(_X, np.int64(axis))


def test_axes_that_the_operand_cannot_have_are_left_out() -> None:
    node = helper.make_node("Squeeze", ["x", "axes"], ["y"], name="squeeze")
    module = rillet.compile(_model(node, 1, [2, 1, 4]), threads=1)
    np.testing.assert_array_equal(module(_X[:, :1], np.array([-2])), _X[:, 0])
    with pytest.raises(rillet.RunError, match="'squeeze': the axes are not what the operands can have"):
        module(_X[:, :1], np.array([0]))


def test_axes_with_too_many_values_are_refused() -> None:
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"], name="sum")
    with pytest.raises(rillet.UnsupportedError, match=r"'sum'.*axes must be known at compile time"):
        rillet.compile(_model(node, 3, [2, 2, 2, 2, 2]))
