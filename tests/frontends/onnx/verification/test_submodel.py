"""The part of a model that computes some of its values from others."""

from __future__ import annotations

from onnx import parser

from rillet.frontends.onnx.verification.submodel import submodel


def test_submodel_keeps_what_subgraphs_read() -> None:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 18]> g (float[4] x, bool c) => (float[4] y) { a = Neg(x)  b = Abs(x)
        y = If(c) <then_branch = p () => (float[4] u) { u = Exp(a) },
        else_branch = q () => (float[4] v) { v = Log(b) }> }"""
    )
    part = submodel(model, ["y"], ["b"])
    assert [n.op_type for n in part.graph.node] == ["Neg", "If"]
    assert [i.name for i in part.graph.input] == ["x", "c", "b"]
