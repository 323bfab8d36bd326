"""Nodes that contradict their op, read maps, or whose domain the model does not import."""

from __future__ import annotations

from rillet.frontends.errors import UnsupportedFeature
from rillet.frontends.onnx.node_use import NodeUse
from rillet.frontends.onnx.sequences import MapSequence
from rillet.frontends.onnx.unknown_ops import why_unknown
from rillet.frontends.onnx.validate import check_node


def refuse_invalid(use: NodeUse) -> None:
    """Raise InvalidNode or UnsupportedFeature for them; all others go on."""
    if not use.opset:
        raise UnsupportedFeature(*why_unknown(use.proto, use.opset))
    if use.proto.op_type != "Identity" and any(isinstance(value, MapSequence) for value in use.inputs):
        raise UnsupportedFeature("it reads a sequence of maps", "let it read the tensor that ZipMap makes them of")
    check_node(use.proto, use.domain, use.opset, use.inputs)
