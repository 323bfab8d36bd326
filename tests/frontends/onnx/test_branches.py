"""An If whose branches differ in rank: what follows is compiled for each, or for the one that fits."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import rillet
from rillet.frontends.onnx.verification.oracles import run_onnxruntime

_TAIL = {
    "both": [
        helper.make_node("ReduceSumSquare", ["s"], ["r"], keepdims=0),
        helper.make_node("Add", ["r", "one"], ["y"]),
    ],
    "same": [helper.make_node("Relu", ["s"], ["y"], name="relu")],
    "two": [helper.make_node("Transpose", ["s"], ["y"], perm=[1, 0], name="turn")],
}


def _branch(name: str, node: onnx.NodeProto, output: str = "s_") -> onnx.GraphProto:
    return helper.make_graph([node], name, [], [helper.make_empty_tensor_value_info(output)])


def _squeeze(source: str, result: str, axis: int = 1) -> list[onnx.NodeProto]:
    """What PyTorch's exporter writes for ``squeeze(axis)`` of a dimension that it does not know."""
    squeeze = helper.make_node("Squeeze", [source, f"axis{axis}"], [f"{result}_t"])
    return [
        helper.make_node("Shape", [source], [f"{result}_shape"], start=axis, end=axis + 1),
        helper.make_node("Equal", [f"{result}_shape", "ones"], [f"{result}_is_one"]),
        helper.make_node(
            "If",
            [f"{result}_is_one"],
            [result],
            name=f"If_{result}",
            then_branch=_branch("t", squeeze, f"{result}_t"),
            else_branch=_branch("e", helper.make_node("Identity", [source], [f"{result}_e"]), f"{result}_e"),
        ),
    ]


def _model(tail: list[onnx.NodeProto], rank: int | None, head: list[onnx.NodeProto] | None = None) -> onnx.ModelProto:
    shape = None if rank is None else [f"d{axis}" for axis in range(rank)]
    graph = helper.make_graph(
        [*(_squeeze("x", "s") if head is None else head), *tail],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["a", "b", "c"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [
            numpy_helper.from_array(np.array([1]), "ones"),
            numpy_helper.from_array(np.array([0]), "axis0"),
            numpy_helper.from_array(np.array([1]), "axis1"),
            numpy_helper.from_array(np.float32(1), "one"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def _x(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(2, 1, 3), (2, 5, 3), (1, 1, 1), (2, 1, 0)])
def test_both_branches_lead_to_one_result(shape: tuple[int, ...]) -> None:
    model = _model(_TAIL["both"], 0)
    (ours,) = rillet.compile(model, threads=1).run({"x": _x(*shape)}).values()
    np.testing.assert_allclose(ours, run_onnxruntime(model, {"x": _x(*shape)})["y"], rtol=1e-5)


def test_conditions_behind_each_other() -> None:
    head = [*_squeeze("x", "t"), *_squeeze("t", "s", 0)]
    model = _model(_TAIL["both"], 0, head)
    module = rillet.compile(model, threads=1)
    for shape in ((2, 1, 3), (1, 1, 3), (1, 5, 3), (2, 5, 3)):
        (ours,) = module.run({"x": _x(*shape)}).values()
        np.testing.assert_allclose(ours, run_onnxruntime(model, {"x": _x(*shape)})["y"], rtol=1e-5)


@pytest.mark.parametrize(("tail", "rank"), [("same", 2), ("two", None)])
def test_the_branch_that_fits_is_taken_and_the_other_an_error_at_run_time(tail: str, rank: int | None) -> None:
    model = _model(_TAIL[tail], rank)
    module = rillet.compile(model, threads=1)
    np.testing.assert_array_equal(module(_x(2, 1, 3)), run_onnxruntime(model, {"x": _x(2, 1, 3)})["y"])
    with pytest.raises(rillet.RunError, match="node 'If_s': its condition 's_is_one' must be True here"):
        module(_x(2, 5, 3))


def test_the_else_branch_may_be_the_one_that_fits() -> None:
    model = _model(_TAIL["same"], 3)
    module = rillet.compile(model, threads=1)
    np.testing.assert_array_equal(module(_x(2, 5, 3)), np.maximum(_x(2, 5, 3), 0))
    with pytest.raises(rillet.RunError, match="node 'If_s': its condition 's_is_one' must be False here"):
        module(_x(2, 1, 3))


def test_results_of_two_ranks_are_refused_where_none_is_declared() -> None:
    message = "If 'If_s'.*branches give output 0 as float32 of rank 2 and float32 of rank 3"
    with pytest.raises(rillet.UnsupportedError, match=message) as caught:
        rillet.compile(_model(_TAIL["same"], None))
    assert [node.name for node in caught.value.nodes] == ["If_s"]


def test_an_unknown_op_behind_it_is_named_once() -> None:
    tail = [helper.make_node("Nonesuch", ["s"], ["y"], name="none", domain="us")]
    model = _model(tail, 0)
    model.opset_import.append(helper.make_opsetid("us", 1))
    with pytest.raises(rillet.UnsupportedError) as caught:
        rillet.compile(model)
    assert sorted(node.name for node in caught.value.nodes) == ["If_s", "none"]


def test_it_may_stand_in_the_body_of_a_loop() -> None:
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            *_squeeze("x", "s"),
            helper.make_node("ReduceSum", ["s"], ["r"], keepdims=0),
            helper.make_node("Add", ["before", "r"], ["after"]),
            helper.make_node("Identity", ["go"], ["on"]),
        ],
        "body",
        [value("i", TensorProto.INT64, []), value("go", TensorProto.BOOL, []), value("before", TensorProto.FLOAT, [])],
        [value("on", TensorProto.BOOL, []), value("after", TensorProto.FLOAT, [])],
    )
    head = [helper.make_node("Loop", ["three", "", "one"], ["y"], body=body)]
    model = _model([], 0, head)
    model.graph.initializer.append(numpy_helper.from_array(np.array(3), "three"))
    module = rillet.compile(model, threads=1)
    for shape in ((2, 1, 3), (2, 4, 3)):
        np.testing.assert_allclose(module(_x(*shape)), 1 + 3 * _x(*shape).sum(), rtol=1e-4)


@pytest.mark.parametrize("shape", [(2, 1, 3), (1, 1, 1), (2, 5, 3), (1, 5, 1)])
def test_a_squeeze_without_axes_may_go_on_in_every_way(shape: tuple[int, ...]) -> None:
    model = _model(_TAIL["both"], 0, [helper.make_node("Squeeze", ["x"], ["s"])])
    (ours,) = rillet.compile(model, threads=1).run({"x": _x(*shape)}).values()
    np.testing.assert_allclose(ours, run_onnxruntime(model, {"x": _x(*shape)})["y"], rtol=1e-5)


def test_a_squeeze_without_axes_gives_the_declared_rank() -> None:
    model = _model(_TAIL["same"], 3, [helper.make_node("Squeeze", ["x"], ["s"], name="squeeze")])
    module = rillet.compile(model, threads=1)
    np.testing.assert_array_equal(module(_x(2, 5, 3)), np.maximum(_x(2, 5, 3), 0))
    with pytest.raises(rillet.RunError, match="node 'squeeze': without axes, dimension 1 must not be 1 here"):
        module(_x(2, 1, 3))
    with pytest.raises(rillet.UnsupportedError, match=r"'squeeze'.*depends on run-time dimensions; give the axes"):
        rillet.compile(_model(_TAIL["same"], None, list(model.graph.node[:1])))
