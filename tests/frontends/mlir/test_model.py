"""MLIR as a model: inputs, pinned shapes, what it says about itself."""

from __future__ import annotations

import numpy as np
import pytest

import rillet
from rillet.frontends.mlir import text
from rillet.frontends.registry import open_model

_MATMUL = """
func.func @main(%a: tensor<?x3xf32> {rillet.name = "x", rillet.dims = ["N", "3"]}) -> tensor<?x2xf32> {
  %zero = arith.constant 0.0 : f32
  %axis = arith.constant 0 : index
  %w = arith.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>
  %n = tensor.dim %a, %axis : tensor<?x3xf32>
  %e = tensor.empty(%n) : tensor<?x2xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<?x2xf32>) -> tensor<?x2xf32>
  %0 = linalg.matmul ins(%a, %w : tensor<?x3xf32>, tensor<3x2xf32>) outs(%init : tensor<?x2xf32>) -> tensor<?x2xf32>
  return %0 : tensor<?x2xf32>
}"""
_X = np.arange(12, dtype=np.float32).reshape(4, 3)


def _elementwise(op: str) -> str:
    return f"func.func @main(%a: tensor<?x3xf32>) -> tensor<?x3xf32> {{\n %0 = {op}\n return %0 : tensor<?x3xf32>\n}}"


def test_inputs_are_known_by_their_names() -> None:
    (spec,) = open_model(_MATMUL).inputs
    assert (spec.name, spec.dtype, spec.dims) == ("x", "float32", ("N", 3))
    (unnamed,) = open_model(_elementwise("tensor.cast %a : tensor<?x3xf32> to tensor<?x3xf32>")).inputs
    assert (unnamed.name, unnamed.dims) == ("argument0", ("argument0_0", 3))


def test_a_module_calls_dimensions_as_the_model_does() -> None:
    module = rillet.compile(_elementwise("stablehlo.abs %a : tensor<?x3xf32>"), threads=1)
    assert module.inputs[0].shape == ("argument0_0", 3)


@pytest.mark.parametrize("options", [{"inputs": {"x": (4, 3)}}, {"dims": {"N": 4}}])
def test_pinned_shapes_are_static(options: dict) -> None:
    module = rillet.compile(_MATMUL, threads=1, **options)
    assert [spec.shape for spec in (*module.inputs, *module.outputs)] == [(4, 3), (4, 2)]
    assert module.stats["macs"] == 24
    np.testing.assert_allclose(module(_X), _X @ np.arange(1, 7, dtype=np.float32).reshape(3, 2))


@pytest.mark.parametrize(
    "op",
    [
        "stablehlo.abs %a : tensor<?x3xf32>",
        "tosa.abs %a : (tensor<?x3xf32>) -> tensor<?x3xf32>",
    ],
)
def test_shapes_of_every_dialect_are_pinned(op: str) -> None:
    module = rillet.compile(_elementwise(op), dims={"argument0_0": 4}, threads=1)
    assert module.inputs[0].shape == (4, 3)
    np.testing.assert_array_equal(module(-_X), _X)


def test_pinning_leaves_the_model_as_it_is() -> None:
    model = open_model(_MATMUL)
    pinned = model.pinned({"x": ("rows", 3)}, {"rows": 2})
    assert pinned.inputs[0].dims == (2, 3) and model.inputs[0].dims == ("N", 3)
    assert "tensor<2x3xf32>" in str(pinned.program().module)
    assert "tensor<?x3xf32>" in str(model.program().module)
    assert pinned.survey() == model.survey()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inputs": {"y": (1, 3)}}, "the model has no input 'y'; its inputs are: x"),
        ({"inputs": {"x": (1, 4)}}, "a fixed size in dimension 1"),
        ({"inputs": {"x": (1, "k")}}, "has the size 3 in dimension 1, which the MLIR text relies on"),
        ({"dims": {"M": 1}}, "the model has no dimension of this name; its dynamic dimensions: N"),
        ({"values": {"x": _X}}, "values= is not for MLIR: make the inputs constants of the function instead"),
    ],
)
def test_what_cannot_be_pinned_is_named(options: dict, message: str) -> None:
    with pytest.raises(rillet.CompileError, match=message):
        rillet.compile(_MATMUL, **options)


def test_the_text_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []
    real = text.parse
    monkeypatch.setattr(text, "parse", lambda source: parsed.append(source) or real(source))
    rillet.compile(_MATMUL, dims={"N": 4}, threads=1)
    assert rillet.check(_MATMUL, dims={"N": 4}).macs == 24
    assert parsed == [_MATMUL] * 2


def test_the_survey_is_of_the_ops_as_they_stand_there() -> None:
    report = rillet.check(_MATMUL)
    assert report.supported and report.weight_bytes == 24
    assert {op.op: op.count for op in report.ops} == {
        "arith.constant": 3,
        "linalg.fill": 1,
        "linalg.matmul": 1,
        "tensor.dim": 1,
        "tensor.empty": 1,
    }
    assert next(op for op in report.ops if op.op == "linalg.matmul").dtypes == ("float32",)
    assert report.dynamic_dimensions == ("N",) and report.arena_bytes is not None
    assert report.inputs == {"x": ["N", 3]} and report.outputs == ["result0"]


def test_foreign_ops_are_in_the_report() -> None:
    text = """
func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "acme.strange"(%a) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "acme.strange"(%0) : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}"""
    report = rillet.check(text)
    assert not report.supported and report.macs is None
    (op,) = report.ops
    assert (op.op, op.count, op.unsupported) == ("acme.strange", 2, 2)
