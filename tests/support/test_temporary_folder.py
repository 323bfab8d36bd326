"""Folders for tools: gone in the end, and an error that says what to do where there is no room."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from rillet.errors import CompileError
from rillet.support.temporary_folder import scratch_folder


def test_a_folder_is_removed_in_the_end() -> None:
    with scratch_folder("test") as folder:
        (folder / "file").write_bytes(b"x")
    assert not folder.exists()


def test_a_folder_is_removed_after_an_error() -> None:
    places: list[Path] = []
    with pytest.raises(ZeroDivisionError), scratch_folder("test") as folder:
        places.append(folder)
        raise ZeroDivisionError
    assert not places[0].exists()


def test_a_full_disk_is_a_compile_error() -> None:
    message = r"cannot use temporary files .*No space left.*set TMPDIR to a folder"
    with pytest.raises(CompileError, match=message), scratch_folder("test"):
        raise OSError(errno.ENOSPC, "No space left on device")
