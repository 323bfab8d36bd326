"""GNU compilers for the boards: where they are, and their options."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Gnu:
    """``link``: the options that choose a library of helpers which the compiler has; its package in Debian."""

    command: str
    package: str
    options: tuple[str, ...]
    link: tuple[str, ...]


_ARM, _RISCV = "arm-none-eabi-gcc", "riscv64-unknown-elf-gcc"
_M4 = ("-mthumb", "-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard")
_M55 = ("-mthumb", "-mcpu=cortex-m55", "-mfloat-abi=hard")
GNU = {
    "cortex-m4": Gnu(_ARM, "gcc-arm-none-eabi", _M4, _M4),
    "cortex-m55": Gnu(_ARM, "gcc-arm-none-eabi", _M55, _M55),
    "riscv32imf": Gnu(
        _RISCV, "gcc-riscv64-unknown-elf", ("-march=rv32imf", "-mabi=ilp32"), ("-march=rv32im", "-mabi=ilp32")
    ),
}
LEVELS = ("-O0", "-O1", "-Os", "-O2", "-O3")


def require(target: str) -> Gnu:
    """The compiler for a board; skips the test where it is not installed, fails under CI, which installs it."""
    gnu = GNU[target]
    if shutil.which(gnu.command) is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{gnu.command} is not installed, though CI installs it")
        pytest.skip(f"{gnu.command} is not installed (Debian: {gnu.package})")
    return gnu


def run(gnu: Gnu, arguments: Sequence[object], folder: Path) -> None:
    """Run the compiler in ``folder``; a warning is an error, of the linker too."""
    command = [gnu.command, "-Wall", "-Wextra", "-Werror", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
