"""Grows one random ONNX graph: values with declared shapes, operands that fit, nodes typed by inference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "int8", "uint8")


def np_type(name: str) -> np.dtype:
    """The numpy type of an element type's name."""
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


_TYPES = {name: helper.np_dtype_to_tensor_dtype(np_type(name)) for name in (*FLOATS, *INTEGERS, "bool")}
_NAMES = {code: name for name, code in _TYPES.items()}
MAX_ELEMENTS = 4096

Dim = int | str
"""A fixed extent, or the name of one that is known at run time only."""


@dataclass(frozen=True)
class Value:
    name: str
    dtype: str
    dims: tuple[Dim, ...]
    constant: bool = False

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def static(self) -> bool:
        return all(isinstance(d, int) for d in self.dims)

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    @property
    def elements(self) -> int:
        """Elements, dynamic extents counted as 4."""
        return int(np.prod([d if isinstance(d, int) else 4 for d in self.dims], dtype=np.int64))


class Stuck(Exception):
    """The chosen op cannot be applied here; choose another."""


class Maker:
    """The state of one graph under construction. All choices come from ``rng``."""

    def __init__(self, rng: np.random.Generator, opset: int):
        self.rng = rng
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[Value] = []
        self.initializers: list[onnx.TensorProto] = []
        self.values: list[Value] = []
        self.symbols = [f"d{i}" for i in range(int(rng.integers(0, 3)))]
        self.may_be_empty = True
        self.float_type = str(rng.choice(FLOATS, p=[0.76, 0.1, 0.09, 0.05]))
        self._counter = 0

    # --- choices ---

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def one_of(self, choices: Sequence):
        if not choices:
            raise Stuck
        return choices[int(self.rng.integers(len(choices)))]

    def integer(self, low: int, high: int) -> int:
        """A number in ``low..high``, both included."""
        return int(self.rng.integers(low, high + 1))

    def name(self, stem: str) -> str:
        self._counter += 1
        return f"{stem}{self._counter}"

    def dim(self) -> Dim:
        if self.symbols and self.chance(0.35):
            return self.one_of(self.symbols)
        return int(self.rng.choice([0, 1, 2, 3, 4, 5, 7, 8, 16, 17], p=[0.02, 0.13, *[0.12] * 5, 0.1, 0.1, 0.05]))

    def shape(self, rank: int | None = None) -> tuple[Dim, ...]:
        rank = int(self.rng.choice([0, 1, 2, 3, 4, 5], p=[0.05, 0.15, 0.3, 0.25, 0.2, 0.05])) if rank is None else rank
        dims = [self.dim() for _ in range(rank)]
        while int(np.prod([d if isinstance(d, int) else 4 for d in dims], dtype=np.int64)) > MAX_ELEMENTS:
            dims[self.integer(0, rank - 1)] = self.integer(1, 3)
        return tuple(dims)

    # --- operands ---

    def input(self, dtype: str, dims: Sequence[Dim]) -> Value:
        """A new input. Raises Stuck where an extent is that of nothing that a caller could know."""
        if any(isinstance(d, str) and d[0] == "?" for d in dims):
            raise Stuck
        value = Value(self.name("x"), dtype, tuple(dims))
        self.inputs.append(value)
        self.values.append(value)
        return value

    def constant(self, array: np.ndarray) -> Value:
        name = self.name("c")
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return Value(name, np.asarray(array).dtype.name, np.asarray(array).shape, constant=True)

    def scalar(self, number: float, dtype: str) -> Value:
        return self.constant(np.asarray(number).astype(np_type(dtype)))

    def ints(self, *numbers: int) -> str:
        """The name of an int64 vector constant."""
        return self.constant(np.array(numbers, np.int64)).name

    def data(self, dtype: str, dims: Sequence[Dim]) -> Value:
        """A new operand: a constant where the shape is fixed, else an input."""
        if all(isinstance(d, int) for d in dims) and self.chance(0.7):
            return self.constant(random_array(self.rng, dtype, [int(d) for d in dims]))
        return self.input(dtype, dims)

    def value(self, kinds: Sequence[str] | None = None, low: int = 0, high: int = 5) -> Value:
        """An existing value of one of ``kinds`` and of a rank in ``low..high``, with a liking for recent ones."""
        fitting = [v for v in self.values if (kinds is None or v.dtype in kinds) and low <= v.rank <= high]
        if not fitting:
            raise Stuck
        return fitting[-1 - min(int(self.rng.geometric(0.35)) - 1, len(fitting) - 1)]

    def floating(self, low: int = 0, high: int = 5) -> Value:
        return self.value(FLOATS, low, high)

    def partner(self, x: Value) -> Value:
        """A value that broadcasts with ``x``: another one of the graph, or a new one."""
        fitting = [v for v in self.values if v.dtype == x.dtype and v is not x and broadcast(x.dims, v.dims)]
        if fitting and self.chance(0.6):
            return self.one_of(fitting)
        dims = [1 if self.chance(0.2) else d for d in x.dims]
        if self.chance(0.4):
            dims = dims[self.integer(0, len(dims)) :]
        dims = [self.dim() if x.dims[-len(dims) + i] == 1 and self.chance(0.4) else d for i, d in enumerate(dims)]
        return self.data(x.dtype, dims)

    def axis(self, x: Value) -> int:
        if not x.rank:
            raise Stuck
        axis = self.integer(0, x.rank - 1)
        return axis - x.rank if self.chance(0.3) else axis

    def fixed_axis(self, x: Value, low: int = 1) -> int:
        """An axis of an extent that is fixed and at least ``low``."""
        return self.one_of([i for i, d in enumerate(x.dims) if isinstance(d, int) and d >= low])

    def filled(self, *dims: Dim) -> None:
        """Have the extents ``dims`` be at least 1: what the op makes of nothing is not specified.

        Raises Stuck where data decides it.
        """
        if any(d == 0 or (isinstance(d, str) and d[0] == "?") for d in dims):
            raise Stuck
        if not all(isinstance(d, int) for d in dims):
            self.may_be_empty = False

    # --- nodes ---

    def add(self, op_type: str, inputs: Sequence[Value | str], outputs: int = 1, **attributes) -> list[Value]:
        """Append a node; its outputs' types come from onnx's inference. Raises Stuck when they are not known."""
        names = [i.name if isinstance(i, Value) else i for i in inputs]
        node = helper.make_node(op_type, names, [self.name("v") for _ in range(outputs)], self.name("n"), **attributes)
        results = self._infer(node, [i for i in inputs if isinstance(i, Value)])
        if any(v.elements > MAX_ELEMENTS or v.rank > 6 for v in results):
            raise Stuck
        self.nodes.append(node)
        self.values.extend(results)
        return results

    def append(
        self, op_type: str, inputs: Sequence[Value | str], results: Sequence[tuple[str, tuple[Dim, ...]]], **attributes
    ):
        """Append a node whose results' types are given: inference does not know values that subgraphs capture."""
        names = [i.name if isinstance(i, Value) else i for i in inputs]
        made = [Value(self.name("v"), dtype, dims) for dtype, dims in results]
        self.nodes.append(helper.make_node(op_type, names, [v.name for v in made], self.name("n"), **attributes))
        self.values.extend(made)

    def hidden(self, op_type: str, inputs: Sequence[Value | str], **attributes) -> str:
        """Append a node whose one result is no tensor; the result's name."""
        names, result = [i.name if isinstance(i, Value) else i for i in inputs], self.name("q")
        self.nodes.append(helper.make_node(op_type, names, [result], self.name("n"), **attributes))
        return result

    def number(self, x: Value) -> Value:
        """``x`` without NaN, whose conversion to an integer may give anything.

        Nor do the oracles agree on the maximum of NaN and the numbers that are scattered onto it.
        """
        return self.add("Where", [self.add("IsNaN", [x])[0], self.scalar(0, x.dtype), x])[0]

    def bounded(self, x: Value, limit: float) -> Value:
        """``x`` without NaN, in -limit..limit."""
        return self.add("Clip", [self.number(x), self.scalar(-limit, x.dtype), self.scalar(limit, x.dtype)])[0]

    def _infer(self, node: onnx.NodeProto, inputs: Sequence[Value]) -> list[Value]:
        constants = {t.name: t for t in self.initializers if t.name in node.input}
        types = {v.name: type_proto(v.dtype, v.dims) for v in inputs}
        types.update({n: helper.make_tensor_type_proto(t.data_type, t.dims) for n, t in constants.items()})
        try:
            schema = onnx.defs.get_schema(node.op_type, self.opset)
        except onnx.defs.SchemaError:  # a newer op
            raise Stuck from None
        opsets = [helper.make_opsetid("", self.opset)]
        try:
            inferred = onnx.shape_inference.infer_node_outputs(schema, node, types, constants, opset_imports=opsets)
        except Exception as error:  # an invalid choice of operands shows here
            raise Stuck from error
        results = []
        for name in node.output:
            if name not in inferred or not inferred[name].tensor_type.HasField("shape"):
                raise Stuck
            tensor = inferred[name].tensor_type
            if tensor.elem_type not in _NAMES:
                raise Stuck
            dims = [self._dim_of(d) for d in tensor.shape.dim]
            results.append(Value(name, _NAMES[tensor.elem_type], tuple(dims)))
        return results

    def _dim_of(self, dim: onnx.TensorShapeProto.Dimension) -> Dim:
        if dim.HasField("dim_value"):
            return dim.dim_value
        known = dim.dim_param and not dim.dim_param.startswith("unk__")  # inference makes these up, node by node
        return dim.dim_param if known else self.name("?")

    def model(self) -> onnx.ModelProto:
        """The graph with every value that no node reads as an output, and a few that are read."""
        read = set(_read(self.nodes))
        made = [v for v in self.values if v not in self.inputs]
        outputs = [v for v in made if v.name not in read or self.chance(0.12)]
        used = [v for v in self.inputs if v.name in read]
        known = [Value(t.name, _NAMES[t.data_type], tuple(t.dims)) for t in self.initializers if t.name in read]
        if self.chance(0.1):
            outputs += [v for v in (*used, *known) if self.chance(0.2)]
        if self.chance(0.1):
            used += [v for v in known if self.chance(0.3)]  # with a default: the initializer
        graph = helper.make_graph(
            self.nodes,
            "random",
            [helper.make_value_info(v.name, type_proto(v.dtype, v.dims)) for v in used],
            [helper.make_value_info(v.name, type_proto(v.dtype, v.dims)) for v in outputs],
            [t for t in self.initializers if t.name in read],
            value_info=[helper.make_value_info(v.name, type_proto(v.dtype, v.dims)) for v in made if v not in outputs],
        )
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10 if self.opset < 23 else 11)


def _read(nodes: Iterable[onnx.NodeProto]) -> Iterator[str]:
    for node in nodes:
        yield from node.input
        for attribute in node.attribute:
            yield from _read(attribute.g.node)


def type_proto(dtype: str, dims: Sequence[Dim]) -> onnx.TypeProto:
    return helper.make_tensor_type_proto(
        _TYPES[dtype], [None if isinstance(d, str) and d[0] == "?" else d for d in dims]
    )


def broadcast(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Whether the shapes broadcast, whatever their dynamic extents are."""
    return all(x == y or x == 1 or y == 1 for x, y in zip(reversed(a), reversed(b), strict=False))


def random_array(rng: np.random.Generator, dtype: str, shape: Sequence[int], structured: bool = False) -> np.ndarray:
    """Small numbers: normal, or (``structured``) whole ones, zeros, ties and runs of equal values."""
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype in INTEGERS:
        low = 0 if dtype[0] == "u" else -9
        return np.asarray(rng.integers(low, 10, shape)).astype(np_type(dtype))
    if structured:
        return np.asarray(rng.integers(-3, 4, shape) * rng.choice([1, 0.5])).astype(np_type(dtype))
    return np.asarray(rng.standard_normal(shape)).astype(np_type(dtype))
