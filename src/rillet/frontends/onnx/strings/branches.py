"""Control flow that gives strings: a tensor of strings is three tensors inside, ids, spans and bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.strings.tensor import StringTensor


class Unpacked:
    """Runs the branches of a node so that its importer sees plain tensors, and puts its results together again."""

    def __init__(self, run_graph: Callable[..., list[Any]]):
        self._run_graph = run_graph
        self._strings: list[bool] | None = None

    def run_graph(self, graph: Any, arguments: Sequence[Any]) -> list[Any]:
        """The results of a branch, three tensors for each tensor of strings."""
        values = self._run_graph(graph, arguments)
        strings = [isinstance(value, StringTensor) for value in values]
        if self._strings not in (None, strings):
            raise InvalidNode("its branches disagree on which of their outputs are strings")
        self._strings = strings
        return [
            part
            for value in values
            for part in ((value.ids, value.spans, value.data) if isinstance(value, StringTensor) else (value,))
        ]

    def regroup(self, results: Sequence[Any]) -> list[Any]:
        """The node's results from those of its importer."""
        parts = iter(results)
        strings = self._strings or []
        return [StringTensor(next(parts), next(parts), next(parts)) if is_ else next(parts) for is_ in strings]
