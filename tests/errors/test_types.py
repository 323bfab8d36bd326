"""The face has types: a client's code passes ``mypy --strict``."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import resources
from pathlib import Path

from tests.support.paths import ROOT

_CLIENT = """
from typing import assert_type

import numpy as np

import rillet
from rillet import errors


def use(path: str) -> dict[str, np.ndarray]:
    module = rillet.compile(path, inputs={"x": [1, "n"]}, threads=1)
    assert_type(module, rillet.Module)
    assert_type(rillet.load(module.to_bytes(), threads=2), rillet.Module)
    for spec in module.inputs:
        assert_type(spec.name, str)
        assert_type(spec.dtype, np.dtype)
    assert_type(module(np.zeros(3)), np.ndarray | tuple[np.ndarray, ...])
    assert_type(module(self=np.zeros(3)), np.ndarray | tuple[np.ndarray, ...])
    assert_type(module.submit(x=np.zeros(3)).result(timeout=1.0), np.ndarray | tuple[np.ndarray, ...])
    assert_type(rillet.check(path, target="cortex-m4").macs, int | None)
    session = rillet.InferenceSession(path)
    assert_type(session.get_inputs()[0].name, str)
    session.run(None, {"x": np.zeros(3)})
    try:
        cross = rillet.compile(path, target=["cortex-m4"])
        if not isinstance(cross, rillet.Module):
            assert_type(cross.export("folder", layout="arduino").files, tuple[str, ...])
    except errors.UnsupportedError as error:
        assert_type(error.nodes[0].op, str)
    except rillet.RilletError as error:
        print(error)
    rillet.compile(path, inputss={})  # WRONG
    return module.run({"self": np.zeros(3)})
"""


def test_clients_pass_strict_checks(tmp_path: Path) -> None:
    assert (resources.files("rillet") / "py.typed").is_file()
    (tmp_path / "client.py").write_text(_CLIENT)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path}", "client.py"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    wrong = 1 + _CLIENT.splitlines().index("    rillet.compile(path, inputss={})  # WRONG")
    ours = [line for line in done.stdout.splitlines() if line.startswith("client.py")]
    assert ours and all(line.startswith(f"client.py:{wrong}:") for line in ours), done.stdout + done.stderr
