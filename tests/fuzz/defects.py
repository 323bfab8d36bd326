"""What onnx's reference evaluator is wrong about: models with such nodes are compared with ONNX Runtime alone.

What an op's generator can avoid without loss it avoids; this is for what is worth having.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx


def reference_is_wrong(model: onnx.ModelProto) -> bool:
    """Whether the model has a node that the reference evaluator computes in another way than the specification."""
    return any(_ignored(node) for node in _nodes(model.graph))


def _ignored(node: onnx.NodeProto) -> bool:
    """A recurrent layer's lengths, activations and clipping are ignored."""
    if node.op_type not in ("RNN", "GRU", "LSTM"):
        return False
    return (len(node.input) > 4 and bool(node.input[4])) or any(
        a.name in ("activations", "clip") for a in node.attribute
    )


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from _nodes(attribute.g)
