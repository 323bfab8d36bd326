"""Commands leave nothing in the folder for temporary files: when done, when failed, and when ended in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

_COMMANDS = (
    "compile model.onnx -o model.rlm --no-cache",
    "compile bad.onnx -o bad.rlm",
    "verify model.onnx",
    "bench model.rlm --seconds 0.01",
    "export model.onnx --target cortex-m4 -o c",
    "export model.onnx --target cortex-m4 -o static --mode static",
    "export model.onnx --target cortex-m4 -o small --flash 1",
)
# The linker's process is started in a folder of its own; the signal comes then.
_ENDED = """
import os, subprocess, sys
real = subprocess.run
def run(*arguments, **options):
    assert os.listdir(os.environ["TMPDIR"])
    os.kill(os.getpid(), int(sys.argv[1]))
    return real(*arguments, **options)
subprocess.run = run
from rillet.cli import main
sys.exit(main("compile model.onnx -o ended.rlm --no-cache --jobs 1".split()))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    text = '<ir_version: 10, opset_import: ["" : 20]> g (float[2,4] x) => (float[2,4] y) { y = Relu(x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    (tmp_path / "bad.onnx").write_bytes(np.arange(9, dtype=np.uint8).tobytes())
    (tmp_path / "temporary").mkdir()
    return tmp_path


def _python(folder: Path, code: str, *arguments: str) -> int:
    environment = {**os.environ, "TMPDIR": str(folder / "temporary"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", code, *arguments], cwd=folder, env=environment, capture_output=True)
    return done.returncode


def test_commands_leave_nothing(folder: Path) -> None:
    code = f"from rillet.cli import main\nassert [main(c.split()) for c in {_COMMANDS!r}] == [0, 1, 0, 0, 0, 0, 1]"
    assert _python(folder, code) == 0
    assert os.listdir(folder / "temporary") == []


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_ended_command_leaves_nothing(number: int, status: int, folder: Path) -> None:
    assert _python(folder, _ENDED, str(int(number))) == status
    assert os.listdir(folder / "temporary") == []
    assert not (folder / "ended.rlm").exists()
