"""The values that the nodes of a graph or of a function's body can see, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from rillet.errors import CompileError
from rillet.frontends.onnx.sequences import Structured

if TYPE_CHECKING:
    import onnx

    from rillet.frontends.onnx.functions import Attributes

_MAX_DEPTH = 64  # nesting of functions and subgraphs


class Skipped:
    """Stands for the outputs of a node that could not be imported."""


SKIPPED = Skipped()
Value: TypeAlias = Structured | Skipped


@dataclass
class Scope:
    """Names visible to a graph or function body, innermost first, and what its nodes mean by opsets and attributes."""

    opsets: Mapping[str, int]
    parent: Scope | None = None
    attributes: Attributes = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    depth: int = 0
    declared: Mapping[str, onnx.ValueInfoProto] = field(default_factory=dict)

    def find(self, name: str) -> Value | None:
        """The value of a name, here or around here."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.parent
        return None

    def opset(self, domain: str) -> int:
        """The opset of a domain ("" for ONNX's own); 0 where none is imported."""
        return self.opsets.get(domain, 0)

    def of_function(self, opsets: Mapping[str, int], attributes: Attributes) -> Scope:
        """The scope of a function's body, which sees nothing of this one. Raises CompileError when it is too deep."""
        return Scope({**self.opsets, **opsets}, None, attributes, {}, self._deeper())

    def of_subgraph(self, declared: Mapping[str, onnx.ValueInfoProto]) -> Scope:
        """The scope of a subgraph, which sees this one. Raises CompileError when it is too deep."""
        return Scope(self.opsets, self, self.attributes, {}, self._deeper(), declared)

    def _deeper(self) -> int:
        if self.depth >= _MAX_DEPTH:
            raise CompileError(f"functions and subgraphs nest deeper than {_MAX_DEPTH}; is a function recursive?")
        return self.depth + 1
