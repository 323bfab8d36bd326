"""Models in which the value of an input shapes the code: compiled for each value, when it is first seen.

ONNX passes axes, shapes, pads and the like at run time. Where the compiler handles them as ordinary values, a model is
compiled once. Where an op cannot be compiled without knowing such an operand, the inputs it is computed from are found
by walking the graph backwards, and the model is compiled for their value at the first call that brings it. At most
``MAX_VARIANTS`` variants live; the least recently used goes first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rillet.errors import RunError, UnsupportedError
from rillet.onnx_backend import sequences

if TYPE_CHECKING:
    import onnx

    from rillet.runtime import Module

MAX_VARIANTS = 32
_MAX_ELEMENTS = 256  # an input with more elements is data, whatever its type

# Ops whose first input decides what is computed.
_FIRST = {"If", "Loop", "Range", "ConstantOfShape", "SequenceAt", "SplitToSequence"}
_INTEGERS = (2, 3, 4, 5, 6, 7, 9, 12, 13)


class _Retry(Exception):
    """The model depends on the value of more inputs than was known."""


class SpecializedModel:
    """A model compiled for each value of the inputs named ``keys``; once for all when there are none."""

    def __init__(self, source: onnx.ModelProto, keys: tuple[str, ...], options: Mapping[str, Any], error: Exception):
        self.keys = keys
        self._structured = sequences.structured_inputs(source)
        self._assembles = sequences.has_structured_outputs(source)
        self._source = source
        self._options = options
        self._error = error
        self._plain: Module | None = None  # serves every call
        self._variants: OrderedDict[tuple, Module] = OrderedDict()
        self._lock = threading.Lock()
        held = {i.name for i in source.graph.initializer}
        self._names = [i.name for i in source.graph.input if i.name not in held]

    @classmethod
    def of(cls, module: Module, source: onnx.ModelProto) -> SpecializedModel:
        """A model that needs no specialization."""
        result = cls(source, (), {}, RunError("no variant"))
        result._variants[((), ())] = module
        if not result._assembles:
            result._plain = module
        return result

    def call(self, arrays: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[np.ndarray, ...]:
        """Run the model on inputs by position or by name; the outputs are always a tuple.

        Raises RunError, and UnsupportedError when it cannot be compiled for these values.
        """
        if self._plain is not None and not arrays:
            return tuple(self._plain.run(named).values())
        feeds = self._feeds(arrays, named)
        try:
            module = self.variant(feeds)
        except _Retry:
            module = self.variant(feeds)
        if not self._structured and not self._assembles:
            result = module(*arrays, **named)
            return result if isinstance(result, tuple) else (result,)
        for name in self._structured:
            feeds.update({f"{name}[{i}]": t for i, t in enumerate(sequences.pack(feeds.pop(name)))})
        outputs = module.run(feeds)
        return sequences.assemble(self._source, list(outputs), list(outputs.values()))

    def _feeds(self, arrays: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        if len(arrays) > len(self._names):
            raise RunError(f"the model takes {len(self._names)} inputs ({', '.join(self._names)}), got {len(arrays)}")
        feeds = {**dict(zip(self._names, arrays, strict=False)), **named}
        for name in self._structured:
            feeds.setdefault(name, None)
        return feeds

    def variant(self, feeds: Mapping[str, Any]) -> Module:
        """The module for the value of these inputs; compiled when it is new.

        Raises RunError when an input is missing.
        """
        missing = [name for name in self.keys if name not in feeds]
        if missing:
            raise RunError(f"input '{missing[0]}' is missing; the model's inputs are: {', '.join(self._names)}")
        values = {name: np.asarray(feeds[name]) for name in self.keys}
        if any(value.size > _MAX_ELEMENTS for value in values.values()):
            raise self._error
        key = (
            tuple((v.dtype.str, v.shape, v.tobytes()) for v in values.values()),
            tuple(sequences.structure_of(feeds[name]) for name in self._structured),
        )
        with self._lock:
            if key in self._variants:
                self._variants.move_to_end(key)
            else:
                self._variants[key] = self._build(values, {name: feeds[name] for name in self._structured})
                if len(self._variants) > MAX_VARIANTS:
                    self._variants.popitem(last=False)
            return self._variants[key]

    def _build(self, values: Mapping[str, np.ndarray], structures: Mapping[str, Any]) -> Module:
        model = sequences.unpack(self._source, structures) if structures else self._source
        if not structures or self.keys:
            return _compile(model, values, self._options)
        try:
            return _compile(model, values, self._options)
        except UnsupportedError as error:
            # Which values matter shows only now, with the structure known.
            self.keys = _shaping_inputs(self._source, error)
            if not self.keys:
                raise
            raise _Retry from error


def compile_or_specialize(source: onnx.ModelProto, **options: Any) -> SpecializedModel:
    """Compile a model now, or at the first call when the value of some inputs must be known.

    ``options`` are those of ``rillet.compile``. Raises CompileError; UnsupportedError when no value of an input can
    help.
    """
    if sequences.structured_inputs(source):
        return SpecializedModel(source, (), options, RunError("an input is too large to compile for its value"))
    try:
        return SpecializedModel.of(_compile(source, {}, options), source)
    except UnsupportedError as error:
        keys = _shaping_inputs(source, error)
        if not keys:
            raise
        return SpecializedModel(source, keys, options, error)


def _compile(source: onnx.ModelProto, values: Mapping[str, np.ndarray], options: Mapping[str, Any]) -> Any:
    from rillet.driver.compile import compile as compile_model

    return compile_model(source, values=values, **options)


def _shaping_inputs(model: onnx.ModelProto, error: UnsupportedError) -> tuple[str, ...]:
    """The inputs whose value could make the unsupported nodes compile, in the model's order."""
    graph = model.graph
    refused_names = {node.name for node in error.nodes}
    refused_ops = {node.op.rpartition(".")[2] for node in error.nodes}
    producers = {output: node for node in graph.node for output in node.output if output}
    reached: set[str] = set()
    for node in graph.node:
        inner = list(_nodes_within(node))
        unnamed = not node.name or bool(inner)
        by_op = unnamed and bool(_ops(node, inner) & refused_ops)
        if not (node.name in refused_names or by_op or _is_function(node)):
            continue
        for member in [node, *inner]:
            operands = [n for n in member.input if n]
            first = {member.input[0]} if operands and member.op_type not in _FIRST else set()
            _reach([n for n in operands if n not in first], producers, reached)
    held = {i.name for i in graph.initializer}
    return tuple(
        i.name
        for i in graph.input
        if i.name in reached
        and i.name not in held
        and i.type.tensor_type.elem_type in _INTEGERS
        and len(i.type.tensor_type.shape.dim) <= 1
    )


def _ops(node: onnx.NodeProto, inner: list[onnx.NodeProto]) -> set[str]:
    return {n.op_type for n in (node, *inner)}


def _is_function(node: onnx.NodeProto) -> bool:
    """Whether the node may have been refused for a node of its function body, which has another name."""
    import onnx

    if not onnx.defs.has(node.op_type, node.domain):
        return True
    schema = onnx.defs.get_schema(node.op_type, node.domain)
    return bool(schema.has_function or schema.has_context_dependent_function)


def _nodes_within(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    for attribute in node.attribute:
        for graph in [attribute.g, *attribute.graphs]:
            for inner in graph.node:
                yield inner
                yield from _nodes_within(inner)


def _reach(names: list[str], producers: Mapping[str, onnx.NodeProto], reached: set[str]) -> None:
    """Add ``names`` and everything they are computed from to ``reached``."""
    pending = list(names)
    while pending:
        name = pending.pop()
        if name in reached:
            continue
        reached.add(name)
        if name in producers:
            pending.extend(n for n in producers[name].input if n)
