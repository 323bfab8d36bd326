"""ONNX as a frontend: a model is a ModelProto, with the shapes that its inputs are given."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from rillet.errors import UnsupportedError
from rillet.frontends.building.element_types import is_float
from rillet.frontends.frontend import InputSpec, Shapes, Survey, Values
from rillet.frontends.onnx.boundary import declared_dims, shared_sizes, warn_of_defaults
from rillet.frontends.onnx.initializers import overridable
from rillet.frontends.onnx.loader import load_model
from rillet.frontends.onnx.node_order import reads
from rillet.frontends.onnx.survey import survey, tensor_type_name, type_name
from rillet.frontends.onnx.verification.submodel import submodel, value_types
from rillet.frontends.pinned_dimensions import given_sizes, sized_shapes
from rillet.frontends.source_path import checked_path
from rillet.frontends.verification import Arrays, ComputingNode, Oracle, Rounding
from rillet.ir import Program

if TYPE_CHECKING:
    import onnx


class OnnxFrontend:
    """Opens ONNX models."""

    name = "onnx"
    sources = "an ONNX model (the path of a file, its bytes, or an onnx.ModelProto)"

    def accepts(self, source: Any) -> bool:
        """Whether it is a path, bytes, or a ModelProto (or something that looks like one)."""
        if isinstance(source, str | os.PathLike | bytes | bytearray | memoryview):
            return True
        return hasattr(source, "SerializeToString") and hasattr(source, "graph")

    def open(self, source: Any) -> OnnxModel:
        """Read a model. Raises CompileError when it cannot be read or is not an ONNX model."""
        return OnnxModel(load_model(checked_path(source) if isinstance(source, str | os.PathLike) else source))


class OnnxModel:
    """A model that has been read; ``shapes`` replace those of its inputs. Naming an initializer makes it an input.

    An initializer that the model lists as an input, too, is an input with a default (not so in IR version 3).
    """

    def __init__(self, proto: onnx.ModelProto, shapes: Shapes | None = None):
        self.proto = proto
        self.shapes: Shapes = dict(shapes or {})

    @property
    def inputs(self) -> tuple[InputSpec, ...]:
        """The graph's inputs; behind them, those with a default."""
        found = self._inputs(shared_sizes(self.proto.graph, self.shapes))
        shapes = {t.name: (t.data_type, tuple(t.dims)) for t in self.proto.graph.initializer}
        return found + tuple(
            InputSpec(name, tensor_type_name(shapes[name][0]), shapes[name][1], has_default=True)
            for name in self._optional
        )

    @property
    def _optional(self) -> list[str]:
        return [name for name in overridable(self.proto) if name not in self.shapes]

    def _inputs(self, shared: Mapping[str, int]) -> tuple[InputSpec, ...]:
        held = {tensor.name for tensor in self.proto.graph.initializer}
        declared = declared_dims(self.proto.graph)
        return tuple(
            InputSpec(info.name, type_name(info.type), self._dims(info.name, declared[info.name], shared))
            for info in self.proto.graph.input
            if info.name not in held or info.name in self.shapes
        )

    def _dims(self, name: str, declared: tuple[int | str, ...], shared: Mapping[str, int]) -> tuple[int | str, ...]:
        given = self.shapes.get(name)
        if given is None:
            return tuple(shared.get(d, d) if isinstance(d, str) else d for d in declared)
        if len(given) != len(declared):  # refused when it is imported, unless the model declares no shape
            return declared
        return tuple(d if g is None or g == -1 else g for d, g in zip(declared, given, strict=True))

    def pinned(self, shapes: Shapes, dims: Mapping[str, int]) -> OnnxModel:
        """The same model with these shapes, and sizes wherever a dimension has this name."""
        shaped = OnnxModel(self.proto, {**self.shapes, **shapes})
        if not dims:
            return shaped
        given = given_sizes(OnnxModel(self.proto).inputs, shaped.shapes)
        return OnnxModel(self.proto, {**shaped.shapes, **sized_shapes(shaped._inputs({}), dims, given)})

    def survey(self) -> Survey:
        """The survey of the nodes of the graph, its subgraphs and the model's functions."""
        return survey(self.proto)

    def program(self, values: Values | None = None) -> Program:
        """Import the graph.

        Dimensions of one name have one size at run time; pinning one pins those of the inputs left out. Inputs in
        ``values`` stay arguments of @main but are not read. Inputs with a default that nodes need to know become
        constants. Raises CompileError and UnsupportedError; warns (RuntimeWarning) of such inputs, and of values whose
        declared types contradict what the nodes compute.
        """
        optional = self._optional
        floats = {t.name for t in self.proto.graph.initializer if is_float(tensor_type_name(t.data_type))}
        *tries, last = dict.fromkeys(map(tuple, (optional, [name for name in optional if name in floats], ())))
        for kept in tries:
            with suppress(UnsupportedError):
                return self._imported(values, kept)
        return self._imported(values, last)

    def _imported(self, values: Values | None, optional: Sequence[str]) -> Program:
        from rillet.frontends.onnx.importer import GraphImporter

        program = GraphImporter(self.proto, self.shapes, values or {}, optional).run()
        warn_of_defaults(program.defaults, [name for name in self._optional if name not in optional])
        return program

    # --- what `rillet verify` needs (VerifiableModel) ---

    @cached_property
    def nodes(self) -> tuple[ComputingNode, ...]:
        """The graph's nodes; those in subgraphs and functions belong to the node that runs them."""
        types = value_types(self.proto)
        return tuple(
            ComputingNode(
                node.name,
                node.op_type,
                tuple(reads(node)),
                tuple(o for o in node.output if o),
                tuple(o for o in node.output if o and o in types),
            )
            for node in self.proto.graph.node
        )

    @property
    def outputs(self) -> tuple[str, ...]:
        """The graph's outputs."""
        return tuple(output.name for output in self.proto.graph.output)

    @cached_property
    def constants(self) -> frozenset[str]:
        """The graph's initializers."""
        return frozenset(tensor.name for tensor in self.proto.graph.initializer)

    def oracles(self) -> dict[str, Oracle]:
        """ONNX Runtime and onnx's reference evaluator."""
        from rillet.frontends.onnx.verification.oracles import ORACLES

        return {name: partial(run, self.proto) for name, run in ORACLES.items()}

    def part(self, outputs: Sequence[str], cut: Sequence[str] = (), observed: Arrays | None = None) -> OnnxModel:
        """See ``submodel``; inputs that remain keep their shapes."""
        proto = submodel(self.proto, outputs, cut, value_types(self.proto, observed))
        kept = {info.name for info in proto.graph.input} - set(cut)
        return OnnxModel(proto, {name: shape for name, shape in self.shapes.items() if name in kept})

    def rounding(self, value: str, inputs: Arrays) -> Rounding | None:
        """The floats that a node on quantized tensors rounds, computed by onnx's evaluator."""
        import onnx

        from rillet.frontends.onnx.verification.rounding import rounding_of

        node = next(node for node in self.proto.graph.node if value in node.output)
        held = {t.name: onnx.numpy_helper.to_array(t) for t in self.proto.graph.initializer if t.name in node.input}
        return rounding_of(node, value, {**held, **inputs})

    def serialized(self) -> bytes:
        """The bytes of an ONNX file."""
        return self.proto.SerializeToString()
