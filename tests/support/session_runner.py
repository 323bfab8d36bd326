"""The C program that runs a module file through the session interface, and other programs of the runtime."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.build_folder import build_folder
from tests.support.paths import RUNTIME


def build(request: pytest.FixtureRequest, name: str, targets: list[str], *options: str) -> Path:
    """Build targets of the runtime in pytest's cache, so that later runs only rebuild what has changed."""
    options = ("-DRILLET_BUILD_TESTS=ON", f"-DPython3_EXECUTABLE={sys.executable}", *options)
    with build_folder(request, name) as folder:
        for command in (
            ["cmake", "-S", str(RUNTIME), "-B", str(folder), "-G", "Ninja", *options],
            ["cmake", "--build", str(folder), "-j", "2", "--target", *targets],
        ):
            result = subprocess.run(command, capture_output=True, text=True)
            assert result.returncode == 0, result.stdout[-8000:] + result.stderr[-4000:]
    return folder


def run(runner: Path, module: bytes, folder: Path, threads: int, *mutations: int) -> subprocess.CompletedProcess[str]:
    path = folder / "module.rlm"
    path.write_bytes(module)
    command = [str(runner), str(path), str(threads), "3", *map(str, mutations)]
    return subprocess.run(command, capture_output=True, text=True)
