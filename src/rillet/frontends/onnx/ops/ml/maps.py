"""ai.onnx.ml's ops on maps."""

from __future__ import annotations

import numpy as np

from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.ml.class_labels import class_labels
from rillet.frontends.onnx.ops.ml.rows import rows_of
from rillet.frontends.onnx.registry import op
from rillet.frontends.onnx.sequences import MapSequence
from rillet.frontends.onnx.strings.tensor import StringTensor, from_array

_DOMAIN = "ai.onnx.ml"


@op("ZipMap", domain=_DOMAIN, strings=True)
@op("ZipMap", domain=_DOMAIN)
def zip_map(node: Node, x: Tensor) -> MapSequence:
    """[rows, keys] → a map for each row. Raises InvalidNode unless there is a key for each column."""
    labels, values = class_labels(node, "classlabels_int64s"), rows_of(node, x)
    if isinstance(values.shape[1], int) and values.shape[1] != len(labels):
        raise InvalidNode(f"it has {len(labels)} keys for {values.shape[1]} columns")
    keys: Tensor | StringTensor
    if isinstance(labels[0], str):
        keys = from_array(node.b, np.array(labels, dtype=object), "keys")
    else:
        keys = node.b.constant(np.array(labels, np.int64), name="keys")
    return MapSequence(keys, values)
