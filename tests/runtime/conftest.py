"""Kernels for the modules that the tests of the binding write by hand."""

from __future__ import annotations

import pytest

from tests.support import bytecode_assembler as assembler


@pytest.fixture(scope="session")
def elf(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return assembler.compile_kernels(tmp_path_factory.mktemp("kernels"))
