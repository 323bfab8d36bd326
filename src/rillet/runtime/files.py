"""Writing files that are complete or not there."""

from __future__ import annotations

import os

# Linux caches a file in pieces as large as the writes that made it (up to 2 MiB), and a fault on a mapping of it makes
# the whole piece resident. Small pieces keep resident only what is used of an embedding table.
_CHUNK = 1 << 16


def write_atomically(path: str | os.PathLike[str], data: memoryview) -> None:
    """Write ``data`` to ``path``: beside it first, then renamed over it once it is safely on the disk.

    Raises ``OSError`` (a full disk, say) and then leaves what was at ``path`` as it was.
    """
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        _write_into(target, data)
        return
    folder, name = os.path.split(target)
    beside = os.path.join(folder, f".{name}.{os.urandom(4).hex()}")
    try:
        file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from None
    try:
        try:
            _write_all(file, data)
            os.fsync(file)
        finally:
            os.close(file)
        os.replace(beside, target)
    except BaseException:
        os.unlink(beside)
        raise
    _sync_folder(folder)


def _write_into(target: str, data: memoryview) -> None:
    """Write to what is no regular file, a device say, which must not be replaced."""
    file = os.open(target, os.O_WRONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        _write_all(file, data)
    finally:
        os.close(file)


def _write_all(file: int, data: memoryview) -> None:
    position = 0
    while position < len(data):
        position += os.write(file, data[position : position + _CHUNK])


def _sync_folder(folder: str) -> None:
    """Makes the rename itself last; not every system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        return
    finally:
        os.close(handle)
