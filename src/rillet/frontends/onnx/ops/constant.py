"""Constants and generators: Constant, ConstantOfShape, Identity, Range, EyeLike, Dropout in inference."""

from __future__ import annotations

import numpy as np

from rillet.frontends.building import element_types, scalars
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.scalars import Scalar, constant, select
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.random import uniform
from rillet.frontends.onnx.registry import op


@op("Constant")
def constant_node(node: Node) -> Tensor:
    """The value of ``value``, ``value_float(s)`` or ``value_int(s)``.

    Raises UnsupportedFeature for sparse tensors. Strings have an importer of their own (``strings/values.py``).
    """
    name = node.proto.output[0]
    if node.has("value"):
        return node.b.constant(node.attr("value"), name=name)
    for attribute, dtype in (
        ("value_float", "float32"),
        ("value_floats", "float32"),
        ("value_int", "int64"),
        ("value_ints", "int64"),
    ):
        if node.has(attribute):
            return node.b.constant(np.asarray(node.attr(attribute)), dtype, name)
    raise UnsupportedFeature("a constant that is a string, or sparse", "make it a dense tensor of numbers")


@op("ConstantOfShape", since=9)
def constant_of_shape(node: Node, shape: Tensor) -> Tensor:
    """A tensor of the given shape, filled with the one element of ``value`` (default: 0 in float32).

    Raises InvalidNode for a negative dimension.
    """
    value = node.attr("value", np.zeros(1, np.float32))
    dims = node.b.extents_of(shape, "the shape", node.declared_rank(0))
    if any(isinstance(d, int) and d < 0 for d in dims):
        raise InvalidNode(f"the shape {dims} has a negative dimension")
    return node.b.fill(value.reshape(-1)[0], value.dtype.name, dims)


@op("Identity")
def identity(node: Node, x: Tensor) -> Tensor:
    """x itself; no operation is emitted."""
    return x


@op("Dropout", ignores=["ratio", "seed", "consumed_inputs"])
def dropout(node: Node, x: Tensor, ratio: Tensor | None = None, training: Tensor | None = None) -> list[Tensor]:
    """The identity with an all-true mask in inference; in training each element stays with probability 1 - ratio."""
    if training is not None and bool(node.b.known(training, "training_mode").reshape(-1)[0]):
        return _dropout_in_training(node, x, node.b.constant(0.5, "float32") if ratio is None else ratio)
    if node.opset < 7 and not node.attr("is_test", 0):
        result, kept = _dropout_in_training(node, x, node.b.constant(node.attr("ratio", 0.5), "float32"))
        return [result, node.b.map(lambda v: convert(v, element_types.compute_dtype(x.dtype)), kept, dtype=x.dtype)]
    if not node.wants(1):
        return [x]
    mask = "bool" if node.opset >= 10 else x.dtype
    return [x, node.b.fill(True, mask, x.shape)]


def _dropout_in_training(node: Node, x: Tensor, ratio: Tensor) -> list[Tensor]:
    """Elements that stay are scaled by 1 / (1 - ratio), so that the expected value is the input's."""
    b = node.b
    mask = b.map(
        lambda u, r: u >= convert(r, u.dtype), uniform(node, list(x.shape)), ratio, dtype="bool", shape=x.shape
    )

    def keep(v: Scalar, m: Scalar, r: Scalar) -> Scalar:
        return select(m, v / (1.0 - convert(r, v.dtype)), 0)

    return [b.map(keep, x, mask, ratio, shape=x.shape), mask]


@op("Range", since=11)
def range_(node: Node, start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    """start + i delta for i from 0 to max(0, ceil((limit - start) / delta)) - 1.

    A result whose bounds are known only at run time has a dynamic extent. Raises InvalidNode for a delta known to be 0.
    """
    b, e = node.b, node.b.extents
    if element_types.is_integer(start.dtype) and all(
        t.array is not None or t.elements is not None for t in (start, limit, delta)
    ):
        first, last, step = (b.extents_of(t, "a bound", 1)[0] for t in (start, limit, delta))
        if step == 0:
            raise InvalidNode("the step is 0")
        if isinstance(step, int):
            span = e.sub(last, first) if step > 0 else e.sub(first, last)
            count = e.maximum(0, e.ceildiv(span, abs(step)))
            return _range(node, start, delta, count)
    # The host computes with wide floats only.
    dtype = start.dtype
    start, limit, delta = (b.cast(t, element_types.compute_dtype(t.dtype)) for t in (start, limit, delta))
    x, y, z = (b.scalar(t) for t in (start, limit, delta))
    # The count is max(0, ceil((limit - start) / delta)); integers go through float64 as in ONNX's definition.
    wide = [convert(v, "float64") for v in (x, y, z)]
    steps = scalars.maximum(scalars.ceil((wide[1] - wide[0]) / wide[2]), 0.0)
    count = e.declare(convert(convert(steps, "int64"), "index").value)
    return b.cast(_range(node, start, delta, count), dtype)


def _range(node: Node, start: Tensor, delta: Tensor, count: object) -> Tensor:
    b = node.b
    first, step = b.scalar(start), b.scalar(delta)
    compute = element_types.compute_dtype(start.dtype)

    def body(indices: list[Scalar]) -> Scalar:
        return convert(first, compute) + convert(indices[0], compute) * convert(step, compute)

    return b.indexed(start.dtype, [count], body)  # type: ignore[list-item]


@op("EyeLike")
def eye_like(node: Node, x: Tensor) -> Tensor:
    """1 where column = row + k, else 0, in the shape of the matrix x. Raises InvalidNode for another rank than 2."""
    if x.rank != 2:
        raise InvalidNode(f"the input has rank {x.rank}, but must be a matrix")
    dtype = node.dtype_attr("dtype", x.dtype)
    shift = node.attr("k", 0)

    def body(indices: list[Scalar]) -> Scalar:
        one = constant(1, element_types.compute_dtype(dtype))
        return select(indices[1] == indices[0] + shift, one, 0)

    return node.b.indexed(dtype, x.shape, body)
