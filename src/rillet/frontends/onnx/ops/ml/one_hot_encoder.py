"""ai.onnx.ml's OneHotEncoder."""

from __future__ import annotations

import numpy as np
from torch_mlir import ir

from rillet.frontends.building.checks import require
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.ml.lookup import places
from rillet.frontends.onnx.registry import op
from rillet.frontends.onnx.strings.tensor import StringTensor
from rillet.ir import locations

_DOMAIN = "ai.onnx.ml"


@op("OneHotEncoder", domain=_DOMAIN, strings=True)
@op("OneHotEncoder", domain=_DOMAIN)
def one_hot_encoder(node: Node, x: Tensor | StringTensor) -> Tensor:
    """1 at the category of each element along a new last dimension; without ``zeros`` each element must have one.

    Numbers are cut to integers. The last of equal categories is meant. Raises InvalidNode unless the
    categories are of the kind of the input.
    """
    b = node.b
    names, numbers = node.attr("cats_strings", None), node.attr("cats_int64s", None)
    categories = names if isinstance(x, StringTensor) else numbers
    if not categories or (names and numbers):
        raise InvalidNode("the categories must be strings for an input of strings, integers otherwise, and some")
    keys = names if isinstance(x, StringTensor) else np.array(numbers, np.int64)
    at = places(node, x if isinstance(x, StringTensor) else b.cast(x, "int64"), keys)
    columns = b.constant(np.arange(len(keys), dtype=np.int32), name="columns")
    result = b.map_along(
        lambda place, column: convert(place == column, "float32"),
        [*x.shape, len(keys)],
        (b.cast(at, "int32"), range(x.rank)),
        (columns, [x.rank]),
        dtype="float32",
    )
    if not node.attr("zeros", 1):
        found = b.map(lambda place: place >= 0, at, dtype="bool")
        require(b, found, f"{locations.label(ir.Location.current)}: an element is of no category")
    return result
