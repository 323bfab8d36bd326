"""The ONNX Backend API, and models that are compiled for the value of an input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from rillet import CompileError, RunError, UnsupportedError, onnx_backend
from rillet.onnx_backend import specialize


def model(
    nodes: Sequence[onnx.NodeProto], inputs: dict[str, tuple[int, Sequence[Any]]], output: tuple[int, Sequence[Any]]
) -> onnx.ModelProto:
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info(n, code, shape) for n, (code, shape) in inputs.items()],
        [helper.make_tensor_value_info("y", *output)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])


def summing() -> onnx.ModelProto:
    return model(
        [helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)],
        {"x": (TensorProto.FLOAT, [2, 3]), "axes": (TensorProto.INT64, ["k"])},
        (TensorProto.FLOAT, ["n"]),
    )


def test_inputs_by_position_by_name_and_alone() -> None:
    relu = model([helper.make_node("Relu", ["x"], ["y"])], {"x": (TensorProto.FLOAT, [3])}, (TensorProto.FLOAT, [3]))
    prepared = onnx_backend.prepare(relu)
    x = np.array([-1, 0, 2], np.float32)
    for inputs in ([x], {"x": x}, x):
        np.testing.assert_array_equal(prepared.run(inputs)[0], [0, 0, 2])


def test_a_value_that_shapes_the_code_gets_a_variant_of_its_own() -> None:
    prepared = onnx_backend.prepare(summing())
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert prepared.model.keys == ("axes",)
    for axis in (0, 1, -1, 0):
        (y,) = prepared.run([x, np.array([axis], np.int64)])
        np.testing.assert_array_equal(y, x.sum(axis))


def test_variants_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(specialize, "MAX_VARIANTS", 1)
    prepared = onnx_backend.prepare(summing())
    x = np.ones((2, 3), np.float32)
    for axis in (0, 1, 0):
        prepared.run([x, np.array([axis], np.int64)])
        assert len(prepared.model._variants) == 1


def test_the_value_may_be_missing() -> None:
    with pytest.raises(RunError, match="input 'axes' is missing"):
        onnx_backend.prepare(summing()).run([np.ones((2, 3), np.float32)])


def test_too_many_inputs() -> None:
    x = np.ones((2, 3), np.float32)
    with pytest.raises(RunError, match=r"takes 2 inputs .* got 3"):
        onnx_backend.prepare(summing()).run([x, np.zeros(1, np.int64), x])


def test_sequences_go_in_and_come_out() -> None:
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    graph = helper.make_graph(
        [helper.make_node("SequenceInsert", ["s", "x"], ["t"])],
        "test",
        [sequence, helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_sequence_value_info("t", TensorProto.FLOAT, None)],
    )
    prepared = onnx_backend.prepare(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]))
    x = np.array([1, 2], np.float32)
    for items in ([], [np.zeros(3, np.float32)], [x, x]):
        (result,) = prepared.run([items, x])
        assert len(result) == len(items) + 1
        for got, want in zip(result, [*items, x], strict=True):
            np.testing.assert_array_equal(got, want)


def test_run_node() -> None:
    node = helper.make_node("Add", ["a", "b"], ["c"])
    a = np.array([1, 2], np.float32)
    np.testing.assert_array_equal(onnx_backend.run_node(node, [a, a])[0], [2, 4])
    with pytest.raises(RunError, match="Add has 2 inputs, got 1"):
        onnx_backend.run_node(node, [a])


def test_devices() -> None:
    assert onnx_backend.supports_device("CPU")
    assert not onnx_backend.supports_device("CUDA")
    with pytest.raises(CompileError, match="device 'CUDA' is not supported"):
        onnx_backend.prepare(summing(), "CUDA")


def test_an_invalid_model() -> None:
    broken = summing()
    broken.graph.node[0].op_type = "NoSuchOp"
    with pytest.raises(CompileError, match="not valid ONNX"):
        onnx_backend.prepare(broken)


def test_what_no_value_can_help_is_refused_at_once() -> None:
    decoder = model(
        [helper.make_node("ImageDecoder", ["x"], ["y"])],
        {"x": (TensorProto.UINT8, ["n"])},
        (TensorProto.UINT8, ["h", "w", 3]),
    )
    assert not onnx_backend.is_compatible(decoder)
    with pytest.raises(UnsupportedError, match="ImageDecoder"):
        onnx_backend.prepare(decoder)


def test_options_belong_to_prepare() -> None:
    with pytest.raises(RunError, match="give the options to prepare"):
        onnx_backend.prepare(summing()).run([], threads=1)
