"""ai.onnx.ml's TreeEnsembleClassifier.

ONNX Runtime and ONNX's reference evaluator disagree on two classes. Where all weights are of the first class, a model
has one score: that of the second class, and this follows ONNX Runtime, as converters do. Where both classes have
weights, it follows the evaluator: the larger score wins, and ONNX Runtime says 1 for any positive score of the second.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rillet.frontends.building.conversions import convert
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.ml.class_labels import class_labels, labelled
from rillet.frontends.onnx.ops.ml.post_transforms import SecondScore, post_transform_of, transformed
from rillet.frontends.onnx.ops.ml.rows import rows_of
from rillet.frontends.onnx.ops.ml.tree_attributes import forest_of_nodes
from rillet.frontends.onnx.ops.ml.tree_ensemble import aggregated, base_values
from rillet.frontends.onnx.ops.ml.tree_forest import Forest
from rillet.frontends.onnx.ops.reduction import first_maximum
from rillet.frontends.onnx.registry import op
from rillet.frontends.onnx.strings.tensor import StringTensor

_DOMAIN = "ai.onnx.ml"
_IGNORED = ["nodes_hitrates", "nodes_hitrates_as_tensor"]


@op("TreeEnsembleClassifier", domain=_DOMAIN, ignores=_IGNORED, strings=True)
@op("TreeEnsembleClassifier", domain=_DOMAIN, ignores=_IGNORED)
def tree_ensemble_classifier(node: Node, x: Tensor) -> list[Tensor | StringTensor]:
    """[rows, features] → the labels of the classes [rows], the scores (float32) [rows, classes].

    Raises InvalidNode for ``base_values`` that are neither one nor one for each class.
    """
    forest, labels = forest_of_nodes(node, "class"), class_labels(node, "classlabels_int64s")
    rows, kind, base = rows_of(node, x), post_transform_of(node), base_values(node)
    if base is not None and len(base) not in (1, len(labels)):
        raise InvalidNode(f"it has {len(base)} base_values for {len(labels)} classes")
    scored = np.unique(forest.weights.target)
    if len(labels) <= 2 and scored.tolist() == [0]:
        score = aggregated(node, rows, forest, 1, "SUM", None if base is None else base[:1])
        if len(labels) == 1:
            return [_of_one(node, score, labels), node.b.cast(transformed(node, score, kind), "float32")]
        # As ONNX Runtime has it, the first class's score is 1 - s where no weight is negative.
        second = SecondScore.COMPLEMENT if _is_positive(forest) and kind != "LOGISTIC" else SecondScore.NEGATION
        shown = transformed(node, score, kind, second)
        return [_of_two(node, score, forest, labels), node.b.cast(shown, "float32")]
    scores = aggregated(node, rows, forest, len(labels), "SUM", base)
    shown = node.b.cast(transformed(node, scores, kind), "float32")
    if len(labels) == 2 and scored.tolist() == [1]:
        return [_of_two(node, node.b.slice_axis(scores, 1, 1, 1), forest, labels), shown]
    if base is None and 0 < len(scored) < len(labels):
        scores = _without_unscored(node, scores, scored, len(labels))
    return [labelled(node, first_maximum(node, scores, 1), labels), shown]


def _is_positive(forest: Forest) -> bool:
    return bool((forest.weights.value >= 0).all())


def _of_one(node: Node, score: Tensor, labels: list[int] | list[str]) -> Tensor:
    """1 where the score [rows, 1] of the only class, which is 1, is above zero, and 0 elsewhere."""
    if labels != [1]:
        raise UnsupportedFeature(f"one class, whose label is {labels[0]!r}", "give it a label for either class")
    return node.b.map(lambda v: convert(v > 0.0, "int64"), node.b.squeeze(score, [1]), dtype="int64")


def _of_two(node: Node, score: Tensor, forest: Forest, labels: list[int] | list[str]) -> Tensor | StringTensor:
    """The labels by the score [rows, 1] of the second class: a share of one where no weight is negative."""
    least = 0.5 if _is_positive(forest) else 0.0
    places = node.b.map(lambda v: convert(v > least, "int64"), node.b.squeeze(score, [1]), dtype="int64")
    return labelled(node, places, labels)


def _without_unscored(node: Node, scores: Tensor, scored: npt.NDArray[np.int64], classes: int) -> Tensor:
    """The scores, with -inf for the classes that no leaf has a weight for: they do not compete."""
    handicap = np.full(classes, -np.inf, scores.dtype)
    handicap[scored] = 0
    return node.b.map(lambda v, h: v + h, scores, node.b.constant(handicap, name="unscored"))
