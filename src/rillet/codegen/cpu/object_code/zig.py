"""The tools of the zig distribution: a C compiler, linkers, an archiver."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rillet.errors import CompileError


def zig(arguments: Sequence[str], what: str, folder: Path | None = None) -> None:
    """Run a tool in ``folder``. Raises ``CompileError`` when it fails, with ``what`` failed and its output."""
    command = [sys.executable, "-m", "ziglang", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        raise CompileError(f"{what} failed: {done.stderr.strip()[:2000]}")
