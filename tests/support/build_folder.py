"""Folders in pytest's cache for builds, so that later runs only rebuild what has changed."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def build_folder(request: pytest.FixtureRequest, name: str) -> Iterator[Path]:
    """The folder ``name``; other test processes wait for it until the block ends."""
    folder = Path(request.config.cache.mkdir(name))
    with folder.with_name(f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
