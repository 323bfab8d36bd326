"""Support vector machines of ai.onnx.ml, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

import rillet
from rillet.errors import CompileError
from tests.support.ml_models import MlGraph, assert_same

INT, FLOAT, STRING = TensorProto.INT64, TensorProto.FLOAT, TensorProto.STRING
KERNELS = {"LINEAR": [0.0, 0.0, 0.0], "POLY": [0.5, 0.1, 3.0], "RBF": [0.5, 0.0, 0.0], "SIGMOID": [0.5, 0.1, 0.0]}
ROWS = np.random.default_rng(5).normal(size=(7, 4)).astype(np.float32)


def machine(counts: list[int], seed: int = 1, kernel: str = "RBF", probabilities: bool = False) -> dict[str, Any]:
    """The attributes of a classifier with random vectors and coefficients."""
    rng, classes, total = np.random.default_rng(seed), len(counts), sum(counts)
    pairs = classes * (classes - 1) // 2
    result: dict[str, Any] = {
        "kernel_type": kernel,
        "kernel_params": KERNELS[kernel],
        "vectors_per_class": counts,
        "support_vectors": rng.normal(size=total * 4).tolist(),
        "coefficients": rng.normal(size=(classes - 1) * total).tolist(),
        "rho": rng.normal(size=pairs).tolist(),
        "classlabels_ints": [3 * i - 1 for i in range(classes)],
    }
    if probabilities:
        result |= {"prob_a": rng.normal(size=pairs).tolist(), "prob_b": rng.normal(size=pairs).tolist()}
    return result


def check(graph: MlGraph) -> None:
    found, expected = graph.run(), graph.run_peer()
    for name, want in expected.items():
        assert_same(found[name], want)


def test_kernels() -> None:
    graph = MlGraph({"x": ROWS})
    for kernel in KERNELS:
        graph.add("SVMClassifier", "x", INT, FLOAT, **machine([3, 2], kernel=kernel))
        weights = {"coefficients": [0.5, -1.0, 0.25], "rho": [0.3], "support_vectors": ROWS[:3].ravel().tolist()}
        for one_class in (0, 1):
            graph.add(
                "SVMRegressor",
                "x",
                kernel_type=kernel,
                kernel_params=KERNELS[kernel],
                n_supports=3,
                one_class=one_class,
                **weights,
            )
    graph.add("SVMClassifier", "x", INT, FLOAT, **{**machine([3, 2], kernel="POLY"), "kernel_params": [0.1, 2.0, 0.5]})
    check(graph)


def test_classes_and_transforms() -> None:
    graph = MlGraph({"x": ROWS})
    for kind in ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"):
        graph.add("SVMClassifier", "x", INT, FLOAT, post_transform=kind, **machine([3, 2]))
        graph.add("SVMClassifier", "x", INT, FLOAT, post_transform=kind, **machine([1, 3, 2]))
    names = {**machine([1, 3, 2, 2]), "classlabels_strings": ["a", "d", "b", "c"]}
    del names["classlabels_ints"]
    graph.add("SVMClassifier", "x", STRING, FLOAT, **names)
    check(graph)


def test_probabilities() -> None:
    graph = MlGraph({"x": ROWS})
    graph.add("SVMClassifier", "x", INT, FLOAT, **machine([3, 2], probabilities=True))
    graph.add("SVMClassifier", "x", INT, FLOAT, post_transform="SOFTMAX", **machine([2, 1, 3], probabilities=True))
    graph.add("SVMClassifier", "x", INT, FLOAT, **machine([2] * 7, probabilities=True))
    check(graph)


def test_machines_without_vectors() -> None:
    graph = MlGraph({"x": ROWS})
    weights = np.random.default_rng(2).normal(size=12).tolist()
    linear: dict[str, Any] = {"kernel_params": [0.0, 0.0, 0.0], "rho": [0.1]}
    for kind in ("NONE", "LOGISTIC"):
        for labels in ([5], [5, 6], [5, 6, 7]):
            used = weights[: 4 * len(labels)]
            graph.add(
                "SVMClassifier",
                "x",
                INT,
                FLOAT,
                coefficients=used,
                classlabels_ints=labels,
                post_transform=kind,
                **linear,
            )
    positive = np.abs(weights[:8]).tolist()
    graph.add("SVMClassifier", "x", INT, FLOAT, coefficients=positive, classlabels_ints=[5, 6], **linear)
    graph.add("SVMRegressor", "x", coefficients=weights[:4], **linear, n_supports=0)
    check(graph)


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_input_types(dtype: str) -> None:
    graph = MlGraph({"x": (ROWS * 3).astype(dtype), "row": (ROWS[0] * 3).astype(dtype)})
    for name in graph.arrays:
        graph.add("SVMClassifier", name, INT, FLOAT, **machine([2, 2, 1], probabilities=True))
    check(graph)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kernel_type": "COSINE"}, "kernel_type 'COSINE' is not one of LINEAR"),
        ({"kernel_params": [1.0]}, "kernel_params has 1 numbers"),
        ({"support_vectors": [1.0] * 7}, "7 numbers, which are not 5 vectors"),
        ({"support_vectors": [1.0] * 15}, "4 features, and its support vectors 3"),
        ({"vectors_per_class": [5]}, r"vectors_per_class \[5\] are not the numbers of vectors of 2 classes"),
        ({"vectors_per_class": [6, -1]}, r"\[6, -1\] are not the numbers"),
        ({"coefficients": [1.0] * 4}, "coefficients has 4 numbers; 5 are needed"),
        ({"prob_a": [1.0]}, "prob_b has 0 numbers; 1 are needed"),
    ],
)
def test_contradictions_are_refused(changes: dict[str, Any], message: str) -> None:
    graph = MlGraph({"x": ROWS})
    graph.add("SVMClassifier", "x", INT, FLOAT, **{**machine([3, 2]), **changes})
    with pytest.raises(CompileError, match=message):
        rillet.compile(graph.model(), jobs=1)
