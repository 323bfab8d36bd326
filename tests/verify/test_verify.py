"""Comparison with the oracles: ``rillet.verify`` and ``rillet verify``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

pytest.importorskip("onnxruntime")

import rillet
from rillet.cli import main
from rillet.driver.compile import compile
from rillet.frontends.onnx.model import OnnxModel
from rillet.frontends.onnx.verification import oracles
from rillet.verify import bisect, verify
from rillet.verify.difference import difference

_MODEL = parser.parse_model(
    """<ir_version: 8, opset_import: ["" : 18]> g (float[N,8] x, float[8] b) => (float[N,8] y)
    { t = Add(x, b)  u = Tanh(t)  v = Mul(u, t)  w = Softmax(v)  y = Sqrt(w) }"""
)


@pytest.fixture
def wrong_tanh(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler with a defect: every Tanh is compiled as a Sigmoid."""
    real = compile

    def broken(model: OnnxModel, **options: Any) -> Any:
        changed = onnx.ModelProto()
        changed.CopyFrom(model.proto)
        for node in changed.graph.node:
            if node.op_type == "Tanh":
                node.op_type = "Sigmoid"
        return real(OnnxModel(changed, model.shapes), **options)

    monkeypatch.setattr("rillet.driver.compile.compile", broken)


def test_agreement() -> None:
    report = verify(_MODEL)
    assert report.agrees
    assert report.first is None
    assert [f.value for f in report.layers] == ["t", "u", "v", "w"]
    assert not report.missing
    assert all(d.max_ulp < 64 for f in report.outputs for d in f.differences.values())


def test_both_oracles_know_quantization_of_earlier_opsets() -> None:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 13]> g (float[N,8] x) => (float[N,8] y)
        <float s = {0.1}, int8 z = {3}> { q = QuantizeLinear(x, s, z)  y = DequantizeLinear(q, s, z) }"""
    )
    report = verify(model)
    assert report.agrees and not report.missing


def _set(model: onnx.ModelProto, initializer: str, array: np.ndarray) -> None:
    kept = [tensor for tensor in model.graph.initializer if tensor.name != initializer]
    del model.graph.initializer[:]
    model.graph.initializer.extend([*kept, onnx.numpy_helper.from_array(array, initializer)])


_QUANTIZED = parser.parse_model(
    """<ir_version: 8, opset_import: ["" : 17]> g (float[8,8] x) => (float[8,4] y)
    <float s = {0.25}, uint8 z = {100}, float t = {0.03125}>
    { a = Mul(x, t)  q = QuantizeLinear(a, s, z)  d = DequantizeLinear(q, s, z)  m = MatMul(d, w)
      p = QuantizeLinear(m, s, z)  y = DequantizeLinear(p, s, z) }"""
)
_set(_QUANTIZED, "w", np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4))
_TIES = {"x": (np.arange(64, dtype=np.float32).reshape(8, 8) - 20.5) * 8}  # quotients of one half


def _compiled_with(monkeypatch: pytest.MonkeyPatch, initializer: str, array: np.ndarray) -> None:
    """A compiler that has another value for an initializer."""
    real = compile

    def broken(model: OnnxModel, **options: Any) -> Any:
        changed = onnx.ModelProto()
        changed.CopyFrom(model.proto)
        _set(changed, initializer, array)
        return real(OnnxModel(changed, model.shapes), **options)

    monkeypatch.setattr("rillet.driver.compile.compile", broken)


def test_a_step_at_a_tie_and_what_follows_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scale one place lower rounds every other tie up instead of to the even integer."""
    _compiled_with(monkeypatch, "t", np.nextafter(np.float32(0.03125), np.float32(1)))
    report = verify(_QUANTIZED, feeds=_TIES)
    why = {f.value: f.explanation for f in (*report.layers, *report.outputs)}
    assert report.agrees
    assert "tie of the rounding" in why["q"]
    assert "differ by a step of quantization before" in why["d"] and "differ by a step" in why["y"]
    assert report.as_dict()["layers"][1]["explanation"] == why["q"] and not why["a"]


