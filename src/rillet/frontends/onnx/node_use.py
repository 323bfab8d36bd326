"""A node as the walk over the graph meets it and passes it to the steps of ``steps/``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from rillet.frontends.building.builder import Builder
from rillet.frontends.onnx import registry
from rillet.frontends.onnx.functions import domain_of
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.scope import Scope, Value
from rillet.frontends.onnx.sequences import Structured, all_tensors

if TYPE_CHECKING:
    import onnx

    from rillet.frontends.onnx.functions import Attributes


class Walk(Protocol):
    """The walk over the model's graph, as far as steps go back to it."""

    b: Builder
    model: onnx.ModelProto
    functions: Mapping[tuple[str, str, str], onnx.FunctionProto]  # by domain, name, overload
    ranks: Mapping[str, int]  # that the model declares for values by name

    def lower(self, use: NodeUse) -> Sequence[Value | None]:
        """The outputs of a node."""

    def call(self, function: onnx.FunctionProto, defaults: Attributes, use: NodeUse) -> Sequence[Value | None]:
        """The outputs of a function's body for a node's inputs and attributes."""

    def run_graph(self, graph: onnx.GraphProto, arguments: Sequence[Any], scope: Scope) -> list[Any]:
        """The outputs of a subgraph, imported at the insertion point."""


@dataclass(frozen=True, eq=False)
class NodeUse:
    """A node with the values of its inputs, None for those left out."""

    proto: onnx.NodeProto
    name: str
    inputs: tuple[Structured | None, ...]
    attributes: dict[str, Any]
    scope: Scope
    walk: Walk

    @property
    def b(self) -> Builder:
        """The walk's builder, which emits at the current insertion point."""
        return self.walk.b

    @property
    def domain(self) -> str:
        """The op's domain, "" for ONNX's own."""
        return domain_of(self.proto)

    @property
    def opset(self) -> int:
        """The opset of the op's domain; 0 where the model imports none."""
        return self.scope.opset(self.domain)

    @property
    def is_plain(self) -> bool:
        """Whether all inputs are tensors of numbers."""
        return all_tensors(self.inputs)

    @property
    def ranks(self) -> Mapping[str, int]:
        """The ranks that the model declares for values by name: those of the main graph only."""
        return {} if self.scope.depth else self.walk.ranks

    @cached_property
    def node(self) -> Node:
        """The node as op importers see it."""
        return self.node_with(self.inputs, self.attributes)

    def node_with(self, inputs: Sequence[Any], attributes: dict[str, Any], run_graph: Any = None) -> Node:
        """The node as op importers see it, with other inputs, attributes, or way to run subgraphs."""
        run = run_graph or self.run_graph
        return Node(self.proto, self.name, self.opset, self.b, inputs, attributes, run, self.ranks)

    def run_graph(self, graph: onnx.GraphProto, arguments: Sequence[Any]) -> list[Any]:
        """The outputs of one of its subgraphs, imported at the insertion point."""
        return self.walk.run_graph(graph, arguments, self.scope)

    def entry(self, *, strings: bool = False) -> registry.Entry | None:
        """The op importer for the node, or None."""
        return registry.lookup(self.domain, self.proto.op_type, self.opset, strings)

    def with_inputs(self, inputs: Sequence[Structured | None]) -> NodeUse:
        """The same node on other inputs."""
        return dataclasses.replace(self, inputs=tuple(inputs))
