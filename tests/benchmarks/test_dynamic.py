"""The section of the benchmarks on unknown sizes: cases, rows and the exit status, on tiny layers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from benchmarks import dynamic
from benchmarks.dynamic_cases import CASES, between, conv, image, matmul, pool, recurrent, rows

TINY = (
    image("conv", conv(4, 3), 4, 6, 5),
    between("pool", pool("MaxPool", 2, 2), 4, 6, 6),
    rows("matmul", matmul(8), 4, 3),
)


@pytest.fixture(autouse=True)
def _fast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RILLET_CACHE", str(tmp_path))
    monkeypatch.setattr(dynamic, "CASES", TINY)


def test_cases_have_names_of_their_own_and_are_models() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    for case in CASES:
        onnx.checker.check_model(case.build())
        assert {n for n in case.shape if isinstance(n, str)} == set(case.sizes)


def test_layers_are_measured_beside_their_pinned_selves(capsys: pytest.CaptureFixture[str]) -> None:
    assert dynamic.main(["--seconds", "0.002", "--rounds", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["rows"]
    assert [row["layer"] for row in found] == [case.name for case in TINY]
    assert all(row["pinned"] > 0 and row["dynamic"] > 0 and row["ort"] > 0 and row["error_ratio"] < 1 for row in found)


def test_table_and_choice_of_layers(capsys: pytest.CaptureFixture[str]) -> None:
    assert dynamic.main(["--layers", "matmul", "--seconds", "0.002", "--rounds", "1", "--without-peer"]) == 0
    out = capsys.readouterr().out
    assert "matmul" in out and "conv" not in out and "geometric mean" in out
    assert dynamic.main(["--list"]) == 0
    assert capsys.readouterr().out.splitlines() == [case.name for case in TINY]
    assert dynamic.main(["--layers", "nothing"]) == 2
    assert "no layer has 'nothing' in its name" in capsys.readouterr().err


def test_wrong_outputs_fail_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamic, "error_ratio", lambda *_: 2.0)
    assert dynamic.main(["--layers", "matmul", "--seconds", "0.002", "--rounds", "1"]) == 1


def test_recurrent_layers_have_an_axis_for_directions() -> None:
    case = dynamic.DynamicCase("gru", recurrent("GRU", 4), (2, "n", 4), {"n": 3}, 4)
    assert case.input().shape == (2, 3, 4) and case.input().dtype == np.float32
    assert len(case.build().graph.output[0].type.tensor_type.shape.dim) == 4
