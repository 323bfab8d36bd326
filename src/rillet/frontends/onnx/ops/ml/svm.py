"""ai.onnx.ml's support vector machines, as libsvm computes them.

A machine without support vectors is linear, as liblinear's: its coefficients are those of the features.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from rillet.frontends.building.contraction import contract
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.scalars import Scalar, constant, maximum, minimum, select, sigmoid
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.ml.class_labels import class_labels, labelled
from rillet.frontends.onnx.ops.ml.linear import linear_scores
from rillet.frontends.onnx.ops.ml.pairwise_coupling import coupled
from rillet.frontends.onnx.ops.ml.post_transforms import SecondScore, post_transform_of, transformed
from rillet.frontends.onnx.ops.ml.rows import float_rows
from rillet.frontends.onnx.ops.ml.svm_kernels import kernel_values
from rillet.frontends.onnx.ops.reduction import first_maximum
from rillet.frontends.onnx.registry import op
from rillet.frontends.onnx.strings.tensor import StringTensor

_DOMAIN = "ai.onnx.ml"
_LEAST = 1e-7  # the least probability of a class against another
_LINEAR = ("kernel_type", "kernel_params", "support_vectors")  # what a linear machine does not read


@op("SVMRegressor", domain=_DOMAIN, ignores=_LINEAR)
def svm_regressor(node: Node, x: Tensor) -> Tensor:
    """[rows, features] → float32 [rows, 1]; with ``one_class`` 1 where that is positive, else -1.

    Raises InvalidNode where numbers of coefficients, vectors or features do not fit.
    """
    b, rows = node.b, float_rows(node, x)
    offset, count = _numbers(node, "rho", 1), node.attr("n_supports", 0)
    if count:
        values = kernel_values(node, rows, count)
        weights = b.constant(
            _numbers(node, "coefficients", count).astype(rows.dtype)[:count, None], name="coefficients"
        )
        product = contract(b, ["mk", "kn"], "mn", [values, weights], rows.dtype)
        scores = b.map(lambda v: v + float(offset[0]), product)
    else:
        scores = linear_scores(node, rows, 1, offset[:1].tolist())
    if node.attr("one_class", 0):
        scores = b.map(lambda v: select(v > 0.0, constant(1.0, v.dtype), -1.0), scores)
    return b.cast(transformed(node, scores, post_transform_of(node)), "float32")


@op("SVMClassifier", domain=_DOMAIN, ignores=_LINEAR, strings=True)
@op("SVMClassifier", domain=_DOMAIN, ignores=_LINEAR)
def svm_classifier(node: Node, x: Tensor) -> list[Tensor | StringTensor]:
    """[rows, features] → labels [rows], and scores (float32).

    The label is the class that wins most pairs. The scores are the classes' probabilities [rows, classes] where the
    model has ``prob_a`` and ``prob_b``, else the pairs' decision values [rows, pairs]; of two classes both signs.
    Raises InvalidNode where numbers of coefficients, vectors, features or classes do not fit.
    """
    b, rows, kind = node.b, float_rows(node, x), post_transform_of(node)
    labels = class_labels(node, "classlabels_ints")
    counts = node.attr("vectors_per_class", None) or []
    if not sum(counts):
        places, scores = _linear(node, rows, len(labels))
        return [labelled(node, places, labels), b.cast(transformed(node, scores, kind), "float32")]
    if len(counts) != len(labels) or len(labels) < 2 or min(counts) < 0:
        raise InvalidNode(f"vectors_per_class {counts} are not the numbers of vectors of {len(labels)} classes")
    decisions = _decisions(node, kernel_values(node, rows, sum(counts)), counts)
    places = _winners(node, decisions, len(labels))
    second = SecondScore.NEGATION if kind == "NONE" else SecondScore.COMPLEMENT
    if node.attr("prob_a", None):
        decisions = coupled(node, _pair_probabilities(node, decisions), len(labels))
    return [labelled(node, places, labels), b.cast(transformed(node, decisions, kind, second), "float32")]


def _linear(node: Node, rows: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """The places of the classes of largest score, and the scores [rows, classes] of a linear machine.

    Of two classes the second one wins wherever the larger score is positive (0.5 or more if all coefficients are not
    negative), as in ONNX Runtime.
    """
    b, offset = node.b, float(_numbers(node, "rho", 1)[0])
    scores = linear_scores(node, rows, classes, [offset] * classes)
    places = first_maximum(node, scores, 1)
    if classes != 2:
        return places, scores
    no_negative = min(node.attr("coefficients")) >= 0
    largest = b.reduce(scores, [1], -np.inf, lambda v, acc: maximum(acc, v))

    def choose(place: Scalar, score: Scalar) -> Scalar:
        return select(score >= 0.5 if no_negative else score > 0.0, constant(1, "int64"), place)

    return b.map(choose, places, largest), scores


def _decisions(node: Node, values: Tensor, counts: Sequence[int]) -> Tensor:
    """[rows, pairs]: the decision value of each pair of classes, from the kernel's values [rows, vectors].

    The coefficients are [classes - 1, vectors]: for the vectors of a class one row for each other class.
    """
    b, classes, dtype = node.b, len(counts), values.dtype
    given = _numbers(node, "coefficients", (classes - 1) * sum(counts))
    table = given[: (classes - 1) * sum(counts)].reshape(classes - 1, -1).T.astype(dtype)
    pairs = list(combinations(range(classes), 2))
    offsets = b.constant(_numbers(node, "rho", len(pairs))[: len(pairs)].astype(dtype), name="rho")
    if classes == 2:
        sums = contract(b, ["mk", "kn"], "mn", [values, b.constant(table, name="coefficients")], dtype)
        return b.map(lambda v, w: v + w, sums, offsets)
    ends = np.cumsum(counts)
    parts = []
    for end, count in zip(ends, counts, strict=True):
        block = b.slice_axis(values, 1, int(end - count), count)
        weights = b.constant(np.ascontiguousarray(table[end - count : end]), name="coefficients")
        parts.append(contract(b, ["mk", "kn"], "mn", [block, weights], dtype))
    sums = b.value(b.concat(parts, 1))  # of class c for its r-th other class at c (classes - 1) + r
    firsts, seconds = (
        b.value(b.constant(np.array(places, np.int64), name="pairs"))
        for places in ([i * (classes - 1) + j - 1 for i, j in pairs], [j * (classes - 1) + i for i, j in pairs])
    )
    rho = b.value(offsets)

    def add(at: list[Scalar]) -> Scalar:
        one, other = (convert(b.element(places, "int64", [at[1]]), "index") for places in (firsts, seconds))
        total = b.element(sums, dtype, [at[0], one]) + b.element(sums, dtype, [at[0], other])
        return total + b.element(rho, dtype, [at[1]])

    return b.indexed(dtype, [values.shape[0], len(pairs)], add)


def _winners(node: Node, decisions: Tensor, classes: int) -> Tensor:
    """The place of the class that wins most pairs, the first one of equals. A positive decision is for the first."""
    b = node.b
    if classes == 2:
        return b.map(lambda v: convert(~(v > 0.0), "int64"), b.squeeze(decisions, [1]), dtype="int64")
    pairs = list(combinations(range(classes), 2))
    first, second = np.eye(classes)[[i for i, _ in pairs]], np.eye(classes)[[j for _, j in pairs]]
    won = b.map(lambda v: convert(v > 0.0, "float32"), decisions, dtype="float32")
    change = b.constant((first - second).astype(np.float32), name="pairs")
    lost = b.constant(second.sum(0).astype(np.float32), name="pairs")
    votes = contract(b, ["mk", "kn"], "mn", [won, change], "float32")
    return first_maximum(node, b.map(lambda v, w: v + w, votes, lost), 1)


def _pair_probabilities(node: Node, decisions: Tensor) -> Tensor:
    """The probability of each pair's first class, by Platt's sigmoid."""
    b, pairs = node.b, decisions.shape[1]
    assert isinstance(pairs, int)
    slopes, offsets = (
        b.constant(_numbers(node, name, pairs)[:pairs].astype(decisions.dtype), name=name)
        for name in ("prob_a", "prob_b")
    )

    def body(v: Scalar, slope: Scalar, offset: Scalar) -> Scalar:
        probability = sigmoid(-(v * slope + offset))
        return minimum(maximum(probability, _LEAST), 1.0 - _LEAST)

    return b.map(body, decisions, slopes, offsets)


def _numbers(node: Node, name: str, least: int) -> np.ndarray:
    """An attribute of at least this many numbers. Raises InvalidNode where it has fewer."""
    given = np.asarray(node.attr(name, None) or [], np.float32)
    if given.size < least:
        raise InvalidNode(f"{name} has {given.size} numbers; {least} are needed")
    return given
