"""Writing files that are complete or not there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from rillet.errors import SaveError

Data: TypeAlias = bytes | bytearray | memoryview

# Linux caches a file in pieces as large as the writes that made it (up to 2 MiB), and a fault on a mapping of it makes
# the whole piece resident. Small pieces keep resident only what is used of an embedding table.
_CHUNK = 1 << 16
# The longest name that the usual file systems take, in bytes.
_LONGEST_NAME = 255


def write_atomically(path: str | os.PathLike[str], data: Data, *, durable: bool = True) -> None:
    """Write ``data`` to ``path``: beside it first, then renamed over it once it is safely on the disk.

    ``durable`` False does not wait for the disk: a power failure may leave an empty file. Raises ``SaveError`` (a full
    disk, say) and then leaves what was at ``path`` as it was.
    """
    try:
        _write(path, data, durable)
    except (OSError, ValueError) as error:  # ValueError: a zero character in the path
        raise save_error(path, error) from error


def write_folder(folder: str | os.PathLike[str], files: Mapping[str, Data]) -> None:
    """Write ``files`` by their paths within ``folder``, which is made; others in it stay.

    All are written beside their places before any is moved there. Raises ``SaveError`` and then leaves no new file and
    no new folder.
    """
    made: list[Path] = []
    waiting: dict[Path, Path] = {}  # where a file goes: where it lies until then
    target = Path(folder)
    try:
        for relative, data in files.items():
            target = Path(folder) / relative
            _make_folders(target.parent, made)
            if target.is_dir():
                raise IsADirectoryError(0, "it is a folder")
            waiting[target] = beside = Path(_beside(os.fspath(target)))
            _create(os.fspath(beside), data, durable=True)
        for target, beside in waiting.items():
            os.replace(beside, target)
    except BaseException as error:
        for beside in waiting.values():
            beside.unlink(missing_ok=True)
        for path in reversed(made):
            with contextlib.suppress(OSError):  # something is in it
                path.rmdir()
        if isinstance(error, OSError | ValueError):
            raise save_error(target, error) from error
        raise


def save_error(path: str | os.PathLike[str], error: OSError | ValueError) -> SaveError:
    """What to raise when writing a file failed, in one line."""
    if isinstance(error, FileNotFoundError):
        reason = f"there is no folder {os.path.dirname(os.fsdecode(path)) or '.'}; create it first"
    else:
        reason = getattr(error, "strerror", None) or str(error)
    return SaveError(f"cannot write {printable(path)}: {reason}")


def printable(path: str | os.PathLike[str]) -> str:
    """A path as text that every terminal and log takes, bytes that are no UTF-8 escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _write(path: str | os.PathLike[str], data: Data, durable: bool) -> None:
    target = os.path.realpath(os.fsdecode(path))
    if os.path.isdir(target):
        raise IsADirectoryError(0, "it is a folder")
    if os.path.exists(target) and not os.path.isfile(target):
        _write_into(target, data)
        return
    beside = _beside(target)
    try:
        _create(beside, data, durable)
        os.replace(beside, target)
    except BaseException:
        with contextlib.suppress(OSError):  # it was not even made
            os.unlink(beside)
        raise
    if durable:
        _sync_folder(os.path.dirname(target))


def _beside(target: str) -> str:
    """A name that nothing has yet, in the folder of ``target``."""
    folder, name = os.path.split(target)
    suffix = f".{os.urandom(4).hex()}"
    kept = os.fsencode(name)[: _LONGEST_NAME - len(suffix) - 1]
    return os.path.join(folder, f".{os.fsdecode(kept)}{suffix}")


def _create(path: str, data: Data, durable: bool) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
    try:
        _write_all(file, data)
        if durable:
            os.fsync(file)
    finally:
        os.close(file)


def _make_folders(folder: Path, made: list[Path]) -> None:
    """Make a folder and those it lies in, noting the new ones, outer ones first."""
    missing = []
    while not folder.exists() and folder != folder.parent:
        missing.append(folder)
        folder = folder.parent
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        made.append(path)


def _write_into(target: str, data: Data) -> None:
    """Write to what is no regular file, a device say, which must not be replaced."""
    file = os.open(target, os.O_WRONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        _write_all(file, data)
    finally:
        os.close(file)


def _write_all(file: int, data: Data) -> None:
    whole = memoryview(data)
    position = 0
    while position < len(whole):
        position += os.write(file, whole[position : position + _CHUNK])


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
