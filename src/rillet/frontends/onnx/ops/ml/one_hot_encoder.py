"""ai.onnx.ml's OneHotEncoder."""

from __future__ import annotations

import numpy as np
from torch_mlir import ir

from rillet.frontends.building.checks import require
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.scalars import Scalar
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.registry import op
from rillet.frontends.onnx.strings.search import find
from rillet.frontends.onnx.strings.tensor import StringTensor
from rillet.ir import locations

_DOMAIN = "ai.onnx.ml"


@op("OneHotEncoder", domain=_DOMAIN, strings=True)
@op("OneHotEncoder", domain=_DOMAIN)
def one_hot_encoder(node: Node, x: Tensor | StringTensor) -> Tensor:
    """1 at the category of each element along a new last dimension; without ``zeros`` each element must have one.

    Raises InvalidNode unless the categories are of the kind of the input.
    """
    b = node.b
    names, numbers = node.attr("cats_strings", None), node.attr("cats_int64s", None)
    categories = names if isinstance(x, StringTensor) else numbers
    if not categories or (names and numbers):
        raise InvalidNode("the categories must be strings for an input of strings, integers otherwise, and some")
    if isinstance(x, StringTensor):
        wanted = find(b, x, names)
        values = np.arange(len(names), dtype=np.int64)
    else:
        wanted, values = b.cast(x, "int64"), np.array(numbers, np.int64)
    source, table = b.value(wanted), b.value(b.constant(values, name="categories"))

    def body(at: list[Scalar]) -> Scalar:
        hit = b.element(source, "int64", at[:-1]) == b.element(table, "int64", [at[-1]])
        return convert(hit, "float32")

    result = b.indexed("float32", [*x.shape, len(values)], body)
    if not node.attr("zeros", 1):
        found = b.map(lambda v: v > 0, b.reduce(result, [x.rank], 0, lambda v, acc: acc + v), dtype="bool")
        require(b, found, f"{locations.label(ir.Location.current)}: an element is of no category")
    return result
