"""Shape computations, element by element.

A small integer tensor that depends on unknown dimensions (``Shape`` of a dynamic tensor and what is computed from it)
is a tuple of extents, not device data. The rules here carry such tensors through the ops that exporters use for shape
arithmetic, so that they never become dispatches and results such as ``batch * seq / seq`` fold. A rule returns None
when it does not apply, and the node then goes the ordinary way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.frontends.building.element_types import is_signed
from rillet.frontends.building.tensor import Element, Tensor
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.node_use import NodeUse
from rillet.frontends.onnx.scope import Value

Rule: TypeAlias = Callable[..., "Tensor | list[Tensor] | None"]
_ArrayRule: TypeAlias = Callable[..., "np.ndarray | None"]
_rules: dict[str, Rule] = {}
_MAX_ELEMENTS = 256


def compute_extents(use: NodeUse) -> Sequence[Value | None] | None:
    """Compute a small integer tensor element by element, where a rule for the op applies."""
    rule = _rules.get(use.proto.op_type)
    if rule is None or use.domain or not use.is_plain:
        return None
    result = rule(use.node, *use.node.inputs)
    return [result] if isinstance(result, Tensor) else result


def has_rule(op_type: str) -> bool:
    """Whether there is a rule for the op (of the default domain)."""
    return op_type in _rules


def elements_of(tensor: Tensor | None) -> np.ndarray | None:
    """A tensor's elements as an object array (``int``, ``bool``, ``index`` or ``i1`` values), or None."""
    if tensor is None or not (is_signed(tensor.dtype) or tensor.dtype == "bool"):
        return None
    if tensor.elements is not None:
        result = np.empty(len(tensor.elements), dtype=object)
        result[:] = tensor.elements
        return result.reshape(tensor.static_shape)
    if tensor.array is not None and tensor.array.size <= _MAX_ELEMENTS:
        return tensor.array.astype(object)
    return None


def _result(node: Node, elements: np.ndarray, dtype: str) -> Tensor | None:
    elements = np.asarray(elements, dtype=object)
    if elements.size > _MAX_ELEMENTS:
        return None
    return node.b.symbolic(list(elements.reshape(-1)), elements.shape, dtype)


