"""Nodes whose op has an importer (``registry.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rillet.frontends.errors import UnsupportedFeature
from rillet.frontends.onnx.functions import attribute_value, domain_of
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.node_use import NodeUse
from rillet.frontends.onnx.registry import Entry
from rillet.frontends.onnx.scope import Value
from rillet.frontends.onnx.validate import check_operands, schema_of


def call_importer(use: NodeUse) -> Sequence[Value | None] | None:
    """Call the op's importer."""
    entry = use.entry()
    return None if entry is None else outputs_of(use, entry)


def outputs_of(use: NodeUse, entry: Entry, node: Node | None = None) -> list[Any]:
    """The outputs that an importer makes of ``node``; by default it is the one in use.

    Raises UnsupportedFeature when it has an attribute that the importer does not read.
    """
    node = node or use.node
    if schema_of(use.proto.op_type, use.domain, use.opset) is None:
        check_operands(entry.importer, node.inputs)
    result = entry.importer(node, *node.inputs)
    _check_attributes(node, entry)
    if result is None:
        return []
    return list(result) if isinstance(result, list | tuple) else [result]


def _check_attributes(node: Node, entry: Entry) -> None:
    """Refuse a node with an attribute that its importer does not know, as a newer opset may add."""
    unread = [name for name in node.unread() if name not in entry.ignores]
    if not unread:
        return
    schema = schema_of(node.op_type, domain_of(node.proto), node.opset)
    formals = schema.attributes if schema is not None else {}
    for name in unread:
        default = formals[name].default_value if name in formals else None
        given = next(a for a in node.proto.attribute if a.name == name)
        if default is None or attribute_value(default) != attribute_value(given):
            raise UnsupportedFeature(
                f"attribute '{name}' is not implemented", "remove it, or convert the model to an older opset"
            )
