"""Ops whose results depend on data in size, loops over tensors that grow, and random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import rillet


def compiled(
    nodes: Sequence[onnx.NodeProto], inputs: dict[str, tuple[int, Sequence[Any]]], outputs: Sequence[str]
) -> rillet.Module:
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info(n, code, shape) for n, (code, shape) in inputs.items()],
        [helper.make_empty_tensor_value_info(n) for n in outputs],
    )
    return rillet.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), jobs=1, threads=1)


def test_non_zero_of_any_size() -> None:
    module = compiled([helper.make_node("NonZero", ["x"], ["y"])], {"x": (TensorProto.FLOAT, ["n", "m"])}, ["y"])
    for x in (np.eye(3), np.zeros((2, 5)), np.ones((1, 4)), np.zeros((0, 3))):
        np.testing.assert_array_equal(module(x.astype(np.float32)), np.array(np.nonzero(x)))


@pytest.mark.parametrize("count", [0, 1, 7, 64, 65])
def test_sort_of_any_length(count: int) -> None:
    nodes = [helper.make_node("Shape", ["x"], ["k"]), helper.make_node("TopK", ["x", "k"], ["v", "i"])]
    module = compiled(nodes, {"x": (TensorProto.FLOAT, ["n"])}, ["v", "i"])
    x = np.random.default_rng(count).integers(0, 5, count).astype(np.float32)
    values, positions = module(x)
    order = np.argsort(-x, kind="stable")
    np.testing.assert_array_equal(positions, order)
    np.testing.assert_array_equal(values, x[order])


def test_unique_numbers_its_groups_both_ways() -> None:
    x = np.array([3, 1, 3, 2, 1, 1], np.float32)
    for is_sorted in (0, 1):
        node = helper.make_node("Unique", ["x"], ["y", "first", "inverse", "count"], sorted=is_sorted)
        module = compiled([node], {"x": (TensorProto.FLOAT, ["n"])}, ["y", "first", "inverse", "count"])
        values, first, inverse, count = module(x)
        np.testing.assert_array_equal(values, [1, 2, 3] if is_sorted else [3, 1, 2])
        np.testing.assert_array_equal(values[inverse], x)
        np.testing.assert_array_equal(x[first], values)
        np.testing.assert_array_equal(count, [np.sum(x == v) for v in values])


def test_a_loop_whose_tensor_grows() -> None:
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["going"], ["going_out"]),
            helper.make_node("Concat", ["state", "x"], ["state_out"], axis=0),
            helper.make_node("ReduceSum", ["state_out"], ["total"], keepdims=0),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("going", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, ["k"]),
        ],
        [helper.make_empty_tensor_value_info(n) for n in ("going_out", "state_out", "total")],
    )
    node = helper.make_node("Loop", ["count", "", "x"], ["y", "totals"], body=body)
    module = compiled([node], {"count": (TensorProto.INT64, []), "x": (TensorProto.FLOAT, ["n"])}, ["y", "totals"])
    x = np.array([1, 2], np.float32)
    for count in (0, 1, 4, -4):  # a negative count is none
        y, totals = module(np.array(count), x)
        np.testing.assert_array_equal(y, np.tile(x, max(count, 0) + 1))
        np.testing.assert_array_equal(totals, [3.0 * (i + 2) for i in range(count)])


def test_a_loop_that_ends_by_its_condition() -> None:
    body = helper.make_graph(
        [
            helper.make_node("Mul", ["state", "state"], ["state_out"]),
            helper.make_node("Less", ["state_out", "limit"], ["going_out"]),
            helper.make_node("Identity", ["state_out"], ["seen"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("going", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, []),
        ],
        [helper.make_empty_tensor_value_info(n) for n in ("going_out", "state_out", "seen")],
    )
    node = helper.make_node("Loop", ["", "", "x"], ["y", "seen_all"], body=body)
    module = compiled([node], {"x": (TensorProto.FLOAT, []), "limit": (TensorProto.FLOAT, [])}, ["y", "seen_all"])
    y, seen = module(np.float32(2), np.float32(100))
    assert y == 256
    np.testing.assert_array_equal(seen, [4, 16, 256])


@pytest.mark.parametrize("count", [0, -4])
def test_a_loop_of_no_iterations_whatever_its_condition(count: int) -> None:
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 20]> g (float[3] x, bool c) => (float[3] y, float[K,3] s)
        <int64 n = {{{count}}}> {{ y, s = Loop(n, c, x) <body = b (int64 i, bool g, float[3] v)
        => (bool go, float[3] w, float[3] o) {{ go = Identity(g)  w = Add(v, v)  o = Identity(w) }}> }}"""
    )
    y, s = rillet.compile(model)(np.ones(3, np.float32), np.array(True))
    np.testing.assert_array_equal(y, np.ones(3))
    assert s.shape == (0, 3)


