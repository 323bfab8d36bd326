"""Control flow: subgraphs that read values of the graph around them."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from tests.fuzz.maker import Maker, Stuck, Value, type_proto
from tests.fuzz.ops.registry import applies

_STEPS = ("Add", "Sub", "Mul", "Max", "Min")


def info(value: Value) -> onnx.ValueInfoProto:
    """What a body declares a value to be."""
    return helper.make_value_info(value.name, type_proto(value.dtype, value.dims))


def step(g: Maker, state: Value, other: Value) -> tuple[onnx.NodeProto, Value]:
    """(node, its result): ``state`` and a value from outside put together, of the shape of ``state``."""
    result = Value(g.name("s"), state.dtype, state.dims)
    return helper.make_node(g.one_of(_STEPS), [state.name, other.name], [result.name], g.name("n")), result


def _capture(g: Maker, x: Value) -> Value:
    """A value that broadcasts to the shape of ``x``."""
    fitting = [v for v in g.values if v.dtype == x.dtype and v.dims == x.dims]
    return g.one_of(fitting) if g.chance(0.6) else g.data(x.dtype, x.dims[g.integer(0, x.rank) :])


def condition(g: Maker) -> Value:
    """A bool scalar: of an element of a value, or an input."""
    fitting = [v for v in g.values if v.is_float and v.static and v.elements]
    if not fitting or g.chance(0.3):
        return g.input("bool", ())
    largest = g.add("ReduceMax", [g.one_of(fitting)], keepdims=0)[0]
    return g.add("Greater", [largest, g.scalar(g.one_of([-1, 0.5, 1]), largest.dtype)])[0]


@applies(1)
def if_(g: Maker) -> None:
    x = g.floating(0, 4)
    branches = []
    for name in ("then", "else"):
        node, result = step(g, x, _capture(g, x))
        branches.append(helper.make_graph([node], name, [], [info(result)]))
    g.append("If", [condition(g)], [(x.dtype, x.dims)], then_branch=branches[0], else_branch=branches[1])


@applies(1)
def loop(g: Maker) -> None:
    """A state is carried, and each iteration's is collected or not."""
    x = g.floating(0, 3)
    count = g.integer(0, 3)
    trips = g.constant(np.asarray(count, np.int64)) if g.chance(0.7) else g.add("Size", [g.value(high=1)])[0]
    if trips.constant is False:
        count = g.name("?")  # type: ignore[assignment]
    number = Value(g.name("i"), "int64", ())
    going, still = Value(g.name("b"), "bool", ()), Value(g.name("b"), "bool", ())
    state = Value(g.name("s"), x.dtype, x.dims)
    node, result = step(g, state, _capture(g, x))
    nodes = [helper.make_node("Identity", [going.name], [still.name], g.name("n")), node]
    outputs = [still, result]
    results = [(x.dtype, x.dims)]
    if g.chance(0.5):
        copy = Value(g.name("s"), x.dtype, x.dims)
        nodes.append(helper.make_node(g.one_of(["Neg", "Relu", "Identity"]), [result.name], [copy.name], g.name("n")))
        outputs.append(copy)
        results.append((x.dtype, (count, *x.dims)))
    body = helper.make_graph(nodes, "body", [info(v) for v in (number, going, state)], [info(v) for v in outputs])
    # Without a condition, the reference evaluator does not loop at all.
    g.append("Loop", [trips, g.constant(np.asarray(True)), x], results, body=body)


@applies(0.7)
def scan(g: Maker) -> None:
    x = g.floating(1, 4)
    if x.dims[0] == 0:
        raise Stuck
    row = x.dims[1:]
    state, element = Value(g.name("s"), x.dtype, row), Value(g.name("s"), x.dtype, row)
    node, result = step(g, state, element)
    copy = Value(g.name("s"), x.dtype, row)
    nodes = [node, helper.make_node("Abs", [result.name], [copy.name], g.name("n"))]
    body = helper.make_graph(nodes, "body", [info(state), info(element)], [info(result), info(copy)])
    results = [(x.dtype, row), (x.dtype, x.dims)]
    g.append("Scan", [g.data(x.dtype, row), x], results, body=body, num_scan_inputs=1)
