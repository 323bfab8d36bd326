"""Tree ensembles that score: every test of a node, aggregation, type and layout, against a walk node by node."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import rillet
from rillet.errors import CompileError, RunError
from tests.support.forests import COMPARE, forest, scores
from tests.support.ml_models import MlGraph, assert_same

FEATURES = 5


def features(rows: int, dtype: type = np.float32, nan: bool = False, seed: int = 1) -> np.ndarray:
    """Rows that meet the thresholds of ``forest`` often."""
    random = np.random.default_rng(seed)
    x = (random.integers(-8, 9, (rows, FEATURES)) / (1 if np.issubdtype(dtype, np.integer) else 2)).astype(dtype)
    if nan:
        x[random.random(x.shape) < 0.3] = np.nan
    return x


def regress(x: np.ndarray, targets: int = 1, opset: int = 3, **attributes: Any) -> np.ndarray:
    graph = MlGraph({"x": x}, opset=opset)
    graph.add("TreeEnsembleRegressor", "x", n_targets=targets, **attributes)
    return graph.run()["y0_0"]


@pytest.mark.parametrize("missing", [(0,), (1,), (0, 1)], ids=["false", "true", "mixed"])
def test_modes(missing: tuple[int, ...]) -> None:
    """Features equal to thresholds, and NaN; forests of one mode, and of all."""
    graph, x = MlGraph({"x": features(21, nan=True)}, opset=3), features(21, nan=True)
    forests = [forest(6, 5, FEATURES, modes=modes, missing=missing) for modes in (*([m] for m in COMPARE), [*COMPARE])]
    for attributes in forests:
        graph.add("TreeEnsembleRegressor", "x", n_targets=1, **attributes)
    for found, attributes in zip(graph.run().values(), forests, strict=True):
        np.testing.assert_allclose(found, scores(attributes, x, 1), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 300])
def test_rows(rows: int) -> None:
    """Rows that fill no group of walks, some, and more than a workgroup; trees that fill one, and some are left."""
    attributes = forest(11, 4, FEATURES)
    x = features(rows)
    np.testing.assert_allclose(regress(x, **attributes), scores(attributes, x, 1), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("layout", ["by tree", "all", "some"])
def test_targets(layout: str, aggregate: str) -> None:
    """Trees with weights for one target each, leaves with weights for all targets, and for any of them."""
    choose = {
        "by tree": lambda random, tree: [tree % 2],  # none has weights for the third one
        "all": lambda random, tree: [0, 1, 2],
        "some": lambda random, tree: np.flatnonzero(random.random(3) < 0.3).tolist(),
    }[layout]
    attributes, x = forest(9, 3, FEATURES, targets=choose), features(12)
    found = regress(x, 3, aggregate_function=aggregate, base_values=[0.5, -1.0, 2.0], **attributes)
    expected = scores(attributes, x, 3, aggregate) + np.array([0.5, -1.0, 2.0])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.int32])
def test_types_of_features(dtype: type) -> None:
    attributes, x = forest(5, 4, FEATURES), features(12, dtype)
    found = regress(x, **attributes)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, scores(attributes, x, 1), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_thresholds_and_weights_of_double_precision(dtype: type) -> None:
    """Thresholds that float32 would round up to features."""
    attributes, x = forest(5, 4, FEATURES), features(12, dtype)
    values = np.array(attributes.pop("nodes_values")) - 1e-12
    weights = np.array(attributes.pop("target_weights")) + 1e-12
    tensors = {
        "nodes_values_as_tensor": numpy_helper.from_array(values, "values"),
        "target_weights_as_tensor": numpy_helper.from_array(weights, "weights"),
        "base_values_as_tensor": numpy_helper.from_array(np.array([0.25]), "base"),
    }
    found = regress(x, **attributes, **tensors)
    expected = scores({**attributes, "nodes_values": values, "target_weights": weights}, x, 1) + 0.25
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    rounded = scores({**attributes, "nodes_values": values.astype(np.float32), "target_weights": weights}, x, 1)
    assert not np.allclose(found, rounded + 0.25)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_of_features_that_leave_32_bits_too_few_for_positions(dtype: type) -> None:
    width = 1 << 18
    attributes = forest(150, 6, width)
    assert len(attributes["nodes_modes"]) > 1 << 12
    x = np.random.default_rng(2).integers(-4, 5, (2, width)).astype(dtype)
    np.testing.assert_allclose(regress(x, **attributes), scores(attributes, x, 1), rtol=1e-5, atol=1e-5)


def test_a_node_that_several_lead_to() -> None:
    """Its children are there once, so a ladder of such nodes does not double at each step."""
    steps = 40
    numbers = list(range(steps + 1))
    attributes = {
        "nodes_treeids": [0] * (steps + 1),
        "nodes_nodeids": numbers,
        "nodes_featureids": [n % FEATURES for n in numbers],
        "nodes_values": [0.0] * (steps + 1),
        "nodes_modes": ["BRANCH_LEQ"] * steps + ["LEAF"],
        "nodes_truenodeids": [*numbers[1:], 0],
        "nodes_falsenodeids": [*numbers[1:], 0],
        "target_treeids": [0],
        "target_nodeids": [steps],
        "target_ids": [0],
        "target_weights": [2.5],
    }
    np.testing.assert_array_equal(regress(features(3), **attributes), np.full((3, 1), 2.5, np.float32))


def test_one_row_without_a_dimension_for_rows() -> None:
    attributes, x = forest(4, 3, FEATURES), features(1)
    np.testing.assert_allclose(regress(x[0], **attributes), scores(attributes, x, 1), rtol=1e-6)


@pytest.mark.parametrize("kind", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"])
def test_transformations_as_onnx_runtime_makes_them(kind: str) -> None:
    attributes, x = forest(4, 3, FEATURES, targets=lambda random, tree: [0, 1, 2]), features(9)
    attributes["target_weights"] = [abs(w) % 0.2 for w in attributes["target_weights"]]
    graph = MlGraph({"x": x}, opset=3)
    graph.add("TreeEnsembleRegressor", "x", n_targets=3, post_transform=kind, **attributes)
    assert_same(graph.run()["y0_0"], graph.run_peer()["y0_0"], rtol=1e-4)


def test_too_few_features_at_a_call() -> None:
    attributes = forest(4, 3, FEATURES)
    graph = MlGraph({"x": features(2)}, opset=3)
    graph.add("TreeEnsembleRegressor", "x", n_targets=1, **attributes)
    model = graph.model()
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "features"
    module = rillet.compile(model, jobs=1, threads=1)
    with pytest.raises(RunError, match="its input has 3 features, and its trees need 5"):
        module.run({"x": np.zeros((2, 3), np.float32)})


BROKEN = {
    "nodes_modes has 'BRANCH', which is not one of": {"nodes_modes": ["BRANCH", "LEAF", "LEAF"]},
    "nodes_featureids has 2 elements, and nodes_treeids 3": {"nodes_featureids": [0, 0]},
    "nodes_missing_value_tracks_true has 1 elements, and nodes_values 3": {"nodes_missing_value_tracks_true": [1]},
    "attribute 'nodes_truenodeids' is missing": {"nodes_truenodeids": None},
    "target_weights has 1 elements, and target_treeids 2": {"target_weights": [1.0]},
    "the true branch of a node leads to node 7 of tree 0, which is missing": {"nodes_truenodeids": [7, 0, 0]},
    "a weight leads to node 9 of tree 0, which is missing": {"target_nodeids": [1, 9]},
    "node 1 of tree 0 is given twice": {"nodes_nodeids": [0, 1, 1]},
    "its nodes form a cycle, which node 0 of the lists leads to": {"nodes_falsenodeids": [0, 0, 0]},
    "a node tests feature -1": {"nodes_featureids": [-1, 0, 0]},
    "a leaf has a weight for target 1, and there are 1 targets": {"target_ids": [0, 1]},
    "its input has 1 features, and its trees need 4": {"nodes_featureids": [3, 0, 0]},
    "it has 2 base_values for 1 targets": {"base_values": [1.0, 2.0]},
    "aggregate_function 'MEAN' is not one of AVERAGE, SUM, MIN, MAX": {"aggregate_function": "MEAN"},
}


@pytest.mark.parametrize("message", BROKEN)
def test_broken_trees_are_refused(message: str) -> None:
    attributes: dict[str, Any] = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0, 0, 0],
        "nodes_values": [0.0, 0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "target_treeids": [0, 0],
        "target_nodeids": [1, 2],
        "target_ids": [0, 0],
        "target_weights": [1.0, 2.0],
    }
    attributes = {name: value for name, value in (attributes | BROKEN[message]).items() if value is not None}
    with pytest.raises(CompileError, match=message):
        regress(np.zeros((1, 1), np.float32), **attributes)


# TreeEnsemble: a root with two leaves, and one with a leaf and a second decision.
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
ROWS = np.array([[0.5, -1.0, 0.0], [0.6, 1.0, -0.5], [0.5, 0.0, -2.0], [0.6, -1.0, 9.0]], np.float32)


def ensemble(x: np.ndarray, dynamic: bool = True, **attributes: Any) -> MlGraph:
    graph = MlGraph({"x": x}, opset=5, dynamic=dynamic)
    graph.add("TreeEnsemble", "x", helper.np_dtype_to_tensor_dtype(x.dtype), **attributes)
    return graph


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("aggregate", [0, 1, 2, 3], ids=["average", "sum", "minimum", "maximum"])
def test_tree_ensemble(aggregate: int, dynamic: bool) -> None:
    """Each row takes another way through both trees; what no leaf has a weight for is 0, as in ONNX Runtime."""
    graph = ensemble(ROWS, dynamic, aggregate_function=aggregate, **TREES)
    assert_same(graph.run()["y0_0"], graph.run_peer()["y0_0"])


def test_tree_ensemble_in_double_precision() -> None:
    doubles = {
        k: helper.make_tensor(k, TensorProto.DOUBLE, [len(v)], v)
        for k, v in {
            "nodes_splits": [0.5, 1e-12, -1.0],
            "leaf_weights": [1.0, 2.0, 4.0, 8.0, 16.0 + 1e-12],
        }.items()
    }
    x = np.array([[0.5, 0.0, 0.0], [0.5, 1e-11, -2.0]])
    assert_same(ensemble(x, **(TREES | doubles)).run()["y0_0"], np.array([[1.0, 2.0], [1.0, 16.0 + 1e-12]]), rtol=1e-15)


def test_numbers_of_transformations_are_those_of_the_standard() -> None:
    """ONNX Runtime takes 1 for LOGISTIC and 2 for SOFTMAX."""
    x, expected = ROWS[:3], np.array([[1.0, 2.0], [8.0, 4.0], [1.0, 16.0]])
    softmax, logistic = (ensemble(x, post_transform=n, **TREES).run()["y0_0"] for n in (1, 2))
    powers = np.exp(expected - expected.max(1, keepdims=True))
    np.testing.assert_allclose(softmax, powers / powers.sum(1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(logistic, 1 / (1 + np.exp(-expected)), rtol=1e-5)


@pytest.mark.parametrize("missing", [0, 1])
def test_membership(missing: int) -> None:
    """Sets of many members, of one and of none, with a number that float32 has not."""
    sets = [[4.0, -2.0, 1.5, 9.0, 7.0], [3.0], []]
    members = [v for s in sets for v in (*s, np.nan)]
    trees = TREES | {
        "nodes_modes": helper.make_tensor("modes", TensorProto.UINT8, [3], [6, 6, 6]),
        "membership_values": helper.make_tensor("members", TensorProto.FLOAT, [len(members)], members),
        "nodes_missing_value_tracks_true": [missing] * 3,
    }
    values = np.array([4.0, -2.0, 1.5, 9.0, 7.0, 3.0, 0.0, 2.0, -9.0, 99.0, np.nan], np.float32)
    x = np.stack(np.meshgrid(values, values, values[[0, 5, 10]]), -1).reshape(-1, 3)
    expected = np.zeros((len(x), 2))
    for row, (a, b, c) in enumerate(x):
        holds = [(v in s) or (missing and np.isnan(v)) for v, s in zip((a, b, c), sets, strict=True)]
        expected[row, 0 if holds[0] else 1] += 1.0 if holds[0] else 4.0
        target, weight = (1, 2.0) if holds[1] else (0, 8.0) if holds[2] else (1, 16.0)
        expected[row, target] += weight
    np.testing.assert_array_equal(ensemble(x, **trees).run()["y0_0"], expected)


BROKEN_ENSEMBLES = {
    "membership_values has 0 sets for 1 nodes": {
        "nodes_modes": helper.make_tensor("modes", TensorProto.UINT8, [3], [0, 1, 6])
    },
    "nodes_modes has a mode that is not known": {
        "nodes_modes": helper.make_tensor("modes", TensorProto.UINT8, [3], [0, 1, 9])
    },
    "tree_roots has 5, and there are 3 nodes": {"tree_roots": [0, 5]},
    "nodes_truenodeids has 5, and there are 5 leaves": {"nodes_truenodeids": [5, 1, 3]},
    "nodes_falsenodeids has -1, and there are 3 nodes": {"nodes_falsenodeids": [2, -1, 4]},
    "nodes_trueleafs has 2 elements, and nodes_featureids 3": {"nodes_trueleafs": [1, 1]},
    "leaf_weights has 5 elements, and leaf_targetids 4": {"leaf_targetids": [0, 1, 1, 0]},
    "its nodes form a cycle, which node 1 of the lists leads to": {"nodes_falsenodeids": [2, 1, 4]},
    "post_transform 9 or aggregate_function 1 is no number that ONNX knows": {"post_transform": 9},
}


@pytest.mark.parametrize("message", BROKEN_ENSEMBLES)
def test_broken_ensembles_are_refused(message: str) -> None:
    with pytest.raises(CompileError, match=message):
        ensemble(ROWS, **(TREES | BROKEN_ENSEMBLES[message])).run()


def test_reference_evaluator_agrees() -> None:
    attributes, x = forest(6, 4, FEATURES, modes=["BRANCH_LEQ", "BRANCH_GT"], missing=(0, 1)), features(9, nan=True)
    graph = MlGraph({"x": x}, opset=3)
    graph.add("TreeEnsembleRegressor", "x", n_targets=1, aggregate_function="SUM", **attributes)
    (expected,) = ReferenceEvaluator(graph.model()).run(None, {"x": x})
    assert_same(graph.run()["y0_0"], expected)
    assert_same(graph.run_peer()["y0_0"], expected)
