"""Misspelled names: of keywords, targets, devices, options and commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rillet
from rillet import export, targets
from rillet.cli import main
from rillet.errors import CompileError
from rillet.support.suggestions import did_you_mean
from rillet.targets import devices


def test_the_likeliest_name_is_meant() -> None:
    known = ["cortex-m4", "cortex-m55", "x86-64-v3"]
    assert did_you_mean("cortex-m44", known) == " (did you mean 'cortex-m4'?)"
    assert did_you_mean("X86-64-V3", known) == " (did you mean 'x86-64-v3'?)"
    assert did_you_mean("vax", known) == did_you_mean("", known) == did_you_mean("x", []) == ""


@pytest.mark.parametrize("function", [rillet.compile, rillet.check])
def test_keywords_of_functions(function: Any) -> None:
    with pytest.raises(TypeError, match=r"got an unexpected keyword argument 'inputss' \(did you mean 'inputs'\?\)$"):
        function(b"", inputss={})
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'xyzzy'; it takes source, target, inputs, "):
        function(b"", xyzzy=1)


def test_keywords_of_load_and_export(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"load\(\) got an unexpected keyword argument 'thread' \(did you .*'threads'"):
        rillet.load(b"", thread=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"export\(\) got .* 'layouts' \(did you mean 'layout'\?\)"):
        export.CrossModule.export(None, tmp_path, layouts="web")  # type: ignore[call-arg, arg-type]


def test_targets_and_devices() -> None:
    with pytest.raises(CompileError, match=r"target 'cortex-m44' \(did you mean 'cortex-m4'\?\); known targets: host,"):
        targets.get("cortex-m44")
    with pytest.raises(CompileError, match=r"unknown device 'cpu_task' \(did you mean 'cpu-task'\?\); known devices: "):
        devices.resolve("cpu_task")


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("compile m.onnx --tartget host", "unrecognized arguments: --tartget host (did you mean '--target'?)"),
        ("compile m.onnx --tartget=host", "unrecognized arguments: --tartget=host (did you mean '--target'?)"),
        ("export m.onnx --taget cortex-m4", "(did you mean '--target'?)"),  # and the required option is missing
        ("run m.onnx --sead 3", "(did you mean '--seed'?)"),
        ("complie m.onnx", "(did you mean 'compile'?)"),
        ("--verison", "(did you mean '--version'?)"),
        ("run m.onnx --xyzzy", "unrecognized arguments: --xyzzy"),
        ("run m.onnx --seed", "argument --seed: expected one argument"),
    ],
)
def test_options_and_commands(line: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(line.split())
    assert leaving.value.code == 2
    assert capsys.readouterr().err.endswith(f"{meant}\n")
