"""What the tests of the runtime share: kernels for modules written by hand, and the program that runs a module file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import bytecode_assembler as assembler
from tests.support.session_runner import build


@pytest.fixture(scope="session")
def elf(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return assembler.compile_kernels(tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="session")
def runner(request: pytest.FixtureRequest) -> Path:
    return build(request, "c_runtime", ["session_runner"], "-DRILLET_SANITIZE=ON") / "tests/program/session_runner"
