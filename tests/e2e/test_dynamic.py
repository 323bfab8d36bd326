"""One compiled module serves every size of its dynamic dimensions."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import rillet

HEADS, DEPTH = 2, 8


@pytest.fixture(scope="module")
def scores():
    """Attention scores of [batch, sequence, heads x depth] queries and keys, as an encoder computes them."""
    shape = numpy_helper.from_array(np.array([0, 0, HEADS, DEPTH], np.int64), "shape")
    nodes = [
        helper.make_node("Reshape", ["q", "shape"], ["q4"]),
        helper.make_node("Transpose", ["q4"], ["qt"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["k", "shape"], ["k4"]),
        helper.make_node("Transpose", ["k4"], ["kt"], perm=[0, 2, 3, 1]),
        helper.make_node("MatMul", ["qt", "kt"], ["y"]),
    ]
    tensor = helper.make_tensor_value_info
    inputs = [tensor(name, 1, ["batch", "sequence", HEADS * DEPTH]) for name in "qk"]
    outputs = [tensor("y", 1, ["batch", HEADS, "sequence", "sequence"])]
    graph = helper.make_graph(nodes, "scores", inputs, outputs, [shape])
    return rillet.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), threads=2)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("sequence", [0, 1, 7, 8, 9, 12, 15, 16, 17, 28, 33, 70])
def test_batched_product_with_dynamic_columns(scores, batch, sequence):
    generator = np.random.default_rng(sequence)
    q, k = (generator.standard_normal((batch, sequence, HEADS * DEPTH)).astype(np.float32) for _ in "qk")
    heads = [a.reshape(batch, sequence, HEADS, DEPTH).transpose(0, 2, 1, 3) for a in (q, k)]
    np.testing.assert_allclose(scores(q, k), heads[0] @ heads[1].transpose(0, 1, 3, 2), rtol=1e-5, atol=1e-5)


def test_named_dimensions_must_agree(scores):
    q, k = np.zeros((1, 3, 16), np.float32), np.zeros((1, 4, 16), np.float32)
    with pytest.raises(rillet.RunError, match="sequence"):
        scores(q, k)


@pytest.mark.parametrize("dims", [["n"], ["n", 3], ["n", "m"]])
def test_reshape_from_dynamic_to_static(dims):
    shape = numpy_helper.from_array(np.array([2, 3], np.int64), "shape")
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "shape"], ["y"])],
        "reshape",
        [helper.make_tensor_value_info("x", 1, dims)],
        [helper.make_tensor_value_info("y", 1, [2, 3])],
        [shape],
    )
    model = rillet.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    x = np.arange(6, dtype=np.float32).reshape([6] if len(dims) == 1 else [2, 3])
    np.testing.assert_array_equal(model(x), x.reshape(2, 3))
    with pytest.raises(rillet.RunError):
        model(np.zeros([8] if len(dims) == 1 else [4, 3], np.float32))


@pytest.mark.parametrize("batch", [0, 1, 3])
def test_a_dimension_that_follows_from_the_others_of_any_batch(batch):
    shape = numpy_helper.from_array(np.array([0, 4, -1], np.int64), "shape")
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "shape"], ["y"])],
        "reshape",
        [helper.make_tensor_value_info("x", 1, ["batch", "sequence", 6])],
        [helper.make_tensor_value_info("y", 1, ["batch", 4, "rest"])],
        [shape],
    )
    model = rillet.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), threads=1)
    x = np.arange(batch * 12, dtype=np.float32).reshape(batch, 2, 6)
    np.testing.assert_array_equal(model(x), x.reshape(batch, 4, 3))


@pytest.mark.parametrize("values", [[0, 0, 0], [0, 1, -2], [3, 4, 5]])
def test_dynamic_quantization_also_of_zeros(values):
    outputs = [helper.make_empty_tensor_value_info(n) for n in "ysz"]
    graph = helper.make_graph(
        [helper.make_node("DynamicQuantizeLinear", ["x"], list("ysz"))],
        "quantize",
        [helper.make_tensor_value_info("x", 1, ["n"])],
        outputs,
    )
    model = rillet.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), threads=1)
    x = np.array(values, np.float32)
    quantized, scale, zero = model(x)
    assert scale == (1.0 if not x.any() else np.float32(max(*x, 0) - min(*x, 0)) / np.float32(255))
    np.testing.assert_allclose((quantized.astype(np.float32) - zero) * scale, x, atol=scale / 2)


@pytest.mark.parametrize("coordinates", ["asymmetric", "half_pixel", "pytorch_half_pixel", "half_pixel_symmetric"])
@pytest.mark.parametrize(("mode", "rounding"), [("nearest", "round_prefer_floor"), ("nearest", "ceil"), ("linear", "")])
def test_resize_of_unknown_extents_by_whole_numbers(coordinates, mode, rounding):
    scales = numpy_helper.from_array(np.array([1, 1, 3, 2], np.float32), "scales")
    attributes = {"nearest_mode": rounding} if rounding else {}
    node = helper.make_node(
        "Resize", ["x", "", "scales"], ["y"], mode=mode, coordinate_transformation_mode=coordinates, **attributes
    )
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph([node], "r", [tensor("x", 1, [1, 2, "h", "w"])], [tensor("y", 1, None)], [scales])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=10)
    module, oracle = rillet.compile(proto, threads=1), ReferenceEvaluator(proto)
    for height, width in ((1, 1), (2, 3), (5, 4)):
        x = np.random.default_rng(height).standard_normal((1, 2, height, width), dtype=np.float32)
        np.testing.assert_allclose(module(x), oracle.run(None, {"x": x})[0], rtol=1e-5, atol=1e-6)
    assert module(np.zeros((1, 2, 0, 4), np.float32)).shape == (1, 2, 0, 8)
    assert not any(entry["name"].startswith("gather") for entry in module.entries)


def test_a_sum_that_may_broadcast_stays_channels_last():
    """Whether an image and another of half the size, doubled, agree or broadcast is known at run time only."""
    generator = np.random.default_rng(0)
    shapes = {"first": (8, 3, 3, 3), "second": (8, 8, 3, 3), "last": (4, 8, 3, 3)}
    weights = [
        numpy_helper.from_array(generator.standard_normal(s).astype(np.float32) / 5, n) for n, s in shapes.items()
    ]
    scales = numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales")
    nearest = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    nodes = [
        helper.make_node("Conv", ["x", "first"], ["a"], pads=[1] * 4, strides=[2, 2]),
        helper.make_node("Conv", ["a", "second"], ["b"], pads=[1] * 4, strides=[2, 2]),
        helper.make_node("Resize", ["b", "", "scales"], ["c"], **nearest),
        helper.make_node("Add", ["c", "a"], ["d"]),
        helper.make_node("Conv", ["d", "last"], ["y"], pads=[1] * 4),
    ]
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "lateral", [tensor("x", 1, [1, 3, "h", "w"])], [tensor("y", 1, None)], [*weights, scales]
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=10)
    module, oracle = rillet.compile(proto, threads=1), ReferenceEvaluator(proto)
    for height, width in ((8, 12), (2, 2), (1, 8), (8, 1)):
        x = generator.standard_normal((1, 3, height, width), dtype=np.float32)
        np.testing.assert_allclose(module(x), oracle.run(None, {"x": x})[0], rtol=1e-4, atol=1e-5)
    with pytest.raises(rillet.RunError, match="broadcast"):
        module(np.zeros((1, 3, 6, 6), np.float32))  # three lines and four
    moved = [entry["name"] for entry in module.entries if entry["name"].startswith("transpose")]
    assert len(moved) <= 2  # the model's input and output
