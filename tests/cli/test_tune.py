"""``rillet tune``: what it prints and writes, that ``compile`` picks it up, and how it fails."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rillet.cli import main
from rillet.cli.tune import _compared, parse_duration
from rillet.codegen.cpu import alternatives
from rillet.tuning import Record, measure

MATMUL = """
func.func @main(%a: tensor<{rows}x40xf32> {{rillet.name = "a"}}, %b: tensor<40x64xf32> {{rillet.name = "b"}})
    -> tensor<{rows}x64xf32> {{
  %zero = arith.constant 0.0 : f32
  {empty}
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<{rows}x64xf32>) -> tensor<{rows}x64xf32>
  %0 = linalg.matmul ins(%a, %b : tensor<{rows}x40xf32>, tensor<40x64xf32>)
    outs(%f : tensor<{rows}x64xf32>) -> tensor<{rows}x64xf32>
  return %0 : tensor<{rows}x64xf32>
}}
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RILLET_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("RILLET_TUNING", raising=False)
    path = tmp_path / "matmul.mlir"
    path.write_text(MATMUL.format(rows=48, empty="%e = tensor.empty() : tensor<48x64xf32>"))
    return path


@pytest.fixture
def dynamic(source: Path) -> Path:
    empty = """%c0 = arith.constant 0 : index
  %n = tensor.dim %a, %c0 : tensor<?x40xf32>
  %e = tensor.empty(%n) : tensor<?x64xf32>"""
    path = source.with_name("dynamic.mlir")
    path.write_text(MATMUL.format(rows="?", empty=empty))
    return path


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock for which the last build is the fastest, and a small space."""

    def kernel_times(modules, inputs, clock):
        names = [entry["name"] for entry in modules[0].entries]
        return [
            {name: 1e-3 if n > 1 and n == len(modules) - 1 else 2e-3 for name in names} for n in range(len(modules))
        ]

    monkeypatch.setattr(measure, "kernel_times", kernel_times)
    monkeypatch.setattr(measure, "call_times", lambda modules, *_: [2e-3, 1e-3][: len(modules)])
    monkeypatch.setattr(alternatives, "_MOST_TILES", 2)
    monkeypatch.setattr(alternatives, "_UNROLLS", (1, 2))


def test_tune_writes_the_record_that_compile_uses(source: Path, clock: None, capsys, tmp_path: Path) -> None:
    assert main(["compile", str(source), "--json"]) == 0
    before = source.with_suffix(".rlm").read_bytes()
    capsys.readouterr()
    assert main(["tune", str(source), "--time-budget", "5m", "--threads", "1", "--jobs", "1"]) == 0
    printed = capsys.readouterr()
    record = tmp_path / "cache" / "tuning.json"
    assert f"record: {record}" in printed.out and "1 kernel improved" in printed.out
    assert "2000.0 us ->     1000.0 us  contraction batches=1 rows=48 columns=64 steps=40" in printed.out
    assert "by the cost model" in printed.out and "ms tuned (100.0% faster) on 1 thread\n" in printed.out
    assert "kernel 0 of 1, 0 variants measured" in printed.err and "measuring it once more" in printed.err
    (entry,) = Record.load(record).entries.values()
    assert entry.knobs.given()

    assert main(["compile", str(source)]) == 0
    assert source.with_suffix(".rlm").read_bytes() != before
    assert main(["compile", str(source), "--no-tuning"]) == 0
    assert source.with_suffix(".rlm").read_bytes() == before
    record.rename(tmp_path / "shared.json")
    assert main(["compile", str(source), "--tuning", str(tmp_path / "shared.json")]) == 0
    assert source.with_suffix(".rlm").read_bytes() != before


def test_tune_adds_to_a_record_and_reports_json(source: Path, clock: None, capsys, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text('{"format": "rillet-tuning", "version": 1, "kernels": {}}')
    options = ["--threads", "1", "--jobs", "1", "-o", str(path), "--json"]
    assert main(["tune", str(source), *options]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["record"] == str(path) and facts["kernels"] == 1 and facts["improved"] == 1
    assert (facts["model_ms"], facts["tuned_ms"]) == (2.0, 1.0) and not facts["interrupted"]
    (ranking,) = facts["rankings"]
    assert ranking["model_by_best"] == 2.0 and ranking["strategy"] == "contraction" and ranking["variants"] > 1
    assert len(Record.load(path).entries) == 1


def test_a_report_compares_the_models_choices_with_the_best_found(source: Path, clock: None, capsys) -> None:
    assert main(["tune", str(source), "--threads", "1", "--jobs", "1", "--report"]) == 0
    head, row, total, *_ = capsys.readouterr().out.splitlines()
    assert head.split() == ["share", "variants", "faster", "model/best", "ordered", "kernel"]
    assert row.split()[0] == "100.0%" and row.split()[3] == "2.000" and row.endswith("matmul_48x64x40 (contraction)")
    assert total == "model/best: 2.000 by time, 2.000 geometric mean of kernels, 2.000 at worst"


def test_dynamic_dimensions_need_a_size(dynamic: Path, clock: None, capsys, tmp_path: Path) -> None:
    assert main(["tune", str(dynamic)]) == 1
    error = capsys.readouterr().err
    assert "input 'a' has a dynamic dimension" in error and "--input a=FILE.npy" in error
    np.save(tmp_path / "a.npy", np.ones((24, 40), np.float32))
    options = ["--jobs", "1", "--threads", "1", "--input", f"a={tmp_path / 'a.npy'}"]
    assert main(["tune", str(dynamic), *options]) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--time-budget", "soon"], "--time-budget soon: expected a time such as 90s, 5m or 1h"),
        (["--time-budget", "0s"], "--time-budget 0s: expected a time"),
        (["--dim", "n"], "--dim n: expected NAME=SIZE"),
        (["--dim", "n=4"], "--dim n=4: the model has no dimension of this name; its inputs have no dynamic dimensions"),
        (["--size", "n=4"], "--size n=4: the model has no such dimension; its inputs have no dynamic dimensions"),
        (["--target", "cortex-m4"], "nothing can be measured for target cortex-m4: this machine has"),
        (["--input", "z=x.npy"], "--input z=x.npy: cannot read the file"),
    ],
)
def test_bad_arguments_are_named(source: Path, capsys, options: list[str], message: str) -> None:
    assert main(["tune", str(source), *options]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--jobs", "--threads"])
def test_bad_numbers_are_named(source: Path, capsys, option: str) -> None:
    with pytest.raises(SystemExit):
        main(["tune", str(source), option, "0"])
    assert f"argument {option}: 0: expected a whole number from 1" in capsys.readouterr().err


def test_an_unknown_input_is_named(source: Path, capsys, tmp_path: Path) -> None:
    np.save(tmp_path / "z.npy", np.ones(1, np.float32))
    assert main(["tune", str(source), "--input", f"z={tmp_path / 'z.npy'}"]) == 1
    assert "the model has no input z; its inputs: a, b" in capsys.readouterr().err


def test_a_record_that_cannot_be_written_is_named_before_the_search(source: Path, capsys, tmp_path: Path) -> None:
    for path, message in ((tmp_path, "it is a folder"), (source / "new" / "record.json", "Not a directory")):
        assert main(["tune", str(source), "-o", str(path)]) == 1
        assert f"cannot write {path}: " in (error := capsys.readouterr().err) and message in error


def test_a_bad_record_is_not_overwritten(source: Path, capsys, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text("precious")
    assert main(["tune", str(source), "-o", str(path)]) == 1
    assert "is no JSON" in capsys.readouterr().err and path.read_text() == "precious"


@pytest.mark.parametrize(
    ("before", "after", "words"), [(2.0, 1.0, "100.0% faster"), (1.0, 2.0, "50.0% slower"), (1.0, 1.0001, "as fast")]
)
def test_gains_are_in_words(before: float, after: float, words: str) -> None:
    assert _compared(before, after) == words


def test_durations() -> None:
    assert [parse_duration(text) for text in ("90", "1.5s", "5m", "1h")] == [90, 1.5, 300, 3600]
