"""Constants that are strings, empty sequences of strings, and Unique on strings."""

from __future__ import annotations

import numpy as np

from rillet.frontends.building.conversions import convert
from rillet.frontends.building.scalars import Scalar
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.selection import unique
from rillet.frontends.onnx.registry import op
from rillet.frontends.onnx.sequences import TensorSequence
from rillet.frontends.onnx.strings.search import ranks
from rillet.frontends.onnx.strings.tensor import STRING, StringTensor, from_array


@op("Constant", strings=True)
def string_constant(node: Node) -> StringTensor:
    """The strings of ``value``, ``value_string`` or ``value_strings``."""
    name = node.proto.output[0]
    if node.has("value_string"):
        return from_array(node.b, np.array(node.attr("value_string"), dtype=object), name)
    if node.has("value_strings"):
        return from_array(node.b, np.array(node.attr("value_strings"), dtype=object), name)
    return from_array(node.b, node.attr("value"), name)


@op("SequenceEmpty", since=11, strings=True)
def string_sequence_empty(node: Node) -> TensorSequence:
    """A sequence without tensors, of strings."""
    node.attr("dtype")
    return TensorSequence(STRING, ())


@op("Unique", since=11, strings=True)
def string_unique(node: Node, x: StringTensor) -> list[StringTensor | Tensor]:
    """Unique on the strings' ranks, which are in the order of their code points."""
    b = node.b
    numbers, entries = ranks(b, x)
    values, *rest = unique(node, numbers)
    table = b.value(entries)

    def entry(rank: Scalar) -> Scalar:
        return b.element(table, "int64", [convert(rank, "index")])

    return [x.with_ids(b.map(entry, values)), *rest]
