"""One ONNX node as an op importer sees it: attributes with defaults, versions, and the builder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rillet.frontends.building.builder import Builder
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.ir import dtypes

if TYPE_CHECKING:
    import onnx

_REQUIRED = object()


class Node:
    """A node being imported.

    ``inputs`` holds a Tensor for each input, None where an optional one is empty or missing; ``output_count`` is the
    number of outputs and ``wants(i)`` says whether output ``i`` is used. ``run_graph`` imports a subgraph attribute
    (control flow only); ``ranks`` has those that the model declares for values by name.
    """

    def __init__(
        self,
        proto: onnx.NodeProto,
        name: str,
        opset: int,
        builder: Builder,
        inputs: Sequence[Tensor | None],
        attributes: Mapping[str, Any],
        run_graph: Callable[[onnx.GraphProto, Sequence[Tensor]], list[Tensor]],
        ranks: Mapping[str, int] | None = None,
    ):
        self.proto = proto
        self.name = name
        self.opset = opset
        self.b = builder
        self.inputs = list(inputs)
        self.run_graph = run_graph
        self._attributes = attributes
        self._ranks = ranks or {}
        self._read: set[str] = set()

    @property
    def op_type(self) -> str:
        """The op's name, without its domain."""
        return self.proto.op_type

    @property
    def output_count(self) -> int:
        """The number of outputs, with those that have no name."""
        return len(self.proto.output)

    def wants(self, index: int) -> bool:
        """Whether output ``index`` has a name."""
        return index < len(self.proto.output) and bool(self.proto.output[index])

    def declared_rank(self, index: int) -> int | None:
        """The rank that the model declares for output ``index``, or None."""
        return self._ranks.get(self.proto.output[index]) if self.wants(index) else None

    def has(self, name: str) -> bool:
        """Whether the attribute is given."""
        self._read.add(name)
        return name in self._attributes

    def attr(self, name: str, default: Any = _REQUIRED) -> Any:
        """An attribute: int, float, str, numpy array (tensor), GraphProto, or a list of these.

        Raises InvalidNode when it is missing and has no default.
        """
        self._read.add(name)
        if name in self._attributes:
            return self._attributes[name]
        if default is _REQUIRED:
            raise InvalidNode(f"attribute '{name}' is missing")
        return default

    def dtype_attr(self, name: str, default: str | None = None) -> str:
        """An attribute that holds an ONNX element type, as a dtype name.

        Raises InvalidNode when it is missing and has no default.
        """
        code = self.attr(name, None)
        if code is None or (code == 0 and default):
            if default is None:
                raise InvalidNode(f"attribute '{name}' is missing")
            return default
        return dtype_name(code)

    def unread(self) -> list[str]:
        """Attributes that are given but that nothing has asked for."""
        return [name for name in self._attributes if name not in self._read]

    def input(self, index: int) -> Tensor | None:
        """Input ``index``, or None when it is absent."""
        return self.inputs[index] if index < len(self.inputs) else None

    def axis(self, value: int, rank: int, what: str = "axis") -> int:
        """A non-negative axis from one that may count from the end. Raises InvalidNode when out of range."""
        if not -rank <= value < rank:
            raise InvalidNode(f"{what} {value} is out of range for rank {rank}")
        return value + rank if value < 0 else value

    def axes(self, values: Sequence[int] | np.ndarray, rank: int) -> list[int]:
        """Non-negative axes, sorted and distinct. Raises InvalidNode for one out of range or given twice."""
        result = sorted(self.axis(int(v), rank) for v in values)
        if len(set(result)) != len(result):
            raise InvalidNode(f"axes {[int(v) for v in values]} repeat a dimension")
        return result


def dtype_name(code: int) -> str:
    """The dtype name of an ONNX element type code. Raises UnsupportedFeature for types without tensors in Rillet."""
    if code not in dtypes.by_code:
        raise UnsupportedFeature(f"element type {_type_name(code)}", "convert the tensor to another type")
    return dtypes.by_code[code].name


def _type_name(code: int) -> str:
    import onnx

    try:
        return onnx.TensorProto.DataType.Name(code)
    except ValueError:
        return str(code)
