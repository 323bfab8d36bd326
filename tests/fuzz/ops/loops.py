"""Loops that data ends, states that grow, control flow in control flow, scans along any axis."""

from __future__ import annotations

import numpy as np
from onnx import helper

from tests.fuzz.maker import Maker, Stuck, Value
from tests.fuzz.ops.control import condition, info, step
from tests.fuzz.ops.registry import applies


def _header(g: Maker) -> tuple[Value, Value, Value]:
    """A body's iteration number, and its condition before and after."""
    return Value(g.name("i"), "int64", ()), Value(g.name("b"), "bool", ()), Value(g.name("b"), "bool", ())


@applies(0.7)
def loop_until(g: Maker) -> None:
    """The largest element of a growing state ends the loop, or a number of trips does."""
    x = g.number(g.value(("float32", "float64"), 0, 3))
    g.filled(*x.dims)
    number, going, still = _header(g)
    state, grown, largest = (Value(g.name("s"), x.dtype, d) for d in (x.dims, x.dims, ()))
    one, limit = g.scalar(1, x.dtype), g.scalar(g.one_of([0.5, 3, 6]), x.dtype)
    nodes = [
        helper.make_node("Add", [state.name, one.name], [grown.name], g.name("n")),
        helper.make_node("ReduceMax", [grown.name], [largest.name], g.name("n"), keepdims=0),
        helper.make_node("Less", [largest.name, limit.name], [still.name], g.name("n")),
    ]
    outputs, results = [still, grown], [(x.dtype, x.dims)]
    if g.chance(0.5):
        outputs.append(largest)
        results.append((x.dtype, (g.name("?"),)))
    body = helper.make_graph(nodes, "body", [info(v) for v in (number, going, state)], [info(v) for v in outputs])
    g.append("Loop", [g.constant(np.asarray(7, np.int64)), g.constant(np.asarray(True)), x], results, body=body)


@applies(0.5)
def loop_growing(g: Maker) -> None:
    """Each trip appends rows to the state, whose extent changes."""
    x = g.floating(1, 3)
    row = g.data(x.dtype, (1, *x.dims[1:]))
    count = g.integer(0, 3)
    number, going, still = _header(g)
    open_ = (g.name("?"), *x.dims[1:])
    state, longer = Value(g.name("s"), x.dtype, open_), Value(g.name("s"), x.dtype, open_)
    nodes = [
        helper.make_node("Identity", [going.name], [still.name], g.name("n")),
        helper.make_node("Concat", [state.name, row.name], [longer.name], g.name("n"), axis=0),
    ]
    body = helper.make_graph(
        nodes, "body", [info(v) for v in (number, going, state)], [info(v) for v in (still, longer)]
    )
    trips = g.constant(np.asarray(count, np.int64))
    g.append("Loop", [trips, g.constant(np.asarray(True)), x], [(x.dtype, (g.name("?"), *x.dims[1:]))], body=body)


@applies(0.7)
def choice_in_loop(g: Maker) -> None:
    """An If in a Loop; what it does depends on the trip or on a value outside."""
    x = g.floating(0, 3)
    number, going, still = _header(g)
    state, result = Value(g.name("s"), x.dtype, x.dims), Value(g.name("s"), x.dtype, x.dims)
    branches = []
    for name in ("then", "else"):
        node, made = step(g, state, g.data(x.dtype, x.dims[g.integer(0, x.rank) :]))
        branches.append(helper.make_graph([node], name, [], [info(made)]))
    nodes = [helper.make_node("Identity", [going.name], [still.name], g.name("n"))]
    if g.chance(0.5):
        decided = condition(g).name
    else:
        decided = g.name("b")
        nodes.append(helper.make_node("Less", [number.name, g.scalar(1, "int64").name], [decided], g.name("n")))
    nodes.append(
        helper.make_node("If", [decided], [result.name], g.name("n"), then_branch=branches[0], else_branch=branches[1])
    )
    body = helper.make_graph(
        nodes, "body", [info(v) for v in (number, going, state)], [info(v) for v in (still, result)]
    )
    trips = g.constant(np.asarray(g.integer(0, 3), np.int64))
    g.append("Loop", [trips, g.constant(np.asarray(True)), x], [(x.dtype, x.dims)], body=body)


@applies(0.7)
def if_of_other_extents(g: Maker) -> None:
    """One branch doubles an axis."""
    x = g.floating(1, 3)
    axis = g.integer(0, x.rank - 1)
    dims = (*x.dims[:axis], g.name("?"), *x.dims[axis + 1 :])
    made = [Value(g.name("s"), x.dtype, dims) for _ in range(2)]
    nodes = [
        helper.make_node("Concat", [x.name, x.name], [made[0].name], g.name("n"), axis=axis),
        helper.make_node(g.one_of(["Neg", "Identity"]), [x.name], [made[1].name], g.name("n")),
    ]
    branches = [
        helper.make_graph([n], name, [], [info(v)]) for n, name, v in zip(nodes, ("then", "else"), made, strict=True)
    ]
    g.append("If", [condition(g)], [(x.dtype, dims)], then_branch=branches[0], else_branch=branches[1])


@applies(0.7)
def scan_along(g: Maker) -> None:
    """Two inputs, each along its own axis and in its own direction."""
    x = g.floating(1, 3)
    axis = g.integer(0, x.rank - 1)
    count, row = x.dims[axis], (*x.dims[:axis], *x.dims[axis + 1 :])
    g.filled(count)
    if any(isinstance(d, str) for d in (*row, count)):
        raise Stuck
    y = g.data(x.dtype, (count, *row))
    first, second, state = (Value(g.name("s"), x.dtype, row) for _ in range(3))
    node, added = step(g, first, second)
    other, result = step(g, state, added)
    body = helper.make_graph(
        [node, other], "body", [info(v) for v in (state, first, second)], [info(result), info(added)]
    )
    out = g.integer(0, len(row))
    g.append(
        "Scan",
        [g.data(x.dtype, row), x, y],
        [(x.dtype, row), (x.dtype, (*row[:out], count, *row[out:]))],
        body=body,
        num_scan_inputs=2,
        scan_input_axes=[axis, 0],
        scan_input_directions=[g.integer(0, 1), g.integer(0, 1)],
        scan_output_axes=[out],
        scan_output_directions=[g.integer(0, 1)],
    )