@pytest.mark.parametrize(
    ("initializer", "array", "first"),
    [
        ("z", np.uint8(101), "q"),  # one step everywhere
        ("t", np.float32(0.0314), "a"),
        ("s", np.float32(0.2501), "d"),  # the quotients are ties, but not what becomes of the integers
        ("w", np.linspace(-1, 1.01, 32, dtype=np.float32).reshape(8, 4), "m"),
    ],
)
def test_other_differences_of_quantized_models_depart(
    initializer: str, array: np.ndarray, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _compiled_with(monkeypatch, initializer, np.asarray(array))
    report = verify(_QUANTIZED, feeds=_TIES)
    assert not report.agrees
    assert report.first is not None and report.first.value == first


def test_a_defect_behind_a_step_departs(monkeypatch: pytest.MonkeyPatch) -> None:
    _compiled_with(monkeypatch, "t", np.nextafter(np.float32(0.03125), np.float32(1)))
    _compiled_with(monkeypatch, "w", np.linspace(-1, 1.01, 32, dtype=np.float32).reshape(8, 4))
    report = verify(_QUANTIZED, feeds=_TIES)
    assert report.first is not None and report.first.value == "m"


@pytest.mark.parametrize("off", [1.0 + 1e-6, 1.01])
def test_integer_operators_are_judged_by_their_quotient(off: float, monkeypatch: pytest.MonkeyPatch) -> None:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (uint8[16,4] x) => (uint8[16,4] y)
        <float s = {0.5}, uint8 z = {7}, float t = {1.0}, int8 u = {0}>
        { y = QLinearMatMul(x, s, z, w, s, u, t, z) }"""
    )
    _set(model, "w", np.diag([2, 2, 6, 10]).astype(np.int8))
    _compiled_with(monkeypatch, "t", np.asarray(np.float32(1 / off)))
    report = verify(model, feeds={"x": np.arange(64, dtype=np.uint8).reshape(16, 4)})
    assert report.agrees == (off < 1.001)
    assert report.outputs[0].explanation.endswith("at a tie of the rounding") == report.agrees


def test_first_departure(wrong_tanh: None) -> None:
    report = verify(_MODEL, seed=3)
    assert not report.agrees
    assert report.first is not None
    assert (report.first.op, report.first.value) == ("Tanh", "u")
    assert report.first.differences["reference"].max_abs > 0.1


def test_bisection(wrong_tanh: None) -> None:
    report = verify(_MODEL)
    part, feeds = bisect(OnnxModel(_MODEL), report.feeds, report.outputs[0])
    assert {n.op_type for n in part.proto.graph.node} >= {"Tanh"}
    found = verify(_MODEL).first
    assert found is not None
    part, feeds = bisect(OnnxModel(_MODEL), report.feeds, found)
    assert [n.op_type for n in part.proto.graph.node] == ["Tanh"]
    assert list(feeds) == ["t"]
    onnx.checker.check_model(part.proto)


def test_oracles_that_disagree(monkeypatch: pytest.MonkeyPatch) -> None:
    def shifted(model: onnx.ModelProto, feeds: Any, outputs: Any = None) -> dict[str, Any]:
        return {n: a + 1 for n, a in oracles.run_reference(model, feeds, outputs).items()}

    monkeypatch.setitem(oracles.ORACLES, "reference", shifted)
    report = verify(_MODEL)
    assert report.agrees
    assert all(f.oracles_disagree for f in report.layers)


def test_given_inputs_and_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, array = tmp_path / "m.onnx", tmp_path / "x.npy"
    onnx.save(_MODEL, path)
    np.save(array, np.ones((3, 8), np.float32))
    assert main(["verify", str(path), "--input", f"x={array}", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["agrees"] is True
    assert facts["first"] is None
    assert main(["verify", str(path), "--shape", "x=2x8", "--outputs-only"]) == 0
    assert "all agree" in capsys.readouterr().out
    assert main(["verify", str(path), "--input", f"z={array}"]) == 1
    assert "the model has no input z" in capsys.readouterr().err


def test_command_line_writes_the_part(wrong_tanh: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, part = tmp_path / "m.onnx", tmp_path / "part.onnx"
    onnx.save(_MODEL, path)
    assert main(["verify", str(path), "--bisect", str(part)]) == 1
    assert "first departure: Tanh" in capsys.readouterr().out
    assert [n.op_type for n in onnx.load(part).graph.node] == ["Tanh"]
    assert list(np.load(f"{part}.npz")) == ["t"]


def test_onnxruntime_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracles, "find_spec", lambda name: None)
    report = verify(_MODEL, layers=False)
    assert report.agrees
    assert "ONNX Runtime is not installed" in report.missing["onnxruntime"]


@pytest.mark.parametrize(
    ("code", "death"),
    [
        ("os.abort()", "died (SIGABRT) of this model"),
        ("os.kill(os.getpid(), 9)", "died (SIGKILL, as happens where memory runs out) of this model"),
        ("os._exit(3)", "ended with status 3 of this model"),
    ],
)
def test_an_oracle_that_dies_costs_its_values_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str, death: str
) -> None:
    (tmp_path / "dying_worker.py").write_text(
        f"""
import os
from rillet.frontends.onnx.verification import worker
from rillet.support import worker_process
def answer(oracle, *request):
    if oracle == "ONNX Runtime":
        {code}
    return worker.answer(oracle, *request)
worker_process.serve(answer)
"""
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(oracles, "_WORKER", "dying_worker")
    monkeypatch.setattr(oracles, "_PROCESS", process := oracles._Process())
    report = verify(_MODEL)
    process.close()
    assert report.agrees and [f.value for f in report.layers] == ["t", "u", "v", "w"]
    assert report.missing == {"onnxruntime": f"ONNX Runtime {death}"}
    assert all(set(f.differences) == {"reference"} for f in report.outputs)


def test_no_oracle_runs_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> dict[str, Any]:
        raise oracles.OracleError("not today")

    for name in list(oracles.ORACLES):
        monkeypatch.setitem(oracles.ORACLES, name, refuse)
    with pytest.raises(rillet.RilletError, match="no oracle runs the model: not today"):
        verify(_MODEL)


@pytest.mark.parametrize(
    "expected",
    [np.array(["a", "bc"]), np.array(["a", "bc"], object), np.array([b"a", b"bc"]), np.array([b"a", b"bc"], object)],
)
def test_strings_are_compared_by_value(expected: np.ndarray) -> None:
    assert difference(np.array(["a", "bc"], object), expected).agrees
    assert difference(np.array(["a", "b"], object), expected).reason == "other values"


def test_maps_are_compared_by_their_values() -> None:
    expected = [{"a": 0.25, "b": 0.75}, {"a": 1.0, "b": 0.0}]
    near = [{"b": 0.7500001, "a": 0.25}, {"a": 1.0, "b": 0.0}]
    assert difference(near, expected).agrees
    assert difference([{"a": 0.5, "b": 0.5}, expected[1]], expected).reason == "values differ"
    assert not difference([{"a": 0.25, "c": 0.75}, expected[1]], expected).agrees


def test_the_part_of_a_model_of_strings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What both oracles get wrong on purpose departs, and the inputs that show it load without pickle."""
    model = parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 20]> g (string[2] x, string[2] y) => (string[2] z)
        { z = StringConcat(x, y) }"""
    )
    path, part = tmp_path / "m.onnx", tmp_path / "part.onnx"
    onnx.save(model, path)
    assert main(["verify", str(path)]) == 0
    for name in list(oracles.ORACLES):
        monkeypatch.setitem(oracles.ORACLES, name, lambda *_: {"z": np.array(["other", "words"])})
    assert main(["verify", str(path), "--bisect", str(part)]) == 1
    feeds = np.load(f"{part}.npz")
    assert sorted(feeds) == ["x", "y"] and feeds["x"].dtype.kind == "U"


def test_a_part_that_cannot_be_written_is_named_first(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "empty.onnx").touch()
    assert main(["verify", str(tmp_path / "empty.onnx"), "--bisect", str(tmp_path / "none" / "part.onnx")]) == 1
    assert f"there is no folder {tmp_path / 'none'}" in capsys.readouterr().err
