"""The kernel section of the benchmarks: cases, targets, rows and the exit status, on tiny operations."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from benchmarks import kernel_cases, kernels, run, sizes
from benchmarks.kernel_cases import CASES, conv, matmul, pointwise, rowwise

TINY = (
    matmul(9, 5, 17),
    matmul(9, 5, 17, constant=False),
    pointwise(7, 8, 16),
    conv(4, 8, 6, stride=2),
    conv(8, 8, 5, depthwise=True),
    rowwise("gelu", (3, 10), kernel_cases._gelu),
    rowwise("add", (3, 10), lambda g, x: g.op("Add", [x, "y"], "add"), second=True),
)


@pytest.fixture(autouse=True)
def _fast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RILLET_CACHE", str(tmp_path))
    monkeypatch.setattr(kernels, "_PEAK_ROUNDS", 1000)
    monkeypatch.setattr(kernels, "CASES", TINY)


def test_cases_have_names_of_their_own() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


def test_kernels_are_measured_beside_the_peer(capsys: pytest.CaptureFixture[str]) -> None:
    assert kernels.main(["--seconds", "0.002", "--rounds", "1", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(r["kernel"], r["target"]) for r in rows] == [(c.name, t) for c in TINY for t in ("host", "ort")]
    for row in rows[::2]:
        assert 0 < row["min_s"] <= row["median_s"] and row["error_ratio"] < 1
        assert row["peak_gflops"] > 0 and row["copy_gbs"] > 0
        shares = row["gflops"] / row["peak_gflops"], row["gbs"] / row["copy_gbs"]
        assert row["of_roof"] == max(shares) and row["bound"] == ("compute", "memory")[shares.index(max(shares))]
    assert rows[6]["gflops"] == pytest.approx(2 * 9 * 9 * 4 * 8 / rows[6]["min_s"] / 1e9)


def test_table_and_choice_of_kernels(capsys: pytest.CaptureFixture[str]) -> None:
    assert kernels.main(["--kernels", "depthwise", "--seconds", "0.002", "--rounds", "1", "--without-peer"]) == 0
    out = capsys.readouterr().out
    assert "depthwise 3x3 8 @5" in out and "matmul" not in out and "% " in out
    assert kernels.main(["--list"]) == 0
    assert capsys.readouterr().out.splitlines() == [c.name for c in TINY]
    assert kernels.main(["--kernels", "nothing"]) == 2
    assert "no kernel has 'nothing' in its name" in capsys.readouterr().err


def test_wrong_outputs_fail_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_peer", lambda *_: lambda: [np.zeros((9, 17), np.float32)])
    assert kernels.main(["--kernels", TINY[0].name, "--seconds", "0.002", "--rounds", "1", "--json"]) == 1


def test_targets_that_cannot_run_are_skipped_with_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import llvmlite.binding as llvm

    assert kernels.unsupported("cortex-m4") == "cortex-m4: skipped, this machine has another architecture"
    assert kernels.main(["--target-cpu", "pdp11"]) == 2
    assert "unknown target 'pdp11'" in capsys.readouterr().err
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: {"sse3": True})
    reason = kernels.unsupported("x86-64-v4")
    assert reason is not None and "lacks" in reason and "avx512f" in reason


def test_nothing_to_measure_is_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert kernels.main(["--target-cpu", "cortex-m4"]) == 2
    error = capsys.readouterr().err
    assert "cortex-m4: skipped, this machine has another architecture\nno target is left to measure" in error


@pytest.mark.parametrize("options", [["--seconds", "-1"], ["--rounds", "0"]])
@pytest.mark.parametrize("program", [kernels, run])
def test_times_and_rounds_are_positive(
    program: ModuleType, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        program.main(options)
    assert f"argument {options[0]}: {options[1]}: expected a " in capsys.readouterr().err


def test_sizes_explain_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        sizes.main(["--help"])
    assert exit_.value.code == 0 and "MODEL" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        sizes.main(["no_model"])
    assert "unknown model 'no_model'; known are " in capsys.readouterr().err
    assert sizes.main(["ds_cnn", "pdp11"]) == 2
    assert "unknown target 'pdp11'" in capsys.readouterr().err
