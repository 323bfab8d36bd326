"""GNU compilers for the boards: where they are, and their options."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from rillet.export import runtime_library
from tests.support import firmware


@dataclass(frozen=True)
class Gnu:
    """``link``: the options that choose a library of helpers which the compiler has."""

    command: str
    options: tuple[str, ...]
    link: tuple[str, ...]


_ARM, _RISCV = "arm-none-eabi-gcc", "riscv64-unknown-elf-gcc"
PACKAGES = {_ARM: "gcc-arm-none-eabi", _RISCV: "gcc-riscv64-unknown-elf"}  # in Debian
_M4 = ("-mthumb", "-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard")
_M55 = ("-mthumb", "-mcpu=cortex-m55", "-mfloat-abi=hard")
GNU = {
    "cortex-m4": Gnu(_ARM, _M4, _M4),
    "cortex-m55": Gnu(_ARM, _M55, _M55),
    "riscv32imf": Gnu(_RISCV, ("-march=rv32imf", "-mabi=ilp32"), ("-march=rv32im", "-mabi=ilp32")),
}
LEVELS = ("-O0", "-O1", "-Os", "-O2", "-O3")


def require_command(*commands: str) -> None:
    """Skips the test where a GNU compiler is not installed, fails under CI, which installs it."""
    for command in commands:
        if shutil.which(command) is not None:
            continue
        if os.environ.get("CI") == "true":
            pytest.fail(f"{command} is not installed, though CI installs it")
        pytest.skip(f"{command} is not installed (Debian: {PACKAGES[command]})")


def require(target: str) -> Gnu:
    """The compiler for a board, if it is installed."""
    require_command(GNU[target].command)
    return GNU[target]


def run(gnu: Gnu, arguments: Sequence[object], folder: Path) -> None:
    """Run the compiler in ``folder``; a warning is an error, of the linker too."""
    command = [gnu.command, "-Wall", "-Wextra", "-Werror", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr


def build(target: str, folder: Path, name: str, level: str, *own: str) -> Path:
    """As ``firmware.build``, with GNU tools: firmware of a folder's C files ``own`` and the libraries of model
    ``name``."""
    gnu, board, image = require(target), firmware.BOARDS[target], folder / "firmware.elf"
    sources = [*(folder / c for c in own), firmware.PLATFORM / "semihosting.c", firmware.PLATFORM / board.startup]
    flags = [*gnu.options, level, "-std=c11", "-ffreestanding", "-ffunction-sections", "-I", folder]
    flags += ["-I", firmware.PLATFORM]
    libraries = [folder / f"lib{name}_kernels.a"]
    if (folder / "librillet_runtime.a").exists():
        libraries.append(folder / "librillet_runtime.a")
        flags += [f"-D{d}" for d in runtime_library.STATIC.definitions]
    for source in sources:
        run(gnu, [*flags, "-c", source, "-o", folder / f"{source.stem}.o"], folder)
    parts = [folder / f"{source.stem}.o" for source in sources]
    link = ["-nostdlib", "-Wl,--gc-sections", "-Wl,--build-id=none", "-Wl,-z,noexecstack", "-Wl,--no-warn-rwx-segments"]
    run(
        gnu,
        [*gnu.link, *link, "-T", firmware.PLATFORM / board.script, *parts, *libraries, "-lgcc", "-o", image],
        folder,
    )
    return image
