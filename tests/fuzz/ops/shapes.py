"""Ops that move elements or change shapes."""

from __future__ import annotations

import numpy as np

from tests.fuzz.maker import FLOATS, Maker, Stuck, Value
from tests.fuzz.ops.registry import applies


@applies(4)
def reshape(g: Maker) -> None:
    x = g.value(low=1)
    if x.static and g.chance(0.5) and x.elements:
        extents, left = [], x.elements
        while left > 1 and len(extents) < 4:
            extent = g.one_of([n for n in range(1, left + 1) if left % n == 0])
            extents.append(extent)
            left //= extent
        extents.append(left)
        g.rng.shuffle(extents)
        if g.chance(0.4):
            extents[g.integer(0, len(extents) - 1)] = -1
        g.add("Reshape", [x, g.ints(*extents)])
        return
    kept = [0 if isinstance(d, str) or g.chance(0.3) else d for d in x.dims]
    if 0 in [d for d in x.dims if isinstance(d, int)]:
        raise Stuck
    axis = g.integer(0, x.rank - 1)
    g.add("Reshape", [x, g.ints(*kept[:axis], -1, *([1] if g.chance(0.3) else []))])


@applies(1)
def flatten(g: Maker) -> None:
    x = g.value(low=1)
    g.add("Flatten", [x], axis=g.axis(x))


@applies(4)
def transpose(g: Maker) -> None:
    x = g.value(low=2)
    g.add("Transpose", [x], perm=[int(i) for i in g.rng.permutation(x.rank)])


@applies(3)
def unit_axes(g: Maker) -> None:
    x = g.value(high=4)
    ones = [i for i, d in enumerate(x.dims) if d == 1]
    if ones and g.chance(0.5):
        g.add("Squeeze", [x, g.ints(g.one_of(ones))])
    else:
        g.add("Unsqueeze", [x, g.ints(g.integer(-x.rank - 1, x.rank))])


@applies(2)
def expand(g: Maker) -> None:
    x = g.value(high=4)
    wanted = [g.integer(1, 4) if d == 1 else 1 for d in x.dims]
    if g.chance(0.3):
        wanted = [g.integer(1, 3), *wanted]
    g.add("Expand", [x, g.ints(*wanted)])


@applies(1)
def expand_like(g: Maker) -> None:
    x = g.value()
    shape = g.add("Shape", [g.value()])[0]
    g.add("Expand", [x, shape]) if g.chance(0.5) else g.add("ConstantOfShape", [shape])


@applies(1)
def tile(g: Maker) -> None:
    x = g.value(low=1, high=4)
    g.add("Tile", [x, g.ints(*(int(n) for n in g.rng.integers(1, 3, x.rank)))])


@applies(4)
def slice_(g: Maker) -> None:
    x = g.value(low=1)
    axis = g.axis(x)
    step = g.one_of([1, 1, 2, 3, -1, -2])
    start, end = g.integer(-4, 4), g.integer(-4, 20)
    if step < 0:
        # Of a start before the first element, numpy, and so the reference evaluator, takes nothing.
        start, end = max(end, -1), g.one_of([start, -(1 << 31)])
    g.add("Slice", [x, g.ints(start), g.ints(end), g.ints(axis), g.ints(step)])


@applies(3)
def concat(g: Maker) -> None:
    x = g.value(low=1)
    axis = g.integer(0, x.rank - 1)
    others = [
        v
        for v in g.values
        if v.dtype == x.dtype
        and v.rank == x.rank
        and v.dims[:axis] == x.dims[:axis]
        and v.dims[axis + 1 :] == x.dims[axis + 1 :]
    ]
    if g.chance(0.4):
        others = [g.data(x.dtype, (*x.dims[:axis], g.integer(1, 4), *x.dims[axis + 1 :]))]
    g.add("Concat", [x, *(g.one_of(others) for _ in range(g.integer(0, 2)))], axis=axis)


@applies(2)
def split(g: Maker) -> None:
    x = g.value(low=1)
    axis = g.fixed_axis(x, 2)
    extent = int(x.dims[axis])
    if g.chance(0.5):
        first = g.integer(0, extent)
        g.add("Split", [x, g.ints(first, extent - first)], 2, axis=axis)
    else:
        g.add("Split", [x], 2, axis=axis, num_outputs=2)


@applies(3)
def pad(g: Maker) -> None:
    x = g.value((*FLOATS, "int32", "int64"), 1, 4)
    mode = g.one_of(["constant", "constant", "edge", "reflect", "wrap"])
    least = [d if isinstance(d, int) else 1 for d in x.dims]
    if mode == "constant":
        pads = [int(n) for n in g.rng.integers(-1 if min(least) > 2 else 0, 3, 2 * x.rank)]
    else:
        if min(least) < 1 or not x.static:
            raise Stuck
        pads = [g.integer(0, max(0, min(2, d - 1))) for d in [*least, *least]]
    inputs: list[Value | str] = [x, g.ints(*pads)]
    if mode == "constant" and g.chance(0.4):
        inputs.append(g.scalar(2, x.dtype))
    g.add("Pad", inputs, mode=mode)


@applies(1)
def trilu(g: Maker) -> None:
    x = g.value((*FLOATS, "int64"), 2)
    g.add("Trilu", [x, g.constant(np.asarray(g.integer(-2, 2), np.int64))], upper=g.integer(0, 1))


@applies(1)
def depth_space(g: Maker) -> None:
    x = g.floating(4, 4)
    if x.static and x.elements and x.dims[2] % 2 == 0 and x.dims[3] % 2 == 0 and g.chance(0.5):
        g.add("SpaceToDepth", [x], blocksize=2)
    elif isinstance(x.dims[1], int) and x.dims[1] and x.dims[1] % 4 == 0:
        g.add("DepthToSpace", [x], blocksize=2, mode=g.one_of(["DCR", "CRD"]))


@applies(0.6)
def shape_arithmetic(g: Maker) -> None:
    """Reshape to a shape computed from another value's: [Shape(x)[0], -1]."""
    x = g.value(low=2, high=4)
    if 0 in x.dims:
        raise Stuck
    shape = g.add("Shape", [x])[0]
    first = g.add("Gather", [shape, g.ints(0)], axis=0)[0]
    target = g.add("Concat", [first, g.constant(np.array([-1], np.int64))], axis=0)[0]
    g.add("Reshape", [x, target])
