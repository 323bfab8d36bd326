"""The labels of a classifier's classes: integers or strings."""

from __future__ import annotations

import numpy as np

from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.ml.lookup import entries
from rillet.frontends.onnx.strings.tensor import StringTensor


def class_labels(node: Node, integers: str) -> list[int] | list[str]:
    """The labels in ``classlabels_strings`` or in the attribute that ``integers`` names.

    Raises InvalidNode unless exactly one of them has any.
    """
    names, numbers = node.attr("classlabels_strings", None), node.attr(integers, None)
    if bool(names) == bool(numbers):
        raise InvalidNode(
            f"it needs either classlabels_strings or {integers}, and has {'both' if names else 'neither'}"
        )
    return names or numbers


def labelled(node: Node, places: Tensor, labels: list[int] | list[str]) -> Tensor | StringTensor:
    """The label of each class, which is given by its place among ``labels`` (int64)."""
    if labels == list(range(len(labels))):
        return places
    return entries(node, places, labels if isinstance(labels[0], str) else np.array(labels, np.int64))
