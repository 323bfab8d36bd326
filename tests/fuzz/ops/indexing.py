"""Gathering, scattering and results whose extent depends on data."""

from __future__ import annotations

import numpy as np

from tests.fuzz.maker import FLOATS, Maker, Stuck, Value
from tests.fuzz.ops.registry import applies


def _indices(g: Maker, extent: int, shape: tuple[int, ...]) -> Value:
    if extent < 1:
        raise Stuck
    return g.constant(g.rng.integers(-extent, extent, shape).astype(g.one_of([np.int64, np.int32])))


def _reduction(g: Maker, x: Value) -> tuple[Value, str]:
    """How what is scattered meets what is there, and onto what."""
    reduction = g.one_of(["none", "none", "add", "mul", "max", "min"])
    if x.dtype not in (*FLOATS, "int32", "int64"):
        return x, "none"
    return (g.number(x) if reduction in ("max", "min") and x.is_float else x), reduction


@applies(3)
def gather(g: Maker) -> None:
    x = g.value(low=1, high=4)
    axis = g.fixed_axis(x)
    shape = tuple(int(n) for n in g.rng.integers(1, 4, g.integer(0, 2)))
    g.add("Gather", [x, _indices(g, int(x.dims[axis]), shape)], axis=axis)


@applies(1.5)
def gather_elements(g: Maker) -> None:
    x = g.value(low=1, high=4)
    if not x.static or not x.elements:
        raise Stuck
    axis = g.integer(0, x.rank - 1)
    shape = tuple(g.integer(1, 3) if i == axis else g.integer(1, int(d)) for i, d in enumerate(x.dims))
    indices = _indices(g, int(x.dims[axis]), shape)
    if g.chance(0.5):
        g.add("GatherElements", [x, indices], axis=axis)
    else:
        order = np.argsort(g.rng.random((*shape[:axis], int(x.dims[axis]), *shape[axis + 1 :])), axis=axis)
        taken = order.take(range(min(shape[axis], int(x.dims[axis]))), axis=axis).astype(np.int64)
        updates = g.data(x.dtype, taken.shape)
        x, reduction = _reduction(g, x)
        g.add("ScatterElements", [x, g.constant(taken), updates], axis=axis, reduction=reduction)


@applies(1.5)
def gather_nd(g: Maker) -> None:
    x = g.value(low=1, high=4)
    if not x.static or not x.elements:
        raise Stuck
    depth = g.integer(1, x.rank)
    flat = g.rng.permutation(int(np.prod(x.dims[:depth])))[: g.integer(1, 4)]
    indices = g.constant(np.stack(np.unravel_index(flat, x.dims[:depth]), -1).astype(np.int64))
    if g.chance(0.5):
        g.add("GatherND", [x, indices])
    else:
        if g.chance(0.3):  # a place more than once
            indices = g.constant(np.stack(np.unravel_index([*flat, flat[0]], x.dims[:depth]), -1).astype(np.int64))
            flat = [*flat, flat[0]]
            x, reduction = _reduction(g, x)
            if reduction == "none":
                raise Stuck  # which is last is not specified
        else:
            x, reduction = _reduction(g, x)
        g.add("ScatterND", [x, indices, g.data(x.dtype, (len(flat), *x.dims[depth:]))], reduction=reduction)


@applies(0.7)
def gather_nd_batched(g: Maker) -> None:
    x = g.value(low=2, high=4)
    if not x.static or not x.elements:
        raise Stuck
    batch = g.integer(1, x.rank - 1)
    depth = g.integer(1, x.rank - batch)
    shape = (*x.dims[:batch], g.integer(1, 3))
    places = [g.rng.integers(-int(d), int(d), shape) for d in x.dims[batch : batch + depth]]
    g.add("GatherND", [x, g.constant(np.stack(places, -1).astype(np.int64))], batch_dims=batch)


@applies(1)
def one_hot(g: Maker) -> None:
    x = g.value(("int64", "int32"), 0, 3)
    values = g.constant(np.array([0, 1], g.float_type if g.float_type != "float16" else "float32"))
    depth = g.constant(np.asarray(g.integer(1, 6), np.int64))
    g.add("OneHot", [x, depth, values], axis=g.integer(-x.rank - 1, x.rank))


@applies(0.6)
def non_zero(g: Maker) -> None:
    x = g.value(low=1, high=3)
    g.add("NonZero", [x])


@applies(0.6)
def compress(g: Maker) -> None:
    x = g.value(low=1, high=3)
    if x.static and x.elements and g.chance(0.3):
        g.add("Compress", [x, g.data("bool", (g.integer(1, x.elements),))])
        return
    axis = g.fixed_axis(x)
    g.add("Compress", [x, g.data("bool", (int(x.dims[axis]),))], axis=axis)


@applies(0.5)
def unique(g: Maker) -> None:
    x = g.value(("float32", "float64", "int64", "int8"), 1, 3)
    x = g.add("Round", [g.number(x)])[0] if x.is_float else x
    g.filled(*x.dims)
    axis = {"axis": g.axis(x)} if g.chance(0.4) else {}
    g.add("Unique", [x], g.integer(1, 4), sorted=g.integer(0, 1), **axis)


@applies(0.5)
def reverse_sequence(g: Maker) -> None:
    x = g.value(("float32", "float64", "int64", "bool"), 2, 4)
    batch, time = x.dims[:2] if (turned := g.chance(0.5)) else (x.dims[1], x.dims[0])
    if not isinstance(batch, int) or not isinstance(time, int) or not batch or not time:
        raise Stuck
    lengths = g.constant(g.rng.integers(1, time + 1, batch).astype(np.int64))
    g.add("ReverseSequence", [x, lengths], time_axis=int(turned), batch_axis=1 - int(turned))


@applies(0.5)
def range_(g: Maker) -> None:
    """Positions up to a fixed number, or to an extent of a value."""
    dtype = g.one_of(["int64", "int32", "float32"])
    start, step = g.scalar(g.integer(-3, 3), dtype), g.scalar(g.one_of([1, 2, -1, 3]), dtype)
    if g.chance(0.5) or dtype != "int64":
        g.add("Range", [start, g.scalar(g.integer(-5, 9), dtype), step])
        return
    x = g.value(low=1)
    extent = g.add("Gather", [g.add("Shape", [x])[0], g.constant(np.asarray(g.axis(x), np.int64))])[0]
    g.add("Range", [g.scalar(0, dtype), extent, g.scalar(g.one_of([1, 2]), dtype)])


@applies(0.3)
def eye_like(g: Maker) -> None:
    x = g.value(("float32", "float64", "int64", "int32"), 2, 2)
    g.add("EyeLike", [x], k=g.integer(-2, 2))
