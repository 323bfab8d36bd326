"""Gathering, scattering and results whose extent depends on data."""

from __future__ import annotations

import numpy as np

from tests.fuzz.maker import FLOATS, Maker, Stuck, Value
from tests.fuzz.ops.registry import applies


def _indices(g: Maker, extent: int, shape: tuple[int, ...]) -> Value:
    if extent < 1:
        raise Stuck
    return g.constant(g.rng.integers(-extent, extent, shape).astype(g.one_of([np.int64, np.int32])))


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
        reduction = g.one_of(["none", "add", "max"]) if x.dtype in (*FLOATS, "int32", "int64") else "none"
        if reduction == "max" and x.dtype in FLOATS:
            x = g.number(x)
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
        g.add("ScatterND", [x, indices, g.data(x.dtype, (len(flat), *x.dims[depth:]))])


@applies(1)
def one_hot(g: Maker) -> None:
    x = g.value(("int64", "int32"), 0, 3)
    values = g.constant(np.array([0, 1], g.float_type if g.float_type != "float16" else "float32"))
    g.add("OneHot", [x, g.constant(np.asarray(g.integer(1, 6), np.int64)), values], axis=-1)


@applies(0.6)
def non_zero(g: Maker) -> None:
    x = g.value(low=1, high=3)
    g.add("NonZero", [x])


@applies(0.6)
def compress(g: Maker) -> None:
    x = g.value(low=1, high=3)
    axis = g.fixed_axis(x)
    g.add("Compress", [x, g.data("bool", (int(x.dims[axis]),))], axis=axis)
