"""Control flow that carries or gives strings: a tensor of strings is three tensors inside, ids, spans and bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rillet.frontends.errors import UnsupportedFeature
from rillet.frontends.onnx.strings.tensor import StringTensor

if TYPE_CHECKING:
    import onnx


class Unpacked:
    """An If, Loop or Scan in the form that its importer takes.

    Its ``inputs``, ``attributes`` and ``run_graph`` have plain tensors only.
    """

    def __init__(self, op_type: str, inputs: Sequence[Any], attributes: dict[str, Any], run_graph: Callable[..., Any]):
        self.inputs, self.attributes = list(inputs), dict(attributes)
        self._run_graph = run_graph
        self._strings: list[bool] | None = None  # of the node's outputs, which of them are strings
        self._body: onnx.GraphProto | None = None  # of a loop
        self._carried: list[bool] = []
        if op_type == "Scan" and any(_flags(inputs)):
            raise UnsupportedFeature("it scans or carries strings", "number the strings before")
        if op_type == "Loop":
            self._unpack_loop()

    def _unpack_loop(self) -> None:
        import onnx

        self._body = self.attributes["body"]
        self._carried = _flags(self.inputs[2:])
        self._strings = [*self._carried, *[False] * (len(self._body.output) - 1 - len(self._carried))]
        self.inputs = [*self.inputs[:2], *_flat(self.inputs[2:])]
        # The importer only looks at the outputs; what runs is the body itself.
        seen = onnx.GraphProto()
        for info, is_string in zip(self._body.output, [False, *self._strings], strict=False):
            seen.output.extend([info] * (3 if is_string else 1))
        self.attributes["body"] = seen

    def run_graph(self, graph: onnx.GraphProto, arguments: Sequence[Any]) -> list[Any]:
        """The outputs of a subgraph on plain tensors, as plain tensors."""
        if self._body is None:
            values = self._run_graph(graph, arguments)
            self._expect(_flags(values))
        else:
            values = self._run_graph(self._body, [*arguments[:2], *_grouped(arguments[2:], self._carried)])
            self._expect(_flags(values[1:]))
        return _flat(values)

    def _expect(self, strings: list[bool]) -> None:
        if self._strings not in (None, strings):
            if self._body:
                what = "it collects strings or a carried value becomes one"
                raise UnsupportedFeature(what, "number the strings before")
            raise UnsupportedFeature("its branches disagree on which outputs are strings", "make their types the same")
        self._strings = strings

    def outputs(self, results: Sequence[Any]) -> list[Any]:
        """The node's outputs from the results of its importer."""
        return _grouped(results, self._strings) if self._strings is not None else list(results)


def _flags(values: Sequence[Any]) -> list[bool]:
    return [isinstance(value, StringTensor) for value in values]


def _flat(values: Sequence[Any]) -> list[Any]:
    return [
        part
        for value in values
        for part in ((value.ids, value.spans, value.data) if isinstance(value, StringTensor) else (value,))
    ]


def _grouped(parts: Sequence[Any], strings: Sequence[bool]) -> list[Any]:
    rest = iter(parts)
    return [StringTensor(next(rest), next(rest), next(rest)) if is_string else next(rest) for is_string in strings]
