"""TreeEnsembleClassifier: labels and scores of one, two and more classes, whichever of them have weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

from rillet.errors import CompileError, UnsupportedError
from tests.support.forests import forest
from tests.support.ml_models import MlGraph, assert_same

X = np.array([[-1.0], [1.0]], np.float32)
KINDS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
Stump = tuple[dict[int, float], dict[int, float]]  # the weights of both leaves, by class


def stump(weights: Stump, count: int, **attributes: Any) -> dict[str, Any]:
    """One decision at 0. Labels are 10, 20 … unless others are given."""
    entries = [(leaf, c, w) for leaf, classes in enumerate(weights, 1) for c, w in classes.items()]
    if not {"classlabels_strings", "classlabels_int64s"} & set(attributes):
        attributes["classlabels_int64s"] = [10 * (n + 1) for n in range(count)]
    return {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0, 0, 0],
        "nodes_values": [0.0, 0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "class_treeids": [0] * len(entries),
        "class_nodeids": [leaf for leaf, _, _ in entries],
        "class_ids": [c for _, c, _ in entries],
        "class_weights": [w for _, _, w in entries],
        **attributes,
    }


def add(graph: MlGraph, attributes: dict[str, Any]) -> list[str]:
    label = TensorProto.STRING if "classlabels_strings" in attributes else TensorProto.INT64
    return graph.add("TreeEnsembleClassifier", "x", label, TensorProto.FLOAT, **attributes)


def reference(graph: MlGraph) -> dict[str, np.ndarray]:
    """The outputs as ONNX's reference evaluator computes them."""
    model = graph.model()
    return dict(
        zip((o.name for o in model.graph.output), ReferenceEvaluator(model).run(None, graph.arrays), strict=True)
    )


POSITIVE: Stump = ({0: 0.2}, {0: 0.7})
MIXED: Stump = ({0: -0.4}, {0: 0.7})
THREE: Stump = ({0: 0.2, 1: 0.5, 2: 0.3}, {0: 0.7, 2: 0.3})
NEGATIVE: Stump = ({0: -0.2, 1: -0.5}, {0: -0.7, 1: -0.1})


def test_as_onnx_runtime() -> None:
    """One score for two classes, as converters write them, one class, and several."""
    graph = MlGraph({"x": X}, opset=3)
    for kind in KINDS[:-1]:
        for weights in (POSITIVE, MIXED):
            add(graph, stump(weights, 2, post_transform=kind))
            add(graph, stump(weights, 2, post_transform=kind, base_values=[0.1]))
            add(graph, stump(weights, 1, post_transform=kind, classlabels_int64s=[1]))
        add(graph, stump(({1: 0.2}, {1: 0.7}), 2, post_transform=kind))
        add(graph, stump(({1: -0.4}, {1: 0.7}), 2, post_transform=kind))
        # A class that no leaf has a weight for does not compete.
        add(graph, stump(NEGATIVE, 3, post_transform=kind))
        add(graph, stump(THREE, 3, post_transform=kind, base_values=[0.1, 0.2, 0.6]))
    found, expected = graph.run(), graph.run_peer()
    for name in found:
        assert_same(found[name], expected[name])


def test_as_the_reference_evaluator() -> None:
    """Where ONNX Runtime goes wrong: the larger of two scores wins, and base values belong to their classes."""
    graph = MlGraph({"x": X}, opset=3)
    both: Stump = ({0: 0.8, 1: 0.2}, {0: 0.3, 1: 0.7})
    for kind in KINDS:
        add(graph, stump(both, 2, post_transform=kind))
        add(graph, stump(both, 2, post_transform=kind, base_values=[0.05, 0.1]))
    add(graph, stump(({0: 0.9}, {1: 0.7}), 2))
    add(graph, stump(POSITIVE, 2, base_values=[0.1, 0.3]))
    add(graph, stump(POSITIVE, 2, post_transform="PROBIT"))
    add(graph, stump(THREE, 3, base_values=[0.1]))
    found, expected = graph.run(), reference(graph)
    for name in found:
        assert_same(found[name], expected[name], rtol=1e-4)


def test_labels_that_are_strings() -> None:
    graph = MlGraph({"x": X}, opset=1)
    add(graph, stump(POSITIVE, 2, classlabels_strings=["no", "yes, é"]))
    add(graph, stump(THREE, 3, classlabels_strings=["a", "b", "c"]))
    found, expected = graph.run(), graph.run_peer()
    assert found["y0_0"].tolist() == expected["y0_0"].tolist() == ["no", "yes, é"]
    assert found["y1_0"].tolist() == expected["y1_0"].tolist() == ["b", "a"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
def test_forests(dtype: type) -> None:
    """Whole forests with weights for all classes, for some, and for one a tree."""
    random = np.random.default_rng(0)
    x = random.integers(-4, 5, (40, 6)).astype(dtype)
    graph = MlGraph({"x": x}, opset=3)
    for targets in (
        lambda random, tree: [0, 1, 2, 3],
        lambda random, tree: [int(random.integers(4))],
        lambda random, tree: [tree % 4],
    ):
        attributes = forest(12, 5, 6, targets=targets, kind="class")
        attributes["class_weights"] = [abs(w) for w in attributes["class_weights"]]
        add(graph, {**attributes, "classlabels_int64s": [3, 1, 4, 5], "post_transform": "SOFTMAX"})
    found, expected = graph.run(), graph.run_peer()
    for name in found:
        assert_same(found[name], expected[name])


REFUSED = {
    "it has 2 base_values for 3 classes": {"base_values": [1.0, 2.0]},
    "it needs either classlabels_strings or classlabels_int64s, and has both": {
        "classlabels_strings": ["a"],
        "classlabels_int64s": [1],
    },
    "post_transform 'TANH' is not one of": {"post_transform": "TANH"},
    "a leaf has a weight for target 2, and there are 2 targets": {"classlabels_int64s": [1, 2]},
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message: str) -> None:
    graph = MlGraph({"x": X}, opset=3)
    add(graph, stump(THREE, 3, **REFUSED[message]))
    with pytest.raises(CompileError, match=message):
        graph.run()


def test_one_class_with_another_label_than_1() -> None:
    graph = MlGraph({"x": X}, opset=3)
    add(graph, stump(POSITIVE, 1))
    with pytest.raises(UnsupportedError, match="one class, whose label is 10"):
        graph.run()
