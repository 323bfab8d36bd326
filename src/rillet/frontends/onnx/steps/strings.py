"""Nodes that take or give tensors of strings."""

from __future__ import annotations

from collections.abc import Sequence

from rillet.frontends.errors import UnsupportedFeature
from rillet.frontends.onnx.node_use import NodeUse
from rillet.frontends.onnx.scope import Value
from rillet.frontends.onnx.steps.importers import outputs_of
from rillet.frontends.onnx.strings.moving_ops import hands_on, move, moves, touches_strings


def import_strings(use: NodeUse) -> Sequence[Value | None] | None:
    """Call the op's importer for strings, or move the numbers of their table's entries.

    Ops that only hand their operands on go to the next steps, as do those with a function body. Raises
    UnsupportedFeature for any other op.
    """
    op_type = use.proto.op_type
    if not touches_strings(op_type, use.attributes, use.inputs):
        return None
    entry = use.entry(strings=True)
    if entry is not None:
        return outputs_of(use, entry)
    if moves(use.proto, use.opset):
        return move(use)
    if use.entry() is not None and not hands_on(op_type):
        raise UnsupportedFeature("it is not supported on tensors of strings", "number the strings before")
    return None
