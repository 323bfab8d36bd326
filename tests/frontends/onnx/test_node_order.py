"""Nodes in another order than they run in, as several tools write them."""

from __future__ import annotations

import random

import numpy as np
import onnx
import pytest
from onnx import parser

import rillet
from rillet.frontends.onnx.loader import load_model
from rillet.frontends.onnx.node_order import is_sorted, sort_nodes

X = np.arange(4, dtype=np.float32)
GRAPH = """<ir_version: 8, opset_import: ["" : 18, "l" : 1]> g (float[4] x, bool c) => (float[4] y) {
    y = Mul(u, v)
    v = If(c) <then_branch = a () => (float[4] p) { p = Neg(q)  q = Abs(t) },
              else_branch = b () => (float[4] r) { r = Identity(u) }>
    u = l.f(t)
    t = Add(x, x)
    }
    <domain: "l", opset_import: ["" : 18]> f (a) => (c) { c = Exp(b)  b = Neg(a) }"""


@pytest.mark.parametrize("as_bytes", [False, True])
def test_graphs_subgraphs_and_functions_are_sorted(as_bytes: bool) -> None:
    model = parser.parse_model(GRAPH)
    before = model.SerializeToString()
    module = rillet.compile(before if as_bytes else model, threads=1)
    assert model.SerializeToString() == before  # the caller's model stays as it is
    u = np.exp(-2 * X)
    np.testing.assert_allclose(module(X, np.array(True)), u * -np.abs(2 * X), rtol=1e-6)
    np.testing.assert_allclose(module(X, np.array(False)), u * u, rtol=1e-6)


def test_what_a_subgraph_reads_comes_first() -> None:
    model = load_model(parser.parse_model(GRAPH))
    assert [n.op_type for n in model.graph.node] == ["Add", "f", "If", "Mul"]
    assert [n.op_type for n in model.functions[0].node] == ["Neg", "Exp"]
    assert [n.op_type for n in model.graph.node[2].attribute[0].g.node] == ["Abs", "Neg"]


def test_nodes_keep_their_order_where_they_can() -> None:
    text = """<ir_version: 8, opset_import: ["" : 18]> g (float[4] x) => (float[4] y, float[4] z) {
    z = Neg(x)  y = Add(d, b)  a = Abs(x)  b = Exp(a)  c = Sqrt(x)  d = Log(c) }"""
    graph = parser.parse_model(text).graph
    assert not is_sorted(graph)
    sort_nodes(graph)
    assert [n.output[0] for n in graph.node] == ["z", "c", "d", "a", "b", "y"]
    assert is_sorted(graph)


def test_a_sorted_model_is_not_copied() -> None:
    model = load_model(parser.parse_model(GRAPH))
    assert load_model(model) is model


def test_many_nodes_backwards() -> None:
    graph = onnx.GraphProto(name="g")
    for i in reversed(range(5000)):
        graph.node.add(op_type="Neg", input=[f"t{i}"], output=[f"t{i + 1}"])
    sort_nodes(graph)
    assert [n.input[0] for n in graph.node] == [f"t{i}" for i in range(5000)]
    nodes = list(graph.node)
    random.Random(0).shuffle(nodes)
    del graph.node[:]
    graph.node.extend(nodes)
    sort_nodes(graph)
    assert is_sorted(graph) and len(graph.node) == 5000
