"""Sums stay accurate however long they are."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper

import rillet


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_long_sums_are_no_worse_than_sums_of_short_ones(axis):
    shape = [3, 3, 3]
    shape[axis] = 20_000
    axes = numpy_helper.from_array(np.array([axis], np.int64), "axes")
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)
    result = [d for a, d in enumerate(shape) if a != axis]
    graph = helper.make_graph(
        [node],
        "sum",
        [helper.make_tensor_value_info("x", 1, shape)],
        [helper.make_tensor_value_info("y", 1, result)],
        [axes],
    )
    model = rillet.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    x = np.random.default_rng(axis).random(shape, dtype=np.float32) + np.float32(0.5)
    exact = x.sum(axis=axis, dtype=np.float64)
    # A running sum of this length is off by 1e-5 to 1e-4.
    assert np.abs(model(x) / exact - 1).max() < 3e-6
