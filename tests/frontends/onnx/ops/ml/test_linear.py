"""Linear models of ai.onnx.ml and their post transforms, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

import rillet
from rillet.errors import CompileError
from tests.support.ml_models import MlGraph, assert_same

INT, FLOAT, STRING = TensorProto.INT64, TensorProto.FLOAT, TensorProto.STRING
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
ROWS = np.array([[0.2, 0.7, 0.5], [0.9, 0.0, 0.25], [0.5, 0.5, 0.125], [0.3, 0.6, 0.9]], np.float32)
SQUARE = {"coefficients": np.eye(3).ravel().tolist(), "intercepts": [0.0, 0.0, 0.0]}


def check(graph: MlGraph) -> None:
    found, expected = graph.run(), graph.run_peer()
    for name, want in expected.items():
        assert_same(found[name], want)


def test_transforms_and_labels() -> None:
    graph = MlGraph({"x": ROWS})
    for kind in TRANSFORMS:
        graph.add("LinearClassifier", "x", INT, FLOAT, post_transform=kind, classlabels_ints=[7, -1, 3], **SQUARE)
        graph.add("LinearRegressor", "x", FLOAT, post_transform=kind, targets=3, **SQUARE)
    names = ["ä", "b", "a"]
    graph.add("LinearClassifier", "x", STRING, FLOAT, classlabels_strings=names, **SQUARE)
    check(graph)


def test_one_row_of_coefficients() -> None:
    """The second score is made of the first one; a regressor's only score is transformed by PROBIT alone."""
    graph = MlGraph({"x": ROWS})
    one: dict[str, Any] = {"coefficients": [0.5, -1.0, 0.25], "intercepts": [0.3]}
    for kind in TRANSFORMS[:-1]:
        graph.add("LinearClassifier", "x", INT, FLOAT, post_transform=kind, classlabels_ints=[4, 9], **one)
    for kind in TRANSFORMS:
        graph.add("LinearRegressor", "x", FLOAT, post_transform=kind, **one)
    graph.add("LinearRegressor", "x", FLOAT, coefficients=[0.5, -1.0, 0.25])
    graph.add("LinearClassifier", "x", STRING, FLOAT, classlabels_strings=["no", "yes"], **one)
    check(graph)


@pytest.mark.parametrize("dtype", ["float64", "int32", "int64"])
def test_input_types(dtype: str) -> None:
    graph = MlGraph({"x": (ROWS * 10).astype(dtype), "row": (ROWS[0] * 10).astype(dtype)})
    for name in ("x", "row"):
        graph.add("LinearClassifier", name, INT, FLOAT, classlabels_ints=[0, 1, 2], post_transform="SOFTMAX", **SQUARE)
    check(graph)


def test_zeros_are_no_class_of_softmax_zero() -> None:
    """All zeros give 0.5 as in ONNX's evaluator, where ONNX Runtime gives NaN."""
    graph = MlGraph({"x": np.array([[0, 0, 0], [1, 0, -2]], np.float32)})
    _, y = graph.add(
        "LinearClassifier", "x", INT, FLOAT, classlabels_ints=[0, 1, 2], post_transform="SOFTMAX_ZERO", **SQUARE
    )
    shares = np.exp([1, -2]) / np.exp([1, -2]).sum()
    np.testing.assert_allclose(graph.run()[y], [[0.5, 0.5, 0.5], [shares[0], 0, shares[1]]], rtol=1e-6)


@pytest.mark.parametrize(
    ("op_type", "changes", "message"),
    [
        ("LinearClassifier", {"classlabels_ints": [1, 2]}, "2 labels for 3 rows of coefficients"),
        ("LinearClassifier", {"classlabels_strings": ["a", "b", "c"], "classlabels_ints": [1, 2, 3]}, "has both"),
        ("LinearClassifier", {}, "has neither"),
        ("LinearRegressor", {"targets": 2}, "9 coefficients are not 2 rows of equal length"),
        ("LinearRegressor", {"targets": 9}, "3 intercepts for 9 rows"),
        ("LinearRegressor", {"targets": 3, "coefficients": [1.0] * 6}, "3 features, and its coefficients are for 2"),
        ("LinearRegressor", {"targets": 3, "post_transform": "TANH"}, "post_transform 'TANH' is not one of NONE"),
    ],
)
def test_contradictions_are_refused(op_type: str, changes: dict[str, Any], message: str) -> None:
    graph = MlGraph({"x": ROWS})
    codes = (INT, FLOAT) if op_type == "LinearClassifier" else (FLOAT,)
    graph.add(op_type, "x", *codes, **{**SQUARE, **changes})
    with pytest.raises(CompileError, match=message):
        rillet.compile(graph.model(), jobs=1)


def test_other_ranks_are_refused() -> None:
    graph = MlGraph({"x": ROWS[None]})
    graph.add("LinearRegressor", "x", FLOAT, targets=3, **SQUARE)
    with pytest.raises(CompileError, match="3 dimensions; the op takes"):
        rillet.compile(graph.model(), jobs=1)
