"""Nodes whose op ONNX defines by a function body."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from rillet.errors import CompileError
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.functions import body_of
from rillet.frontends.onnx.node_use import NodeUse
from rillet.frontends.onnx.operand_shapes import checked_operands
from rillet.frontends.onnx.scope import Value
from rillet.frontends.onnx.validate import check_expanded


def expand_function_body(use: NodeUse) -> Sequence[Value | None] | None:
    """Import the body in place of the node. Raises InvalidNode where the body is invalid."""
    body = body_of(use.proto, use.opset, use.inputs)
    if body is None:
        return None
    check_expanded(use.proto, use.domain, use.opset, use.inputs)
    use = dataclasses.replace(use, inputs=checked_operands(use))
    try:
        return use.walk.call(*body, use)
    except CompileError as error:  # it names a node that the model does not have
        raise InvalidNode(f"in the body that ONNX defines for it, {error}") from error
