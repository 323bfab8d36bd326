"""Builds the C runtime with its unit tests under AddressSanitizer and UBSan, and runs them with ctest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.build_folder import build_folder
from tests.support.paths import RUNTIME


def run(*command: str | Path) -> None:
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert result.returncode == 0, f"{command[0]} failed:\n{result.stdout[-8000:]}\n{result.stderr[-4000:]}"


def configure(build: Path, *options: str) -> None:
    run("cmake", "-S", RUNTIME, "-B", build, "-G", "Ninja", f"-DPython3_EXECUTABLE={sys.executable}", *options)


@pytest.mark.timeout(600)
def test_unit_tests_under_sanitizers(request: pytest.FixtureRequest) -> None:
    """The build folder lies in pytest's cache, so that later runs only rebuild what has changed."""
    with build_folder(request, "c_runtime") as build:
        configure(build, "-DRILLET_BUILD_TESTS=ON", "-DRILLET_SANITIZE=ON")
        run("cmake", "--build", build, "-j", "2")
    run("ctest", "--test-dir", build, "--output-on-failure", "-j", "2")


@pytest.mark.timeout(300)
def test_base_vm_and_reader_alone_need_no_libc(request: pytest.FixtureRequest) -> None:
    """Without HAL, drivers and loaders the freestanding library asks for nothing but mem*."""
    parts = ("HAL", "CPU_SYNC", "TASK_EXECUTOR", "ELF_LOADER", "SYSTEM_LOADER", "STATIC_LOADER")
    with build_folder(request, "c_runtime_freestanding") as build:
        configure(build, "-DRILLET_FREESTANDING=ON", *(f"-DRILLET_{part}=OFF" for part in parts))
        run("cmake", "--build", build, "-j", "2")
    symbols = subprocess.run(
        ["nm", "--undefined-only", "--format=just-symbols", build / "librillet_runtime.a"],
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    names = {s for s in symbols if not s.endswith(":") and not s.startswith("rlt_")}
    assert names <= {"memcpy", "memmove", "memset", "memcmp", "_GLOBAL_OFFSET_TABLE_"}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", ["VM", "MODULE", "HAL", "TASK_EXECUTOR", "ELF_LOADER"])
def test_a_part_can_be_left_out(request: pytest.FixtureRequest, part: str) -> None:
    """The library builds without warnings when any one part is off."""
    with build_folder(request, f"c_runtime_without_{part.lower()}") as build:
        configure(build, f"-DRILLET_{part}=OFF")
        run("cmake", "--build", build, "-j", "2")


def test_headers_say_whether_pointers_may_be_null() -> None:
    """``status.h`` and ``session.h`` in words of their own; the others have no functions that take pointers."""
    without = {"atomics.h", "config.h", "hal.h", "kernel_abi.h", "rillet.h", "session.h", "status.h", "types.h"}
    headers = sorted((RUNTIME / "include" / "rillet").rglob("*.h"))
    line = "// Pointers must be there unless a comment says that they may be NULL.\n"
    assert {h.name for h in headers if line not in h.read_text("utf-8")} == without