@pytest.mark.parametrize("count", ["input", "constant"])
@pytest.mark.parametrize(
    ("element", "shape"),
    [
        ("e = Mul(v, r)", (0, 2, 5)),
        ("e = Identity(two)", (0, 2)),
        ("e = Concat<axis = 1>(v, w)", (0, 2, 0)),  # an extent that is computed in the loop is not known
    ],
)
def test_collected_elements_of_no_iterations_keep_what_is_known(count: str, element: str, shape: tuple) -> None:
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 20]> g (float[2,n] x, int64 n_input) => (float[a,b,c] s)
        <int64 n_constant = {{0}}, bool c = {{1}}, float[2] two = {{1, 1}}> {{ r = Relu(x)
        y, s = Loop(n_{count}, c, r) <body = b (int64 i, bool g, float[a,b] v) => (bool go, float[a,b] w, float[d,e] e)
        {{ go = Identity(g)  w = Add(v, v)  {element} }}> }}"""
    )
    del model.graph.output[0].type.tensor_type.shape.dim[len(shape) :]
    assert rillet.compile(model)(np.ones((2, 5), np.float32), np.array(0)).shape == shape


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize_of_any_size(mode: str) -> None:
    scales = helper.make_tensor("scales", TensorProto.FLOAT, [4], [1, 1, 1.5, 2])
    nodes = [
        helper.make_node("Constant", [], ["scales"], value=scales),
        helper.make_node("Resize", ["x", "", "scales"], ["y"], mode=mode),
    ]
    module = compiled(nodes, {"x": (TensorProto.FLOAT, [1, 2, "h", "w"])}, ["y"])
    for h, w in ((4, 4), (3, 5), (1, 1)):
        x = np.random.default_rng(h).standard_normal((1, 2, h, w), np.float32)
        single = helper.make_graph(
            nodes,
            "reference",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        )
        reference = onnx.reference.ReferenceEvaluator(
            helper.make_model(single, opset_imports=[helper.make_opsetid("", 21)])
        )
        np.testing.assert_allclose(module(x), reference.run(None, {"x": x})[0], rtol=1e-5, atol=1e-6)


def test_random_numbers_have_the_right_distribution() -> None:
    count = 1 << 16
    attributes = {"shape": [count], "seed": 7.0}
    nodes = [
        helper.make_node("RandomUniform", [], ["u"], low=-1.0, high=3.0, **attributes),
        helper.make_node("RandomNormal", [], ["n"], mean=2.0, scale=0.5, **attributes),
        helper.make_node("Add", ["x", "u"], ["v"]),
    ]
    module = compiled(nodes, {"x": (TensorProto.FLOAT, [1])}, ["u", "n", "v"])
    uniform, normal, shifted = module(np.zeros(1, np.float32))
    assert uniform.min() >= -1 and uniform.max() < 3
    np.testing.assert_allclose([uniform.mean(), uniform.var()], [1.0, 16 / 12], rtol=0.02)
    np.testing.assert_allclose([normal.mean(), normal.std()], [2.0, 0.5], rtol=0.02)
    np.testing.assert_array_equal(uniform, shifted)
    assert abs(np.corrcoef(uniform[:-1], uniform[1:])[0, 1]) < 0.02
