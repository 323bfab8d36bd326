"""Nodes that run subgraphs, which may carry tensors of strings in and out."""

from __future__ import annotations

from collections.abc import Sequence

from rillet.frontends.onnx.node_use import NodeUse
from rillet.frontends.onnx.scope import Value
from rillet.frontends.onnx.steps.importers import outputs_of
from rillet.frontends.onnx.strings.branches import Unpacked


def import_control_flow(use: NodeUse) -> Sequence[Value | None] | None:
    """Call the importer of If, Loop or Scan, with each tensor of strings as the three tensors that it consists of."""
    entry = use.entry()
    if use.domain or use.proto.op_type not in ("If", "Loop", "Scan") or entry is None:
        return None
    unpacked = Unpacked(use.proto.op_type, use.inputs, use.attributes, use.run_graph)
    node = use.node_with(unpacked.inputs, unpacked.attributes, unpacked.run_graph)
    return unpacked.outputs(outputs_of(use, entry, node))