def _rule(*op_types: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        for op_type in op_types:
            _rules[op_type] = rule
        return rule

    return register


def _on_symbolic(*op_types: str) -> Callable[[_ArrayRule], _ArrayRule]:
    """Register a rule that applies when some input is symbolic and every input has known elements.

    The rule gets object arrays in place of tensors and returns an object array.
    """

    def register(rule: _ArrayRule) -> _ArrayRule:
        def checked(node: Node, *inputs: Tensor | None) -> Tensor | None:
            if not any(t is not None and t.elements is not None for t in inputs):
                return None
            arrays = [elements_of(t) if t is not None else None for t in inputs]
            if any(a is None and t is not None for a, t in zip(arrays, inputs, strict=True)):
                return None
            result = rule(node, *arrays)
            if result is None:
                return None
            dtype = _DTYPES.get(node.op_type) or next(t.dtype for t in reversed(inputs) if t is not None)
            if node.op_type in _FIRST_DTYPE and inputs[0] is not None:
                dtype = inputs[0].dtype
            return _result(node, result, dtype)

        for op_type in op_types:
            _rules[op_type] = checked
        return rule

    return register


_DTYPES = {name: "bool" for name in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Not")}
_FIRST_DTYPE = {
    "Gather",
    "Slice",
    "Squeeze",
    "Unsqueeze",
    "Reshape",
    "ReduceProd",
    "ReduceSum",
    "ReduceMax",
    "ReduceMin",
    "Tile",
}


@_rule("Shape")
def _shape(node: Node, x: Tensor) -> Tensor | None:
    start, end = node.attr("start", 0), node.attr("end", x.rank)
    bounds = slice(start, end).indices(x.rank)
    dims = x.shape[bounds[0] : max(bounds[0], bounds[1])]
    return node.b.symbolic(dims, [len(dims)], "int64")


@_rule("Size")
def _size(node: Node, x: Tensor) -> Tensor | None:
    return node.b.symbolic([node.b.extents.product(x.shape)], [], "int64")


@_rule("Cast")
def _cast(node: Node, x: Tensor) -> Tensor | None:
    target = node.dtype_attr("to")
    if x.elements is None or target == x.dtype:
        return x if target == x.dtype else None
    # int32 is wide enough for a dimension; the narrower types could change the value.
    return node.b.symbolic(x.elements, x.static_shape, target) if {target, x.dtype} <= {"int32", "int64"} else None


def _elementwise(function: Callable[..., Element], *arrays: np.ndarray) -> np.ndarray:
    broadcast = np.broadcast_arrays(*arrays)
    result = np.empty(broadcast[0].shape, dtype=object)
    for position in np.ndindex(result.shape):
        result[position] = function(*(a[position] for a in broadcast))
    return result


def _is_flag(element: Element) -> bool:
    return isinstance(element, bool) or (isinstance(element, ir.Value) and not isinstance(element.type, ir.IndexType))


@_on_symbolic("Add", "Sub", "Mul", "Div", "Mod")
def _arithmetic(node: Node, a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    extents = node.b.extents
    if node.op_type in ("Div", "Mod") and any(isinstance(v, int) and v == 0 for v in b.reshape(-1)):
        return None
    if node.op_type == "Mod" and node.attr("fmod", 0):
        return None
    if node.op_type in ("Div", "Mod"):
        _elementwise(lambda x, y: _require_divisor(node, x, y), a, b)
    function = {
        "Add": extents.add,
        "Sub": extents.sub,
        "Mul": extents.mul,
        "Div": extents.truncdiv,
        "Mod": extents.mod,
    }[node.op_type]
    return _elementwise(function, a, b)


def _require_divisor(node: Node, a: Element, b: Element) -> None:
    """Assert that ``b`` without the factors that it shares with ``a`` is not zero at run time."""
    _, divisor = node.b.extents.reduced(a, b)
    if isinstance(divisor, ir.Value) and node.b.extents.first_time(("divisor", divisor)):
        node.b.require("ne", divisor, 0, "an integer is divided by zero")


@_on_symbolic("Neg")
def _negate(node: Node, a: np.ndarray) -> np.ndarray:
    return _elementwise(lambda v: node.b.extents.sub(0, v), a)


@_on_symbolic("Min", "Max")
def _extremum(node: Node, *arrays: np.ndarray) -> np.ndarray:
    function = node.b.extents.minimum if node.op_type == "Min" else node.b.extents.maximum
    result = arrays[0]
    for array in arrays[1:]:
        result = _elementwise(function, result, array)
    return result


@_on_symbolic("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
def _comparison(node: Node, a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    if any(_is_flag(v) for v in (*a.reshape(-1), *b.reshape(-1))):
        return None
    predicate = {"Equal": "eq", "Less": "lt", "LessOrEqual": "le", "Greater": "gt", "GreaterOrEqual": "ge"}[
        node.op_type
    ]
    return _elementwise(lambda x, y: node.b.extents.compare(predicate, x, y), a, b)


@_on_symbolic("Not")
def _negation(node: Node, a: np.ndarray) -> np.ndarray:
    return _elementwise(lambda v: (not v) if isinstance(v, bool) else arith.xori(v, _true()), a)


def _true() -> ir.Value:
    i1 = ir.IntegerType.get_signless(1)
    return arith.ConstantOp(i1, ir.IntegerAttr.get(i1, 1)).result


@_on_symbolic("And", "Or")
def _logic(node: Node, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    absorbing = node.op_type == "Or"
    emit = arith.ori if absorbing else arith.andi

    def combine(x: Element, y: Element) -> Element:
        for known, other in ((x, y), (y, x)):
            if isinstance(known, bool):
                return known if known == absorbing else other
        return emit(x, y)

    return _elementwise(combine, a, b)


@_on_symbolic("Where")
def _where(node: Node, condition: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    if any(_is_flag(v) for v in (*a.reshape(-1), *b.reshape(-1))):
        return None
    return _elementwise(node.b.extents.select, condition, a, b)


@_on_symbolic("Concat")
def _concat(node: Node, *arrays: np.ndarray) -> np.ndarray | None:
    axis, rank = node.attr("axis"), arrays[0].ndim
    if not -rank <= axis < rank or any(a.ndim != rank for a in arrays):
        return None  # the importer says what is wrong
    return np.concatenate(arrays, axis)


@_on_symbolic("Identity")
def _identity(node: Node, a: np.ndarray) -> np.ndarray:
    return a


@_on_symbolic("Gather")
def _gather(node: Node, data: np.ndarray, indices: np.ndarray) -> np.ndarray | None:
    axis = node.axis(node.attr("axis", 0), data.ndim)
    if not all(isinstance(i, int) and -data.shape[axis] <= i < data.shape[axis] for i in indices.reshape(-1)):
        return None
    return np.take(data, indices.astype(np.int64), axis)


@_on_symbolic("Squeeze")
def _squeeze(node: Node, data: np.ndarray, axes: np.ndarray | None = None) -> np.ndarray | None:
    given = _axes(node, axes)
    return data.squeeze(tuple(given) if given is not None else None)


@_on_symbolic("Unsqueeze")
def _unsqueeze(node: Node, data: np.ndarray, axes: np.ndarray | None = None) -> np.ndarray | None:
    given = _axes(node, axes)
    return None if given is None else np.expand_dims(data, tuple(given))


def _axes(node: Node, axes: np.ndarray | None) -> list[int] | None:
    given = list(axes.reshape(-1)) if axes is not None else node.attr("axes", None)
    return given if given is None or all(isinstance(a, int) for a in given) else None


@_on_symbolic("Reshape")
def _reshape(node: Node, data: np.ndarray, shape: np.ndarray | None = None) -> np.ndarray | None:
    target = list(shape.reshape(-1)) if shape is not None else node.attr("shape", None)
    if target is None or not all(isinstance(d, int) and d != 0 for d in target):
        return None
    return data.reshape(target)


@_on_symbolic("Slice")
def _slice(
    node: Node,
    data: np.ndarray,
    starts: np.ndarray | None = None,
    ends: np.ndarray | None = None,
    axes: np.ndarray | None = None,
    steps: np.ndarray | None = None,
) -> np.ndarray | None:
    first: Sequence = node.attr("starts", []) if starts is None else list(starts.reshape(-1))
    last: Sequence = node.attr("ends", []) if ends is None else list(ends.reshape(-1))
    along: Sequence = node.attr("axes", None) or range(len(first)) if axes is None else list(axes.reshape(-1))
    step: Sequence = [1] * len(first) if steps is None else list(steps.reshape(-1))
    if not all(isinstance(v, int) for v in (*first, *last, *along, *step)):
        return None
    index: list[slice] = [slice(None)] * data.ndim
    for axis, start, stop, stride in zip(along, first, last, step, strict=True):
        # A negative stride that ends before the first element is spelled None in Python.
        end = None if stride < 0 and stop < -data.shape[axis] else stop
        index[axis] = slice(start, end, stride)
    return data[tuple(index)]


@_on_symbolic("ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin")
def _reduce(node: Node, data: np.ndarray, axes: np.ndarray | None = None) -> np.ndarray | None:
    extents = node.b.extents
    given = _axes(node, axes)
    noop = node.attr("noop_with_empty_axes", 0)
    if (axes is not None and given is None) or data.size == 0:
        return None
    if not given and noop:
        return data
    if given and sorted(a % data.ndim for a in given) != list(range(data.ndim)):
        return None
    flat = list(data.reshape(-1))
    function = {
        "ReduceProd": extents.mul,
        "ReduceSum": extents.add,
        "ReduceMax": extents.maximum,
        "ReduceMin": extents.minimum,
    }[node.op_type]
    result = flat[0]
    for element in flat[1:]:
        result = function(result, element)
    return np.array([result], dtype=object).reshape([1] * data.ndim if node.attr("keepdims", 1) else [])


@_rule("ConstantOfShape")
def _constant_of_shape(node: Node, shape: Tensor) -> Tensor | None:
    value = node.attr("value", np.zeros(1, np.float32))
    if shape.array is None or value.dtype.name not in ("int64", "int32"):
        return None
    dims = [int(d) for d in shape.array.reshape(-1)]
    if math.prod(dims) > _MAX_ELEMENTS or any(d < 0 for d in dims):
        return None
    return node.b.constant(np.full(dims, value.reshape(-1)[0], value.dtype))


@_on_symbolic("Expand")
def _expand(node: Node, data: np.ndarray, shape: np.ndarray) -> np.ndarray | None:
    target = list(shape.reshape(-1))
    if not all(isinstance(d, int) for d in target) or math.prod(target) > _MAX_ELEMENTS:
        return None
    return np.broadcast_to(data, np.broadcast_shapes(data.shape, tuple(target)))


@_on_symbolic("Tile")
def _tile(node: Node, data: np.ndarray, repeats: np.ndarray) -> np.ndarray | None:
    counts = list(repeats.reshape(-1))
    if not all(isinstance(c, int) for c in counts) or data.size * math.prod(counts) > _MAX_ELEMENTS:
        return None
    return np.tile(data, counts)


@_rule("Split")
def _split(node: Node, data: Tensor, split: Tensor | None = None) -> list[Tensor] | None:
    values = elements_of(data)
    if data.elements is None or values is None or values.ndim != 1:
        return None
    sizes = (
        node.attr("split", None) if split is None else None if split.array is None else list(split.array.reshape(-1))
    )
    if split is not None and sizes is None:
        return None
    if sizes is None:
        count = node.attr("num_outputs", node.output_count)
        chunk = -(-len(values) // count)
        sizes = [chunk] * (count - 1) + [len(values) - chunk * (count - 1)]
    if sum(sizes) != len(values) or any(s < 0 for s in sizes):
        return None  # refused where it is imported
    ends = np.cumsum([int(s) for s in sizes])
    parts = [values[e - s : e] for s, e in zip(sizes, ends, strict=True)]
    return [node.b.symbolic(list(p), [len(p)], data.dtype) for p in parts]
