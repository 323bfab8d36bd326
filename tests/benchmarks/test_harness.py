"""The benchmark harness: interleaving, fresh-process figures, tables and exit status."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks import cases, inputs, report, run
from benchmarks.engines import ENGINES, missing
from benchmarks.measure import in_fresh_process, interleaved

ONE = np.ones(4, np.float32)


def test_rounds_are_interleaved_and_rotated() -> None:
    order: list[str] = []
    calls = {name: (lambda name=name: (order.append(name), time.sleep(0.002), [ONE])[-1]) for name in "ab"}
    times = interleaved(calls, seconds=0.002, rounds=2)
    # In each turn: one call that does not count, then one that fills the turn.
    assert "".join(order) == "aabbbbaa"
    assert {name: len(samples) for name, samples in times.items()} == {"a": 2, "b": 2}


def test_call_overhead_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RILLET_CACHE", str(tmp_path))
    case = cases.load_case("call_overhead")
    call, _ = ENGINES["ort"].load(case.model, case.inputs, 1)
    np.testing.assert_array_equal(call()[0], 2 * case.inputs["x"])


@pytest.mark.parametrize(
    ("spec", "message"), [("nope", "unknown model 'nope'"), ("minilm:x", "must be a whole number")]
)
def test_bad_cases_are_named(spec: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cases.load_case(spec)


def test_missing_engine_gives_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing(ENGINES["ort"]) is None
    monkeypatch.setattr(ENGINES["iree"], "package", "no_such_package.compiler", raising=False)
    assert missing(ENGINES["iree"]) == "iree: package no_such_package.compiler is not installed; skipped"


def test_fresh_process_reports_an_engine_error(tmp_path: Path) -> None:
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(b"not a model")
    inputs.save(tmp_path, {"x": ONE})
    facts = in_fresh_process("load", "ort", bad, tmp_path, 1)
    assert "InvalidProtobuf" in facts["error"] or "INVALID_PROTOBUF" in facts["error"]


def test_run_measures_peers_and_prints_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RILLET_CACHE", str(tmp_path))
    monkeypatch.setattr(run.machine, "describe", lambda threads: {"cpu": "test"})
    options = ["--without-rillet", "--peers", "ort", "--threads", "1", "--seconds", "0.01", "--rounds", "2", "--json"]
    assert run.main([*options, "--models", "call_overhead"]) == 0
    result = json.loads(capsys.readouterr().out)
    (row,) = result["rows"]
    assert row["engine"] == "ort" and 0 < row["min_s"] <= row["median_s"] and row["calls"] >= 2
    assert row["peak_bytes"] > 0 and row["load_s"] > 0 and row["artifact_bytes"] > 0
    assert "artifact" not in row and "outputs" not in row


class _Wrong:
    """Loads like ONNX Runtime and answers zeros."""

    name, package = "iree", "onnxruntime"

    def compile(self, model: Path, folder: Path) -> Path:
        return model

    def load(self, artifact: Path, inputs: dict[str, np.ndarray], threads: int):
        return (lambda: [np.zeros((1, 16), np.float32)]), {}


def test_wrong_outputs_fail_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RILLET_CACHE", str(tmp_path))
    monkeypatch.setitem(ENGINES, "iree", _Wrong())
    monkeypatch.setattr(run.machine, "describe", lambda threads: {"cpu": "test"})
    monkeypatch.setattr(run, "compile_facts", lambda engine, model, folder: {"artifact": str(model)})
    monkeypatch.setattr(run, "load_facts", lambda *arguments: {})
    options = ["--without-rillet", "--peers", "ort", "iree", "--threads", "1", "--seconds", "0.01", "--rounds", "1"]
    assert run.main([*options, "--json", "--models", "call_overhead"]) == 1
    assert json.loads(capsys.readouterr().out)["rows"][1]["error_ratio"] > 1


def rows_of(model: str, times: dict[str, float]) -> list[dict]:
    return [
        {"model": model, "threads": 1, "engine": engine, "min_s": seconds, "median_s": seconds}
        for engine, seconds in times.items()
    ]


def test_summary_takes_the_faster_hand_tuned_peer() -> None:
    rows = rows_of("a", {"rillet": 1.0, "ort": 4.0, "openvino": 2.0, "iree": 0.1})
    rows += rows_of("b", {"rillet": 1.0, "ort": 8.0})
    rows += rows_of("call_overhead", {"rillet": 1.0, "ort": 0.1})
    assert report.summary(rows)["1 threads, median"] == {
        "geometric_mean": 4.0,
        "worst": "a",
        "worst_ratio": 2.0,
        "models": 2,
    }
    assert "geometric mean 4.0 over 2 models, worst 2.0 (a)" in report.closing(rows)
    assert report.closing(rows_of("a", {"ort": 1.0})) == ""


def test_table_shows_failures_and_ratios() -> None:
    rows = rows_of("a", {"rillet": 0.001, "ort": 0.002})
    rows.append({"model": "a", "threads": 1, "engine": "iree", "error": "cannot compile"})
    text = report.table(rows)
    assert "failed: cannot compile" in text and "2.00" in text and "1 ms" in text


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_both_roofs_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import machine

    monkeypatch.setattr(machine, "_FMA_ROUNDS", 100_000)
    monkeypatch.setattr(machine, "_COPY_BYTES", 1 << 20)
    facts = machine.describe([1])
    assert facts["fma_gflops"][1] > 0.5 and facts["copy_gbs"][1] > 0.1
