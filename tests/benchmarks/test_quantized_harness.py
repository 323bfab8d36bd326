"""The benchmark of quantized models: the files that it makes, its rows and its exit status."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import models
from benchmarks import quantized, quantized_models, report, run
from benchmarks.engines import ENGINES

OPTIONS = ["--threads", "1", "--seconds", "0.01", "--rounds", "1", "--json"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RILLET_CACHE", str(tmp_path))
    monkeypatch.setattr(quantized.machine, "describe", lambda threads: {"cpu": "test"})


@pytest.fixture
def in_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile here and leave out the figures of fresh processes."""

    def compile_facts(engine: str, model: Path, folder: Path) -> dict[str, str]:
        return {"artifact": str(ENGINES[engine].compile(model, folder))}

    monkeypatch.setattr(run, "compile_facts", compile_facts)
    monkeypatch.setattr(run, "load_facts", lambda *arguments: {})


@pytest.mark.parametrize(
    ("scheme", "operator", "dtype"),
    [("s8", "QuantizeLinear", np.int8), ("u8", "QuantizeLinear", np.uint8), ("dynamic", "MatMulInteger", None)],
)
def test_each_scheme_makes_its_operators_once(scheme: str, operator: str, dtype: type | None) -> None:
    path = quantized_models.path("fc_autoencoder", scheme)
    graph = onnx.load(path).graph
    nodes = [node for node in graph.node if node.op_type == operator]
    assert nodes
    zeros = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    assert dtype is None or zeros[nodes[0].input[2]].dtype == dtype
    before = path.stat().st_mtime_ns
    assert quantized_models.path("fc_autoencoder", scheme) == path and path.stat().st_mtime_ns == before


def test_rillet_and_peers_are_measured_on_the_same_file(
    in_this_process: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert quantized.main([*OPTIONS, "--models", "fc_autoencoder:u8", "nope:u8", "ds_cnn:u7"]) == 0
    result = json.loads(capsys.readouterr().out)
    rows = {row["engine"]: row for row in result["rows"]}
    assert list(rows) == ["rillet", "ort", "f32"]
    assert all(row["min_s"] > 0 and row["reference"] == "onnx's reference evaluator" for row in rows.values())
    # One step of the result is 0.4 % of its range; without quantization it is another result.
    assert rows["rillet"]["deviation"] < 0.01 < rows["f32"]["deviation"]
    assert "0.4" not in report.table([rows["f32"]]) and "%" in report.table([rows["f32"]])
    assert any("unknown model 'nope'" in note for note in result["notes"])
    assert any("unknown scheme 'u7'; known are s8, u8, qop, dynamic" in note for note in result["notes"])


def test_a_failure_of_rillet_fails_the_run(
    in_this_process: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def facts(engine: str, model: Path, folder: Path) -> dict[str, str]:
        return {"error": "no such thing"}

    monkeypatch.setattr(run, "compile_facts", facts)
    assert quantized.main([*OPTIONS, "--models", "fc_autoencoder:u8", "--peers"]) == 1
    assert "no such thing" in capsys.readouterr().out


def test_deviation_is_relative_to_the_largest_magnitude() -> None:
    expected = [np.array([4.0, -8.0]), np.array([1, 2], np.uint8)]
    assert quantized.deviation([np.array([4.0, -7.0]), np.array([1, 2], np.uint8)], expected) == 1 / 8
    assert quantized.deviation(expected, expected) == 0
    assert quantized.deviation([np.zeros(3)], [np.zeros(2)]) == float("inf")


def test_a_quantized_file_belongs_to_its_source(tmp_path: Path) -> None:
    path = quantized_models.path("fc_autoencoder", "dynamic")
    assert path.parent.parent == models.path("fc_autoencoder").parent
