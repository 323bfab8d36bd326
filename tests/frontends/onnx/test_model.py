"""ONNX as a model: it is parsed once, and keeps the shapes that it is given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

import rillet
from rillet.frontends.onnx import loader
from rillet.frontends.onnx.model import OnnxModel
from rillet.frontends.registry import open_model

_MODEL = parser.parse_model(
    """<ir_version: 8, opset_import: ["" : 18]> g (float[N,8] x, float[N,?] b) => (float[N,8] y)
    <float[1] c = {2.0}> { t = Add(x, b)  u = Mul(t, c)  y = Sqrt(u) }"""
)


@pytest.mark.parametrize("dims", [None, {"N": 2}])
def test_a_file_is_parsed_once(dims: dict[str, int] | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    onnx.save(_MODEL, tmp_path / "m.onnx")
    parsed = []
    real = loader._parse
    monkeypatch.setattr(loader, "_parse", lambda data, what: parsed.append(what) or real(data, what))
    rillet.compile(tmp_path / "m.onnx", dims=dims, threads=1)
    assert len(parsed) == 1


def test_inputs_have_the_shapes_that_are_given() -> None:
    model = open_model(_MODEL)
    assert [spec.dims for spec in model.inputs] == [("N", 8), ("N", "b_1")]
    pinned = model.pinned({"b": (-1, 8)}, {"N": 3})
    assert [spec.dims for spec in pinned.inputs] == [(3, 8), (3, 8)]
    assert [spec.dims for spec in model.inputs] == [("N", 8), ("N", "b_1")]
    assert [spec.dims for spec in model.pinned({"x": (5, 8)}, {}).inputs] == [(5, 8), (5, "b_1")]  # one dimension
    assert [spec.dims for spec in model.pinned({"x": (5, 8)}, {"N": 5}).inputs] == [(5, 8), (5, "b_1")]


def test_each_program_is_a_new_one() -> None:
    model = open_model(_MODEL)
    first, second = model.program(), model.program()
    assert str(first.module) == str(second.module) and first.module is not second.module


def test_a_part_keeps_the_shapes_of_its_inputs() -> None:
    part = OnnxModel(_MODEL, {"x": (2, 8), "b": (2, 8)}).part(["y"], ["u"], {"u": np.ones((2, 8), np.float32)})
    assert [node.op for node in part.nodes] == ["Sqrt"] and part.outputs == ("y",)
    assert [(spec.name, spec.dims) for spec in part.inputs] == [("u", ("N", 8))]
    assert OnnxModel(_MODEL, {"x": (2, 8)}).part(["t"]).inputs[0].dims == (2, 8)


def test_a_dimension_without_a_name_shares_that_of_no_other() -> None:
    text = '<ir_version: 8, opset_import: ["" : 18]> g (float[A,B] x, float[C] y) => (float[D,E] z) { z = Add(x, y) }'
    model = parser.parse_model(text)
    for info, names in zip(model.graph.input, (["?", "?"], ["x_0"]), strict=True):
        for dim, name in zip(info.type.tensor_type.shape.dim, names, strict=True):
            dim.dim_param = name
    assert [spec.dims for spec in open_model(model).inputs] == [("x_0'", "x_1"), ("x_0",)]
    module = rillet.compile(model, dims={"x_0'": 2}, threads=1)
    assert [spec.shape for spec in module.inputs] == [(2, "x_1"), ("x_0",)]
    assert module(np.ones((2, 3), np.float32), np.ones(3, np.float32)).shape == (2, 3)
