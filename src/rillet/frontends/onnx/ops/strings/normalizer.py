"""StringNormalizer: stop words out, then upper or lower case."""

from __future__ import annotations

import numpy as np
from torch_mlir import ir

from rillet.frontends.building.conversions import convert
from rillet.frontends.building.loops import for_range, read_extent, store
from rillet.frontends.building.scalars import Scalar, select
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.registry import op
from rillet.frontends.onnx.strings.case import change_case
from rillet.frontends.onnx.strings.search import find
from rillet.frontends.onnx.strings.tensor import StringTensor, from_array, merged


@op("StringNormalizer", since=10, strings=True, ignores=["locale"])
def string_normalizer(node: Node, x: StringTensor) -> StringTensor:
    """The strings of a [C] or [1, C] tensor that are not stop words, or one empty string if none is left.

    Raises InvalidNode for other shapes and unknown case changes.
    """
    b = node.b
    action = node.attr("case_change_action", "NONE")
    if action not in ("LOWER", "UPPER", "NONE"):
        raise InvalidNode(f"case_change_action '{action}' is not one of LOWER, UPPER, NONE")
    if x.rank not in (1, 2) or (x.rank == 2 and isinstance(x.shape[0], int) and x.shape[0] != 1):
        raise InvalidNode("the input must be of shape [C] or [1, C]")
    matrix = x.rank == 2
    row = x.with_ids(b.squeeze(x.ids, [0])) if matrix else x
    kept = _without(node, row, node.attr("stopwords", None) or [], bool(node.attr("is_case_sensitive", 0)))
    changed = kept if action == "NONE" else change_case(b, kept, action == "UPPER")
    return changed.with_ids(b.unsqueeze(changed.ids, [0])) if matrix else changed


def _without(node: Node, x: StringTensor, words: list[str], exact: bool) -> StringTensor:
    b = node.b
    capacity = x.shape[0]
    if exact or not words:
        places = find(b, x, words)
    else:
        places = find(b, change_case(b, x, upper=False), ["".join(c.lower() for c in word) for word in words])
    table, nothing = merged(b, [x, from_array(b, np.array("", dtype=object), "empty")])
    empty = b.scalar(nothing.ids)
    ids, found = b.value(table.ids), b.value(places)

    def visit(position: Scalar, result: ir.Value, count: ir.Value) -> list[ir.Value]:
        stays = b.element(found, "int64", [position]) < 0
        place = b.element(count, "int64", [0])
        # A dropped string is overwritten by the one after it, or is the one empty string of an empty result.
        chosen = select(stays, b.element(ids, "int64", [position]), empty)
        result = store(chosen, "int64", result, [convert(place, "index")])
        return [result, store(place + convert(stays, "int64"), "int64", count, [0])]

    start = b.value(b.fill(empty, "int64", [b.extents.add(capacity, 1)]))
    result, count = for_range(0, capacity, [start, b.init(0, "int64", [1])], visit)
    size = b.extents.maximum(read_extent(b, count), 1)
    return table.with_ids(b.slice(b.tensor(result, "int64", [b.extents.add(capacity, 1)]), [0], [size]))
