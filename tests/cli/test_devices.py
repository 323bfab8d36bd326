"""``--device`` and what ``rillet inspect`` says about devices."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

import rillet
from rillet.cli import main
from rillet.errors import CompileError

TEXT = """<ir_version: 10, opset_import: ["" : 20]> g (float[4,4] x) => (float[4,4] y)
{ a = MatMul(x, x) b = MatMul(a, x) y = Add(a, b) }"""
ON_BOTH = ["--device", "cpu-sync", "--device", "cpu-task"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("devices") / "model.onnx"
    onnx.save(onnx.parser.parse_model(TEXT), path)
    return path


def test_a_file_lists_its_devices(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compiled = source.with_suffix(".rlm")
    assert main(["compile", str(source), *ON_BOTH]) == 0
    capsys.readouterr()
    assert main(["inspect", str(compiled)]) == 0
    text = capsys.readouterr().out
    assert (
        "devices:\n  cpu-sync: driver cpu-sync, kernels for host\n  cpu-task: driver cpu-task, kernels for host" in text
    )
    assert main(["inspect", str(compiled), "--json"]) == 0
    devices = json.loads(capsys.readouterr().out)["devices"]
    assert [(d["name"], d["driver"], d["libraries"]) for d in devices] == [
        ("cpu-sync", "cpu-sync", [0]),
        ("cpu-task", "cpu-task", [0]),
    ]
    assert main(["run", str(compiled)]) == 0


def test_a_file_for_any_cpu_lists_one(source: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    compiled = tmp_path / "one.rlm"
    assert main(["compile", str(source), "-o", str(compiled)]) == 0
    capsys.readouterr()
    assert main(["inspect", str(compiled)]) == 0
    assert "devices:\n  cpu: driver cpu, kernels for host\n" in capsys.readouterr().out


def test_a_file_for_one_device_names_it(source: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    compiled = tmp_path / "one.rlm"
    assert main(["compile", str(source), "-o", str(compiled), "--device", "cpu-sync"]) == 0
    capsys.readouterr()
    assert main(["inspect", str(compiled)]) == 0
    assert "devices:\n  cpu-sync: driver cpu-sync, kernels for host\n" in capsys.readouterr().out
    assert main(["run", str(compiled)]) == 0


def test_a_model_runs_on_devices(source: Path) -> None:
    assert main(["run", str(source), *ON_BOTH]) == 0


def test_placement_is_printed(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", str(source), "--until", "placement", *ON_BOTH]) == 0
    text = capsys.readouterr().out
    assert "flow.devices" in text and 'flow.device = "cpu-sync"' in text
    assert main(["compile", str(source), "--until", "placement"]) == 0
    assert "flow.device" not in capsys.readouterr().out


def test_what_cannot_be_done_is_said(source: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["compile", str(source), "--device", "npu"]) == 1
    assert "unknown device 'npu'; known devices: cpu, cpu-sync, cpu-task" in capsys.readouterr().err
    compiled = tmp_path / "model.rlm"
    assert main(["compile", str(source), "-o", str(compiled)]) == 0
    assert main(["run", str(compiled), "--device", "cpu-sync"]) == 1
    assert "--device: " in (error := capsys.readouterr().err) and "is compiled already" in error


def test_several_devices_cannot_be_exported(source: Path) -> None:
    with pytest.raises(CompileError, match="a program for devices cpu-sync, cpu-task cannot be exported"):
        rillet.compile(source, target="cortex-m4", device=("cpu-sync", "cpu-task"))
