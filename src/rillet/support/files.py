"""Writing files completely or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from rillet.errors import RilletError, SaveError

Data: TypeAlias = bytes | bytearray | memoryview

# Linux caches a file in pieces as large as the writes that made it (up to 2 MiB), and a fault on a mapping of it makes
# the whole piece resident. With small pieces only the used parts of an embedding table become resident.
_CHUNK = 1 << 16
# The longest name that the usual file systems take, in bytes.
_LONGEST_NAME = 255


def write_atomically(path: str | os.PathLike[str], data: Data, *, durable: bool = True) -> None:
    """Write ``data`` to ``path``: beside it first, then renamed over it once it is safely on the disk.

    ``durable`` False does not wait for the disk: a power failure may leave an empty file. Raises ``SaveError`` (for a
    full disk, for example) and then leaves the old content of ``path``.
    """
    name = path_text(path, "cannot write", SaveError)
    try:
        _write(name, data, durable)
    except OSError as error:
        raise save_error(name, error) from error


def write_folder(folder: str | os.PathLike[str], files: Mapping[str, Data]) -> None:
    """Write ``files`` by their paths within ``folder``, which is created; other files in it stay.

    All are written beside their places before any is moved there. Raises ``SaveError`` and then leaves no new file and
    no new folder.
    """
    root = Path(path_text(folder, "cannot write into", SaveError))
    made: list[Path] = []
    waiting: dict[Path, Path] = {}  # a file's place: where it lies until it is moved there
    target = root
    try:
        for relative, data in files.items():
            target = root / relative
            _make_folders(target.parent, made)
            if target.is_dir():
                raise IsADirectoryError(0, "it is a folder")
            waiting[target] = beside = Path(_beside(os.fspath(target)))
            _create(os.fspath(beside), data, durable=True)
        for target, beside in waiting.items():
            os.replace(beside, target)
    except BaseException as error:
        for beside in waiting.values():
            with contextlib.suppress(OSError):  # it was never made
                beside.unlink()
        for path in reversed(made):
            with contextlib.suppress(OSError):  # other files are in it
                path.rmdir()
        if isinstance(error, OSError):
            raise save_error(target, error) from error
        raise


def check_file(path: str | os.PathLike[str], *, makes_folder: bool = False) -> None:
    """Checks, before long work, that a file can be written there. Raises ``SaveError`` when not.

    ``makes_folder``: whether writing it makes the folder that it goes into.
    """
    name = path_text(path, "cannot write", SaveError)
    target = os.path.realpath(name)
    folder = Path(target).parent
    while makes_folder and not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        _refuse_folder(name, target)
        if not _is_special(target):
            _try_file(folder / Path(target).name)
    except OSError as error:
        raise save_error(name, error) from error


def check_folder(path: str | os.PathLike[str]) -> None:
    """Checks, before long work, that files can be written into the folder, or that it can be made. Raises
    ``SaveError``."""
    name = path_text(path, "cannot write into", SaveError)
    place = next(p for p in (Path(name), *Path(name).parents) if os.path.exists(p))
    if not place.is_dir():
        raise SaveError(f"cannot write into {printable(name)}: {printable(place)} is a file, not a folder")
    try:
        _try_file(place / "try")
    except OSError as error:
        why = "" if isinstance(error, FileNotFoundError) else f": {error.strerror}"
        raise SaveError(
            f"cannot write into {printable(name)}: the folder {printable(place)} takes no files{why}"
        ) from error


def _is_special(target: str) -> bool:
    """Whether the path is something other than a regular file, which is written into, not replaced."""
    try:
        return not stat.S_ISREG(os.stat(target).st_mode)
    except FileNotFoundError:
        return False


def _try_file(target: Path) -> None:
    """Make an empty file beside ``target`` and remove it: permissions alone do not show what a file system accepts."""
    beside = _beside(os.fspath(target))
    _create(beside, b"", durable=False)
    os.unlink(beside)


def path_text(path: object, cannot: str, kind: type[RilletError]) -> str:
    """A caller's path as text. Raises ``kind`` for anything but a path, with ``cannot`` at the start of the message."""
    try:
        name = os.fsdecode(path)  # type: ignore[arg-type]
    except TypeError:
        raise kind(f"{cannot}: {type(path).__name__} is no path; pass a str or an os.PathLike") from None
    if not name:
        raise kind(f"{cannot} '': the path is empty")
    if "\0" in name:
        raise kind(f"{cannot} {name!r}: it is no path, as it has a zero character")
    return name


def save_error(path: str | os.PathLike[str], error: OSError) -> SaveError:
    """The error for a failed write, with a message in one line."""
    reason = error.strerror or str(error)
    if isinstance(error, FileNotFoundError):
        folder = os.path.dirname(os.fsdecode(path)) or "."
        missing = not os.path.isdir(folder)
        reason = f"there is no folder {printable(folder)}; create it first" if missing else "its folder takes no files"
    return SaveError(f"cannot write {printable(path)}: {reason}")


def printable(path: str | os.PathLike[str]) -> str:
    """A path as text that every terminal and log accepts; bytes that are no UTF-8 are escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _refuse_folder(name: str, target: str) -> None:
    if os.path.isdir(target):
        raise IsADirectoryError(0, "it is a folder")
    if name.endswith(os.sep):
        raise IsADirectoryError(0, "it names a folder")


def _write(name: str, data: Data, durable: bool) -> None:
    target = os.path.realpath(name)
    _refuse_folder(name, target)
    if _is_special(target):
        _write_into(target, data)
        return
    beside = _beside(target)
    try:
        _create(beside, data, durable)
        os.replace(beside, target)
    except BaseException:
        with contextlib.suppress(OSError):  # it was never made
            os.unlink(beside)
        raise
    if durable:
        _sync_folder(os.path.dirname(target))


def _beside(target: str) -> str:
    """An unused name in the folder of ``target``."""
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
    """Make a folder and its parents; the new ones are added to ``made``, outer ones first."""
    missing = []
    while not folder.exists() and folder != folder.parent:
        missing.append(folder)
        folder = folder.parent
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        made.append(path)


def _write_into(target: str, data: Data) -> None:
    """Write into something that is no regular file, such as a device, which must not be replaced."""
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
    """Makes the rename itself durable, where the system can."""
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
