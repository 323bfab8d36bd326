"""Reductions, normalizations and what works along an axis."""

from __future__ import annotations

import numpy as np

from tests.fuzz.maker import FLOATS, Maker, Stuck, np_type
from tests.fuzz.ops.registry import applies

_REDUCTIONS = (
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
    "ReduceLogSumExp",
    "ReduceLogSum",
)


@applies(5)
def reduce(g: Maker) -> None:
    x = g.floating() if g.chance(0.85) else g.value(("int32", "int64"))
    axes = sorted({int(a) for a in g.rng.integers(0, max(x.rank, 1), g.integer(0, 2))}) if x.rank else []
    axes = [a - x.rank if g.chance(0.3) else a for a in axes]
    ops = _REDUCTIONS if x.is_float else ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"]
    if x.dtype == "bfloat16":
        ops = ["ReduceMax", "ReduceMin"]  # the reference evaluator, alone with it, rounds each partial sum
    attributes = {"keepdims": g.integer(0, 1)}
    if not axes and g.chance(0.3):
        attributes["noop_with_empty_axes"] = 1
    op = g.one_of(ops)
    if op == "ReduceMean":
        g.filled(*x.dims)
    g.add(op, [x, g.ints(*axes)] if axes else [x], **attributes)


@applies(1.5)
def arg_reduce(g: Maker) -> None:
    x = g.value((*FLOATS, "int32"), 1)
    g.add(
        g.one_of(["ArgMax", "ArgMin"]),
        [g.number(x) if x.is_float else x],
        axis=g.axis(x),
        keepdims=g.integer(0, 1),
        select_last_index=g.integer(0, 1),
    )


@applies(3)
def row_wise(g: Maker) -> None:
    x = g.floating(1)
    op = g.one_of(["Softmax", "Softmax", "LogSoftmax", "Hardmax", "CumSum", "LpNormalization"])
    if op == "LogSoftmax" and x.dtype == "bfloat16":
        op = "Softmax"  # the reference evaluator, alone with it, takes logarithms of rounded shares
    if op == "CumSum":
        axis = g.constant(np.asarray(g.axis(x), np.int64))
        g.add(op, [x, axis], exclusive=g.integer(0, 1), reverse=g.integer(0, 1))
    elif op == "LpNormalization":
        p = g.integer(1, 2)  # of signed numbers with p=1, the reference evaluator takes the sum
        g.add(op, [g.add("Abs", [x])[0] if p == 1 else x], axis=g.axis(x), p=p)
    else:
        g.add(op, [g.number(x) if op == "Hardmax" else x], axis=g.axis(x))


@applies(2)
def normalization(g: Maker) -> None:
    # Of float64, the specification computes the statistics in float32 and both oracles in float64.
    x = g.value(("float32", "float16"), 1)
    axis = g.integer(0, x.rank - 1)
    if not all(isinstance(d, int) for d in x.dims[axis:]):
        axis = g.fixed_axis(x)
        if axis != x.rank - 1:
            raise Stuck
    scale = g.data(x.dtype, x.dims[axis:])
    g.add("LayerNormalization", [x, scale, g.data(x.dtype, x.dims[axis:])][: g.integer(2, 3)], axis=axis)


@applies(2)
def channel_normalization(g: Maker) -> None:
    x = g.floating(2, 5)
    channels = x.dims[1]
    if not isinstance(channels, int) or not channels:
        raise Stuck
    op = g.one_of(["BatchNormalization", "InstanceNormalization", "GroupNormalization", "LRN"])
    scale, bias = g.data(x.dtype, [channels]), g.data(x.dtype, [channels])
    if op == "BatchNormalization":
        variance = g.constant(np.abs(g.rng.standard_normal(channels)).astype(np_type(x.dtype)) + 1)
        g.add(op, [x, scale, bias, g.data(x.dtype, [channels]), variance])
    elif op == "GroupNormalization":
        groups = g.one_of([n for n in range(1, channels + 1) if channels % n == 0])
        g.add(op, [x, scale, bias], num_groups=groups)
    elif op == "LRN":
        if x.dtype != "float32":
            raise Stuck  # the reference evaluator, alone with it, is wrong for batches
        g.add(op, [x], size=g.one_of([1, 3]))  # of even sizes, implementations do not agree
    elif x.rank > 2:
        g.add(op, [x, scale, bias])


@applies(1.5)
def top_k(g: Maker) -> None:
    x = g.floating(1, 4)
    axis = g.fixed_axis(x)
    k = g.ints(g.integer(1, int(x.dims[axis])))
    x = g.number(x)  # how NaN is ordered is not specified
    if g.chance(0.4):
        x = g.add("Round", [x])[0]  # ties: the first ones are taken, in order
    values = g.add("TopK", [x, k], 2, axis=axis, largest=g.integer(0, 1))
    g.values.remove(values[1]) if g.chance(0.3) else None
