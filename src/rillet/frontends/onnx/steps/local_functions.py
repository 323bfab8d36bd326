"""Calls of the model's own functions."""

from __future__ import annotations

from collections.abc import Sequence

from rillet.frontends.onnx.node_use import NodeUse
from rillet.frontends.onnx.scope import Value


def call_local_function(use: NodeUse) -> Sequence[Value | None] | None:
    """Import the body of the function that the node calls."""
    function = use.walk.functions.get((use.proto.domain, use.proto.op_type, use.proto.overload))
    return None if function is None else use.walk.call(function, {}, use)
