"""Sequences of tensors, made and taken apart within the graph."""

from __future__ import annotations

import numpy as np

from tests.fuzz.maker import Maker, Stuck, Value
from tests.fuzz.ops.registry import applies


def _position(g: Maker, low: int, high: int) -> Value:
    return g.constant(np.asarray(g.integer(low, high), np.int64))


@applies(1)
def sequence(g: Maker) -> None:
    """Some tensors of one shape, one inserted or erased; one of them, all joined, or their number is the result."""
    x = g.value(("float32", "float64", "int64", "bool"), 1, 4)
    same = [v for v in g.values if v.dtype == x.dtype and v.dims == x.dims]
    count = g.integer(1, 3)
    name = g.hidden("SequenceConstruct", [g.one_of(same) for _ in range(count)])
    if g.chance(0.5):
        name = g.hidden("SequenceInsert", [name, x, *([_position(g, -count, count)] if g.chance(0.7) else [])])
        count += 1
    if count > 1 and g.chance(0.4):
        name = g.hidden("SequenceErase", [name, *([_position(g, -count, count - 1)] if g.chance(0.7) else [])])
        count -= 1
    choice = g.integer(0, 3)
    if choice == 0:
        g.append("SequenceAt", [name, _position(g, -count, count - 1)], [(x.dtype, x.dims)])
    elif choice == 1:
        g.append("SequenceLength", [name], [("int64", ())])
    elif choice == 2:
        axis = g.integer(0, x.rank)
        g.append(
            "ConcatFromSequence", [name], [(x.dtype, (*x.dims[:axis], count, *x.dims[axis:]))], axis=axis, new_axis=1
        )
    else:
        axis = g.integer(0, x.rank - 1)
        extent = x.dims[axis]
        joined = extent * count if isinstance(extent, int) else g.name("?")
        g.append("ConcatFromSequence", [name], [(x.dtype, (*x.dims[:axis], joined, *x.dims[axis + 1 :]))], axis=axis)


@applies(0.7)
def split_to_sequence(g: Maker) -> None:
    x = g.value(("float32", "float64", "int64"), 1, 4)
    axis = g.fixed_axis(x)
    extent = int(x.dims[axis])
    size = g.integer(1, extent)
    count = -(-extent // size)
    name = g.hidden("SplitToSequence", [x, g.constant(np.asarray(size, np.int64))], axis=axis)
    taken = g.integer(0, count - 1)
    part = min(size, extent - taken * size)
    if part < 1:
        raise Stuck
    g.append(
        "SequenceAt",
        [name, g.constant(np.asarray(taken, np.int64))],
        [(x.dtype, (*x.dims[:axis], part, *x.dims[axis + 1 :]))],
    )
