"""Max, average and Lp pooling, windowed and global.

A windowed pool is ``tensor.pad`` when something is padded, a fill, and one generic over (n, c, out..., window...)
whose second operand is a shape-only tensor that gives the window's extents.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from rillet.frontends.building import element_types, scalars
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.scalars import Scalar, constant, maximum, select
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.registry import op
from rillet.frontends.onnx.windows import Window, window_of
from rillet.ir import builders, dtypes
from rillet.ir.builders import Extent

_MOST = 1 << 24  # elements of windows that are counted now; beyond, at run time


def lowest(dtype: str) -> float | int:
    """The identity of max: minus infinity, or the smallest integer."""
    if element_types.is_float(dtype):
        return -math.inf
    return False if dtype == "bool" else int(np.iinfo(dtypes.by_name[dtype].numpy).min)


def highest(dtype: str) -> float | int:
    """The identity of min: infinity, or the largest integer."""
    if element_types.is_float(dtype):
        return math.inf
    return True if dtype == "bool" else int(np.iinfo(dtypes.by_name[dtype].numpy).max)


def _window(node: Node, x: Tensor) -> Window:
    if x.rank < 3:
        raise InvalidNode(f"the input has rank {x.rank}; pooling needs 2 + spatial dimensions")
    return window_of(node, x.shape[2:], node.attr("kernel_shape"))


def _pool(
    node: Node,
    x: Tensor,
    window: Window,
    init: float | int,
    body: Callable[[Scalar, Scalar], Scalar],
    dtype: str,
) -> Tensor:
    """Reduce each window of the padded ``x`` with ``accumulator = body(element, accumulator)``."""
    b = node.b
    rank = x.rank - 2
    iterators = "pp" + "p" * rank + "r" * rank
    loops = builders.dims(len(iterators))
    kernel = loops[2 + rank :]
    positions = [
        o * s + k * d for o, s, k, d in zip(loops[2 : 2 + rank], window.strides, kernel, window.dilations, strict=True)
    ]
    shape = [*x.shape[:2], *window.out]
    shape_only = b.tensor(b.empty(dtype, window.kernel), dtype, window.kernel)
    output = (b.init(init, dtype, shape), loops[: 2 + rank], dtype, shape)
    return b.generic(
        [(x, [*loops[:2], *positions]), (shape_only, kernel)],
        [output],
        iterators,
        lambda v, _, acc: body(convert(v, acc.dtype), acc),
    )[0]


@op("MaxPool", ignores=["storage_order"])
def max_pool(node: Node, x: Tensor) -> list[Tensor]:
    """The maximum of each window of x [batch, channels, spatial...], and its int64 index if that is used.

    An index counts the elements of all of x, in row-major order or with ``storage_order=1`` column-major over the
    spatial dimensions.
    """
    b = node.b
    window = _window(node, x)
    init = lowest(x.dtype)
    padded = b.pad(x, [0, 0, *window.low], [0, 0, *window.high], init)
    dtype = element_types.compute_dtype(x.dtype)
    result = b.cast(_pool(node, padded, window, init, maximum, dtype), x.dtype)
    return [result, _max_indices(node, x, padded, window)] if node.wants(1) else [result]


def _max_indices(node: Node, x: Tensor, padded: Tensor, window: Window) -> Tensor:
    """Flat indices into ``x`` of the first maximum of each window."""
    b = node.b
    rank = x.rank - 2
    iterators = "pp" + "p" * rank + "r" * rank
    loops = builders.dims(len(iterators))
    kernel = loops[2 + rank :]
    positions = [
        o * s + k * d for o, s, k, d in zip(loops[2 : 2 + rank], window.strides, kernel, window.dilations, strict=True)
    ]
    shape = [*x.shape[:2], *window.out]
    dtype = element_types.compute_dtype(x.dtype)
    sizes = list(x.shape)
    order = list(range(2, x.rank))
    if node.attr("storage_order", 0):
        order.reverse()  # column-major over the spatial dimensions
    shape_only = b.tensor(b.empty(dtype, window.kernel), dtype, window.kernel)

    def body(v: Scalar, _: Scalar, best: Scalar, at: Scalar) -> list[Scalar]:
        from rillet.dialects import linalg

        def loop(i: int) -> Scalar:
            return Scalar(linalg.IndexOp(i).result, "index")

        flat = loop(0) * _index(sizes[1]) + loop(1)
        for axis in order:
            i = axis - 2
            position = loop(axis) * window.strides[i] + loop(axis + rank) * window.dilations[i] - _index(window.low[i])
            flat = flat * _index(sizes[axis]) + position
        position = convert(flat, "int64")
        better = (v > best) | (at < 0)
        return [select(better, v, best), select(better, position, at)]

    outputs = [
        (b.init(lowest(dtype), dtype, shape), loops[: 2 + rank], dtype, shape),
        (b.init(-1, "int64", shape), loops[: 2 + rank], "int64", shape),
    ]
    return b.generic([(padded, [*loops[:2], *positions]), (shape_only, kernel)], outputs, iterators, body)[1]


def _index(extent: Extent) -> Scalar:
    return constant(extent, "index") if isinstance(extent, int) else Scalar(extent, "index")


@op("AveragePool")
def average_pool(node: Node, x: Tensor) -> Tensor:
    """The mean of each window of x [batch, channels, spatial...].

    ``count_include_pad`` says whether the padding counts among the elements of a window.
    """
    b = node.b
    window = _window(node, x)
    padded = b.pad(x, [0, 0, *window.low], [0, 0, *window.high])
    dtype = element_types.compute_dtype(x.dtype)
    total = _pool(node, padded, window, 0, lambda v, acc: acc + v, dtype)
    counts = _counts(node, x, window)
    if isinstance(counts, int):
        return b.map(lambda v: v / float(counts), total, dtype=x.dtype)
    spatial = range(2, x.rank)
    everywhere = range(x.rank)
    return b.map_along(
        lambda v, n: v / convert(n, v.dtype), total.shape, (total, everywhere), (counts, spatial), dtype=x.dtype
    )


def _counts(node: Node, x: Tensor, window: Window) -> int | Tensor:
    """How many elements each window averages: one number, or a tensor [out...] of them.

    With ``count_include_pad`` the padding that the node asks for counts, but not what ceil_mode adds after it.
    """
    b, e = node.b, node.b.extents
    rank = x.rank - 2
    include = node.attr("count_include_pad", 0)
    given = node.attr("pads", None) or [0] * (2 * rank)
    auto = node.attr("auto_pad", "NOTSET").startswith("SAME")
    limits: list[tuple[Extent, Extent]] = []  # the positions that count, relative to the padded input
    for axis, extent in enumerate(x.shape[2:]):
        low = window.low[axis]
        if include:
            after = window.high[axis] if auto else given[axis + rank]
            limits.append((0, e.add(e.add(low, extent), after)))
        else:
            limits.append((low, e.add(low, extent)))
    whole = _product(window.kernel)
    fits = all(
        start == 0 and e.equal(end, e.add(e.add(window.low[a], d), window.high[a]))
        for a, (d, (start, end)) in enumerate(zip(x.shape[2:], limits, strict=True))
    )
    if fits:
        return whole
    if (
        all(isinstance(v, int) for pair in limits for v in (*pair, *window.out))
        and whole * _product(window.out) < _MOST
    ):
        return b.constant(_static_counts(window, limits))

    def body(indices: list[Scalar]) -> Scalar:
        product = constant(1, "index")
        for axis, (start, end) in enumerate(limits):
            first = indices[axis] * window.strides[axis]
            count = constant(0, "index")
            for k in range(int(window.kernel[axis])):  # type: ignore[arg-type]
                position = first + k * window.dilations[axis]
                inside = (position >= _index(start)) & (position < _index(end))
                count = count + convert(inside, "index")
            product = product * count
        return convert(product, "int32")

    return b.indexed("int32", list(window.out), body)


def _product(extents: Sequence[Extent]) -> int:
    return math.prod(int(n) for n in extents)  # type: ignore[arg-type]


def _static_counts(window: Window, limits: list[tuple[Extent, Extent]]) -> np.ndarray:
    counts = np.ones([], np.float32)
    for axis, (start, end) in enumerate(limits):
        first = np.arange(int(window.out[axis])) * window.strides[axis]  # type: ignore[arg-type]
        positions = first[:, None] + np.arange(int(window.kernel[axis])) * window.dilations[axis]  # type: ignore[arg-type]
        inside = ((positions >= start) & (positions < end)).sum(1)
        counts = counts[..., None] * inside.astype(np.float32)
    return counts


@op("LpPool")
def lp_pool(node: Node, x: Tensor) -> Tensor:
    """(sum of |x| ** p) ** (1 / p) over each window of x [batch, channels, spatial...]."""
    b = node.b
    p = float(node.attr("p", 2))
    window = _window(node, x)
    padded = b.pad(x, [0, 0, *window.low], [0, 0, *window.high])
    dtype = element_types.compute_dtype(x.dtype)
    total = _pool(node, padded, window, 0, lambda v, acc: acc + _power(v, p), dtype)
    return b.map(lambda v: _root(v, p), total, dtype=x.dtype)


def _power(v: Scalar, p: float) -> Scalar:
    if p == 1:
        return scalars.absolute(v)
    return v * v if p == 2 else scalars.power(scalars.absolute(v), constant(p, v.dtype))


def _root(v: Scalar, p: float) -> Scalar:
    if p == 1:
        return v
    return scalars.sqrt(v) if p == 2 else scalars.power(v, constant(1 / p, v.dtype))


@op("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool")
def global_pool(node: Node, x: Tensor) -> Tensor:
    """The maximum, mean or Lp norm over all spatial dimensions, which stay with extent 1."""
    b = node.b
    axes = list(range(2, x.rank))
    kept = [*x.shape[:2], *[1] * len(axes)]
    if node.op_type == "GlobalMaxPool":
        return b.reshape(b.cast(b.reduce(x, axes, lowest(x.dtype), maximum), x.dtype), kept)
    if node.op_type == "GlobalLpPool":
        p = float(node.attr("p", 2))
        total = b.reduce(x, axes, 0, lambda v, acc: acc + _power(v, p))
        return b.reshape(b.map(lambda v: _root(v, p), total, dtype=x.dtype), kept)
    total = b.reduce(x, axes, 0, lambda v, acc: acc + v)
    count = _index(b.extents.product(x.shape[2:]))
    return b.reshape(b.map(lambda v: v / convert(count, v.dtype), total, dtype=x.dtype), kept)
