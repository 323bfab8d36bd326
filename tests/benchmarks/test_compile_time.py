"""Compile times: turns, the smallest of each figure, failures, and the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import compile_time, inputs


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Compiles that only say what they took; IREE refuses the matrix product. Returns the engines in turn."""
    monkeypatch.setenv("RILLET_CACHE", str(tmp_path))
    monkeypatch.setattr(compile_time, "missing", lambda engine: None)
    turns: list[str] = []

    def compiled(kind: str, engine: str, model: Path, folder: Path) -> dict[str, Any]:
        assert kind == "compile" and list(inputs.load(folder)) == ["x"]
        turns.append(engine)
        if engine == "iree" and model.stem == "matmul_1024":
            return {"error": "no thanks"}
        seconds = {"rillet": 2.0, "iree": 3.0}[engine] + 1 / len(turns)
        return {"compile_s": seconds, "compile_cpu_s": 2 * seconds, "artifact_bytes": 1}

    monkeypatch.setattr(compile_time, "in_fresh_process", compiled)
    return turns


def test_engines_take_turns_and_count_with_their_best(processes: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert compile_time.main(["--models", "mnist_cnn", "matmul_1024", "--rounds", "2", "--json"]) == 0
    convolutions, product = json.loads(capsys.readouterr().out)["rows"]
    assert processes == ["rillet", "iree", "iree", "rillet", "rillet", "iree", "rillet"]
    assert convolutions["rillet"] == {"compile_s": 2.25, "compile_cpu_s": 4.5}
    assert convolutions["iree"]["compile_s"] == pytest.approx(3 + 1 / 3)
    assert product["iree"] == {"error": "no thanks"}


def test_table_has_both_figures_and_the_ratio(processes: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert compile_time.main(["--models", "mnist_cnn", "matmul_1024", "no_model", "--rounds", "1"]) == 0
    output = capsys.readouterr()
    titles, convolutions, product = output.out.splitlines()[1:]
    assert " ".join(titles.split()) == "model rillet, wall rillet, CPU iree, wall iree, CPU peer ÷ rillet"
    assert " ".join(convolutions.split()) == "mnist_cnn 3.00 s 6.00 s 3.50 s 7.00 s 1.17 1.17"
    assert product.endswith("-  iree failed: no thanks")
    assert "no_model: unknown model 'no_model'" in output.err


def test_a_slower_compile_than_a_peer_fails_the_run() -> None:
    peer = {"compile_s": 1.0, "compile_cpu_s": 2.0}
    assert not compile_time.is_failure({"model": "m", "rillet": {"compile_s": 2.0, "compile_cpu_s": 1.9}, "iree": peer})
    assert compile_time.is_failure({"model": "m", "rillet": {"compile_s": 0.5, "compile_cpu_s": 2.1}, "iree": peer})
    assert compile_time.is_failure({"model": "m", "rillet": {"error": "broken"}, "iree": peer})


def test_every_model_of_the_zoo_that_is_measured_is_compiled_once() -> None:
    assert "minilm" in compile_time.MODELS and "minilm:8" not in compile_time.MODELS
    assert "call_overhead" not in compile_time.MODELS
