"""Temporary folders for the tools that read and write files: linkers, archivers, C compilers."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rillet.errors import CompileError


@contextmanager
def scratch_folder(purpose: str) -> Iterator[Path]:
    """A folder that is removed at the end. Raises ``CompileError`` where files in it cannot be written or read."""
    try:
        with tempfile.TemporaryDirectory(prefix=f"rillet-{purpose}-") as folder:
            yield Path(folder)
    except OSError as error:
        # Not gettempdir(), which fails where no folder can be used.
        place = tempfile.tempdir or "no folder"
        reason = error.strerror or str(error)
        raise CompileError(
            f"cannot use temporary files ({place}): {reason}; set TMPDIR to a folder that has room and can be written"
        ) from error
