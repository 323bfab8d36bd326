"""ai.onnx.ml's linear models."""

from __future__ import annotations

import numpy as np

from rillet.frontends.building.contraction import contract
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.ml.class_labels import class_labels, labelled
from rillet.frontends.onnx.ops.ml.post_transforms import SecondScore, post_transform_of, transformed
from rillet.frontends.onnx.ops.ml.rows import float_rows
from rillet.frontends.onnx.ops.reduction import first_maximum
from rillet.frontends.onnx.registry import op
from rillet.frontends.onnx.strings.tensor import StringTensor

_DOMAIN = "ai.onnx.ml"


@op("LinearRegressor", domain=_DOMAIN)
def linear_regressor(node: Node, x: Tensor) -> Tensor:
    """[rows, features] → float32 [rows, targets]: the products with each target's coefficients, and its intercept."""
    scores = linear_scores(node, float_rows(node, x), node.attr("targets", 1), node.attr("intercepts", None))
    return node.b.cast(transformed(node, scores, post_transform_of(node)), "float32")


@op("LinearClassifier", domain=_DOMAIN, ignores=["multi_class"], strings=True)
@op("LinearClassifier", domain=_DOMAIN, ignores=["multi_class"])
def linear_classifier(node: Node, x: Tensor) -> list[Tensor | StringTensor]:
    """[rows, features] → the labels of the classes of largest score [rows], the scores (float32) [rows, classes].

    Of two classes, a model may score the second one only. Raises InvalidNode unless labels and scores agree in number.
    """
    rows, intercepts = float_rows(node, x), node.attr("intercepts", None)
    labels = class_labels(node, "classlabels_ints")
    count = len(intercepts) if intercepts else _row_count(node, rows, len(labels))
    if len(labels) != max(count, 2):
        raise InvalidNode(f"it has {len(labels)} labels for {count} rows of coefficients")
    scores = linear_scores(node, rows, count, intercepts)
    if count == 1:
        places = node.b.map(lambda v: convert(v > 0.0, "int64"), node.b.squeeze(scores, [1]), dtype="int64")
    else:
        places = first_maximum(node, scores, 1)
    shown = transformed(node, scores, post_transform_of(node), SecondScore.COMPLEMENT)
    return [labelled(node, places, labels), node.b.cast(shown, "float32")]


def _row_count(node: Node, rows: Tensor, labels: int) -> int:
    """The rows of coefficients of a classifier without intercepts."""
    width = rows.shape[1]
    return len(node.attr("coefficients")) // max(width, 1) if isinstance(width, int) else labels


def linear_scores(node: Node, rows: Tensor, count: int, offsets: list[float] | None) -> Tensor:
    """[rows, count]: the products of float rows with ``count`` rows of coefficients, plus an offset for each.

    Raises InvalidNode where the numbers of coefficients or offsets do not fit.
    """
    b, coefficients = node.b, np.asarray(node.attr("coefficients"), rows.dtype)
    if count < 1 or coefficients.size == 0 or coefficients.size % count:
        raise InvalidNode(f"{coefficients.size} coefficients are not {count} rows of equal length")
    if offsets and len(offsets) != count:
        raise InvalidNode(f"it has {len(offsets)} intercepts for {count} rows of coefficients")
    weights = b.constant(np.ascontiguousarray(coefficients.reshape(count, -1).T), name="coefficients")
    width, features = weights.shape[0], rows.shape[1]
    if isinstance(features, int) and features != width:
        raise InvalidNode(f"its input has {features} features, and its coefficients are for {width}")
    product = contract(b, ["mk", "kn"], "mn", [rows, weights], rows.dtype)
    return (
        b.map(lambda v, w: v + w, product, b.constant(np.asarray(offsets, rows.dtype), name="intercepts"))
        if offsets
        else product
    )
