"""The compile cache: what is damaged counts as absent, and what cannot be written leaves nothing behind."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from rillet.codegen import cache
from rillet.support import files


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "entry"
    cache.write(path, {"name": "kernel", "grid": [1, 2, 3]}, b"code\nand more")
    assert cache.read(path) == ({"name": "kernel", "grid": [1, 2, 3]}, b"code\nand more")
    assert [p.name for p in path.parent.iterdir()] == ["entry"]


def test_any_damaged_byte_makes_it_absent(tmp_path: Path) -> None:
    """Those of the facts too: a kernel's scratch memory, say, would be too small."""
    path = tmp_path / "entry"
    cache.write(path, {"local_memory_size": 4096}, b"code")
    whole = path.read_bytes()
    for position in range(len(whole)):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[position] ^= 1 << bit
            path.write_bytes(damaged)
            assert cache.read(path) is None
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert cache.read(path) is None
    path.unlink()
    path.mkdir()
    assert cache.read(path) is None
    cache.write(path, {}, b"code")  # no error


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int, data: memoryview) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "write", full)
    cache.write(tmp_path / "entry", {}, b"code")
    assert not list(tmp_path.iterdir())
