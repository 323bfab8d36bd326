"""TreeEnsemble on rows whose ways through the trees are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import rillet
from rillet.errors import UnsupportedError


def model(op: str, *inputs: np.ndarray, result: int, opset: int = 5, **attributes: Any) -> onnx.ModelProto:
    node = helper.make_node(op, [f"x{i}" for i in range(len(inputs))], ["y"], "node", domain="ai.onnx.ml", **attributes)
    infos = [
        helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for i, a in enumerate(inputs)
    ]
    graph = helper.make_graph([node], "one", infos, [helper.make_tensor_value_info("y", result, None)])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


# Two trees: a root with two leaves, and one with a leaf and a second decision.
TREES = {
    "n_targets": 2,
    "tree_roots": [0, 1],
    "nodes_featureids": [0, 1, 2],
    "nodes_modes": helper.make_tensor("modes", TensorProto.UINT8, [3], [0, 1, 3]),
    "nodes_splits": helper.make_tensor("splits", TensorProto.FLOAT, [3], [0.5, 0.0, -1.0]),
    "nodes_truenodeids": [0, 1, 3],
    "nodes_trueleafs": [1, 1, 1],
    "nodes_falsenodeids": [2, 2, 4],
    "nodes_falseleafs": [1, 0, 1],
    "leaf_targetids": [0, 1, 1, 0, 1],
    "leaf_weights": helper.make_tensor("weights", TensorProto.FLOAT, [5], [1.0, 2.0, 4.0, 8.0, 16.0]),
}


@pytest.mark.parametrize("aggregate", [0, 1, 2, 3], ids=["average", "sum", "minimum", "maximum"])
def test_tree_ensemble(aggregate: int) -> None:
    """Each row takes another way through both trees."""
    x = np.array([[0.5, -1.0, 0.0], [0.6, 1.0, -0.5], [0.5, 0.0, -2.0], [0.6, -1.0, 9.0]], np.float32)
    proto = model("TreeEnsemble", x, result=TensorProto.FLOAT, aggregate_function=aggregate, **TREES)
    found = rillet.compile(proto, jobs=1, threads=1).run({"x0": x})["y"]
    leaves = [[(0, 1.0), (1, 2.0)], [(1, 4.0), (0, 8.0)], [(0, 1.0), (1, 16.0)], [(1, 4.0), (1, 2.0)]]
    first = {2: np.inf, 3: -np.inf}.get(aggregate, 0.0)
    combine = {2: min, 3: max}.get(aggregate, lambda p, q: p + q)
    expected = np.full((4, 2), first, np.float32)
    for row, reached in enumerate(leaves):
        for target, weight in reached:
            expected[row, target] = combine(expected[row, target], weight)
    np.testing.assert_array_equal(found, expected / 2 if aggregate == 0 else expected)


def test_a_transformation_of_the_result_is_refused() -> None:
    proto = model("TreeEnsemble", np.zeros((1, 3), np.float32), result=TensorProto.FLOAT, post_transform=1, **TREES)
    with pytest.raises(UnsupportedError, match="post_transform"):
        rillet.compile(proto, jobs=1)
