"""Reduce*, ArgMax/ArgMin, Softmax and its relatives, CumSum."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from rillet.dialects import linalg
from rillet.frontends.building import element_types, scalars
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.scalars import Scalar, constant, maximum, minimum, select
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.pooling import highest, lowest
from rillet.frontends.onnx.registry import op
from rillet.ir import builders


def _sum(v: Scalar, acc: Scalar) -> Scalar:
    return acc + v


def count_of(node: Node, x: Tensor, axes: Sequence[int]) -> Scalar:
    """The number of elements along ``axes`` as an index scalar."""
    count = node.b.extents.product(x.shape[a] for a in axes)
    return constant(count, "index") if isinstance(count, int) else Scalar(count, "index")


def mean(node: Node, x: Tensor, axes: Sequence[int]) -> Tensor:
    """The mean over ``axes``, which disappear, in the type in which ``x`` computes."""
    total = node.b.reduce(x, axes, 0, _sum)
    count = count_of(node, x, axes)
    return node.b.map(lambda v: _divide(v, count), total)


def _divide(v: Scalar, count: Scalar) -> Scalar:
    return scalars.truncdiv(v, convert(count, v.dtype))


def _reduce(node: Node, x: Tensor, axes: list[int]) -> Tensor:
    b = node.b
    kind = node.op_type.removeprefix("Reduce")
    if kind == "Max":
        return b.reduce(x, axes, lowest(x.dtype), lambda v, acc: acc | v if v.dtype == "bool" else maximum(acc, v))
    if kind == "Min":
        return b.reduce(x, axes, highest(x.dtype), lambda v, acc: acc & v if v.dtype == "bool" else minimum(acc, v))
    if kind == "Prod":
        return b.reduce(x, axes, 1, lambda v, acc: acc * v)
    if kind == "Mean":
        return mean(node, x, axes)
    if kind == "L1":
        return b.reduce(x, axes, 0, lambda v, acc: acc + scalars.absolute(v))
    if kind == "SumSquare":
        return b.reduce(x, axes, 0, lambda v, acc: acc + v * v)
    if kind == "L2":
        total = b.reduce(x, axes, 0, lambda v, acc: acc + v * v)
        return b.map(_square_root, total)
    if kind == "LogSumExp":
        return _log_sum_exp(node, x, axes)
    total = b.reduce(x, axes, 0, _sum)
    return b.map(_logarithm, total) if kind == "LogSum" else total


def _square_root(v: Scalar) -> Scalar:
    return scalars.sqrt(v) if element_types.is_float(v.dtype) else convert(scalars.sqrt(convert(v, "float64")), v.dtype)


def _logarithm(v: Scalar) -> Scalar:
    return scalars.log(v) if element_types.is_float(v.dtype) else convert(scalars.log(convert(v, "float64")), v.dtype)


def _log_sum_exp(node: Node, x: Tensor, axes: list[int]) -> Tensor:
    b = node.b
    if not element_types.is_float(x.dtype):
        wide = b.cast(x, "float64")
        return b.cast(_log_sum_exp(node, wide, axes), x.dtype)
    kept = [a for a in range(x.rank) if a not in axes]
    peak = b.reduce(x, axes, -math.inf, lambda v, acc: maximum(acc, v))
    # An infinite maximum must not turn into inf - inf.
    peak = b.map(lambda v: select(scalars.absolute(v) == math.inf, constant(0, v.dtype), v), peak)
    shifted = b.map_along(
        lambda v, m: scalars.exp(convert(v, m.dtype) - m), x.shape, (x, range(x.rank)), (peak, kept), dtype=peak.dtype
    )
    total = b.reduce(shifted, axes, 0, _sum)
    return b.map(lambda s, m: scalars.log(s) + m, total, peak)


_REDUCTIONS = [
    f"Reduce{kind}" for kind in ("Max", "Min", "Prod", "Mean", "L1", "L2", "SumSquare", "LogSumExp", "LogSum", "Sum")
]


@op(*_REDUCTIONS)
def reduce(node: Node, x: Tensor, axes: Tensor | None = None) -> Tensor:
    """The reduction over ``axes`` (default: all), which stay with extent 1 unless ``keepdims=0``.

    The axes are an attribute at first, and an input from opset 13 (ReduceSum) or 18 (the others) on.
    """
    # Both are read in any case: each has no effect on some nodes.
    node.attr("keepdims", 1)
    noop = node.attr("noop_with_empty_axes", 0)
    given = node.attr("axes", None) if axes is None else node.b.known(axes, "axes").reshape(-1)
    if noop and (given is None or len(given) == 0):
        return _noop(node, x)
    return reduce_over(node, x, given, _reduce)


def reduce_over(
    node: Node,
    x: Tensor,
    axes: Sequence[int] | np.ndarray | None,
    reduction: Callable[[Node, Tensor, list[int]], Tensor],
) -> Tensor:
    """``reduction`` over ``axes`` (default: all), which stay with extent 1 unless ``keepdims=0``."""
    b = node.b
    chosen = list(range(x.rank)) if axes is None or len(axes) == 0 else node.axes(axes, x.rank)
    result = b.cast(reduction(node, x, chosen), x.dtype)
    if not node.attr("keepdims", 1):
        return result
    return b.reshape(result, [1 if a in chosen else d for a, d in enumerate(x.shape)])


def _noop(node: Node, x: Tensor) -> Tensor:
    """No axis is reduced, but the elementwise part of the reduction applies."""
    kind = node.op_type.removeprefix("Reduce")
    if kind in ("L1", "L2"):
        return node.b.map(scalars.absolute, x)
    if kind == "SumSquare":
        return node.b.map(lambda v: v * v, x)
    return node.b.map(_logarithm, x) if kind == "LogSum" else x


@op("ArgMax", "ArgMin")
def arg_extremum(node: Node, x: Tensor) -> Tensor:
    """The int64 position of the largest or smallest element along ``axis``.

    The first of equal elements counts, with ``select_last_index`` the last.
    """
    b = node.b
    axis = node.axis(node.attr("axis", 0), x.rank)
    last = node.attr("select_last_index", 0)
    largest = node.op_type == "ArgMax"
    dtype = element_types.compute_dtype(x.dtype)
    loops = builders.dims(x.rank)
    kept = [a for a in range(x.rank) if a != axis]
    shape = [x.shape[a] for a in kept]

    def body(v: Scalar, best: Scalar, at: Scalar) -> list[Scalar]:
        strictly = v > best if largest else v < best
        # The first element always counts, so that the identity itself can be found.
        better = strictly | (at < 0)
        if last:
            better = better | (v == best)
        position = convert(Scalar(linalg.IndexOp(axis).result, "index"), "int64")
        return [select(better, v, best), select(better, position, at)]

    init = lowest(dtype) if largest else highest(dtype)
    outputs = [
        (b.init(init, dtype, shape), [loops[a] for a in kept], dtype, shape),
        (b.init(-1, "int64", shape), [loops[a] for a in kept], "int64", shape),
    ]
    iterators = "".join("r" if a == axis else "p" for a in range(x.rank))
    result = b.generic([(x, loops)], outputs, iterators, body)[1]
    return b.unsqueeze(result, [axis]) if node.attr("keepdims", 1) else result


# --- softmax ---


@op("Softmax", "LogSoftmax", "Hardmax", until=12)
def softmax_flattened(node: Node, x: Tensor) -> Tensor:
    """Softmax before opset 13, which flattens the dimensions from ``axis`` on into one."""
    axis = node.axis(node.attr("axis", 1), x.rank) if x.rank else 0
    if axis == x.rank - 1:
        return _softmax(node, x, axis)
    e = node.b.extents
    flat = node.b.reshape(x, [*x.shape[:axis], e.product(x.shape[axis:])])
    return node.b.reshape(_softmax(node, flat, axis), x.shape)


@op("Softmax", "LogSoftmax", "Hardmax", since=13)
def softmax(node: Node, x: Tensor) -> Tensor:
    """exp(x) / sum(exp(x)) along ``axis``, its logarithm, or 1 at the first maximum and 0 elsewhere (Hardmax)."""
    return _softmax(node, x, node.axis(node.attr("axis", -1), x.rank))


def _softmax(node: Node, x: Tensor, axis: int) -> Tensor:
    if node.op_type == "Hardmax":
        return _hardmax(node, x, axis)
    return softmax_of(node, x, axis, log=node.op_type == "LogSoftmax")


def softmax_of(node: Node, x: Tensor, axis: int, log: bool = False) -> Tensor:
    """exp(x - max) / sum(exp(x - max)) along ``axis``, or its logarithm."""
    b = node.b
    every = range(x.rank)
    kept = [a for a in every if a != axis]
    dtype = element_types.compute_dtype(x.dtype)

    def along(body: Callable[[Scalar, Scalar], Scalar], full: Tensor, row: Tensor, result: str) -> Tensor:
        return b.map_along(body, x.shape, (full, every), (row, kept), dtype=result)

    peak = b.reduce(x, [axis], -math.inf, lambda v, acc: maximum(acc, v))
    if log:
        shifted = along(lambda v, m: v - m, x, peak, dtype)
        total = b.reduce(shifted, [axis], 0, lambda v, acc: acc + scalars.exp(v))
        return along(lambda v, s: v - scalars.log(s), shifted, total, x.dtype)
    powers = along(lambda v, m: scalars.exp(v - m), x, peak, dtype)
    total = b.reduce(powers, [axis], 0, _sum)
    return along(lambda v, s: v / s, powers, total, x.dtype)


def _hardmax(node: Node, x: Tensor, axis: int) -> Tensor:
    b = node.b
    position = first_maximum(node, x, axis)
    kept = [a for a in range(x.rank) if a != axis]

    def body(_: Scalar, at: Scalar) -> Scalar:
        here = convert(Scalar(linalg.IndexOp(axis).result, "index"), "int64")
        return select(at == here, constant(1, "float32"), 0)

    return b.map_along(body, x.shape, (x, range(x.rank)), (position, kept), dtype=x.dtype)


def first_maximum(node: Node, x: Tensor, axis: int) -> Tensor:
    """The first position (int64) of the maximum along ``axis``, which disappears."""
    b = node.b
    dtype = element_types.compute_dtype(x.dtype)
    loops = builders.dims(x.rank)
    kept = [a for a in range(x.rank) if a != axis]
    shape = [x.shape[a] for a in kept]

    def body(v: Scalar, best: Scalar, at: Scalar) -> list[Scalar]:
        better = (v > best) | (at < 0)
        here = convert(Scalar(linalg.IndexOp(axis).result, "index"), "int64")
        return [select(better, v, best), select(better, here, at)]

    outputs = [
        (b.init(lowest(dtype), dtype, shape), [loops[a] for a in kept], dtype, shape),
        (b.init(-1, "int64", shape), [loops[a] for a in kept], "int64", shape),
    ]
    return b.generic([(x, loops)], outputs, "".join("r" if a == axis else "p" for a in range(x.rank)), body)[1]
