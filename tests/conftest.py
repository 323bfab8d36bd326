"""Options of the test suite, and the environment that its build tests run in."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

# The pinned cmake and ninja of this environment come before the system's.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write what is found as what is expected")
