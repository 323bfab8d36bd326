"""The demo: its offline section end to end, and what it says without a network."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.paths import ROOT

PATH = ROOT / "examples" / "demo.py"


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("RILLET_CACHE", str(tmp_path))
    spec = importlib.util.spec_from_file_location("demo", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_offline_section_runs(demo: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.main(["--threads", "1", "digits"]) == 0
    text = capsys.readouterr().out
    assert "compiled mnist_cnn.onnx in" in text and "one image of 28x28" in text and "noise 1:" in text


def test_without_a_network_a_section_is_skipped(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    assert demo.main(["files"]) == 0
    assert "skipped: cannot download magika==1.0.3 from PyPI" in capsys.readouterr().out


def test_compiler_errors_are_shown_and_fail_the_demo(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(path: str, threads: int | None) -> None:
        raise demo.rillet.CompileError("node 'conv1' is wrong")

    monkeypatch.setattr(demo.rillet, "compile", refuse)
    assert demo.main(["digits"]) == 1
    assert "failed: node 'conv1' is wrong" in capsys.readouterr().out


def test_unknown_section_is_an_error(demo: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        demo.main(["nope"])
    assert "unknown section nope" in capsys.readouterr().err
