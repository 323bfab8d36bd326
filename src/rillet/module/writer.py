"""The module file (docs/reference/module-file.md): header, FlatBuffer, aligned segments."""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rillet.errors import CompileError
from rillet.ir.image import Image, Segment
from rillet.module.library import CompiledLibrary
from rillet.module.schema import IDENTIFIER, Place, serialize

VERSION = 2
PRODUCER = "rillet"
# Magic, version, size and CRC-32 of the FlatBuffer.
_HEADER = struct.Struct("<4sIII")
_ALIGNMENT, _CONSTANT_ALIGNMENT = 64, 4096
# Zeros between parts are written in pieces of at most this size.
_ZEROS = bytes(1 << 16)


class Sink(Protocol):
    """Anything bytes can be written to in order: a file, an anonymous mapping."""

    def write(self, data: bytes | memoryview, /) -> object:
        """Append the bytes."""


@dataclass(frozen=True)
class ModuleFile:
    """A module file as pieces; ``size``: bytes in all."""

    head: bytes
    pieces: tuple[tuple[int, bytes | np.ndarray], ...]  # (offset, content), in order
    size: int

    def write(self, sink: Sink) -> None:
        """Write every byte in order; constants go out as they lie in memory."""
        position = 0
        for offset, content in ((0, self.head), *self.pieces):
            position = _pad(sink, position, offset)
            for data in _raw(content):
                sink.write(data)
                position += len(data)
        _pad(sink, position, self.size)


def write_module(
    image: Image,
    libraries: Sequence[CompiledLibrary],
    sink: Sink | None = None,
    *,
    stats: dict[str, int] | None = None,
    constant_alignment: int = _CONSTANT_ALIGNMENT,
) -> memoryview | None:
    """Write a module file to ``sink``, or into fresh page-aligned memory that is returned. See ``module_file``."""
    file = module_file(image, libraries, stats, constant_alignment)
    if sink is not None:
        file.write(sink)
        return None
    # An anonymous mapping is aligned as the runtime requires of modules; ``bytes`` are not.
    memory = mmap.mmap(-1, file.size)
    file.write(memory)
    return memoryview(memory)


def module_file(
    image: Image,
    libraries: Sequence[CompiledLibrary],
    stats: dict[str, int] | None = None,
    constant_alignment: int = _CONSTANT_ALIGNMENT,
) -> ModuleFile:
    """Lay out a module file. ``libraries`` come best first; ``stats`` are added to those of the image.

    ``constant_alignment``: in bytes, at least 64. Files that are mapped have pages of constants.

    Raises ``CompileError`` when a library's entries are not those the program dispatches to.
    """
    for library in libraries:
        if tuple(library.entries) != image.entries[library.kernels]:
            raise CompileError(f"internal: the library for '{library.target}' does not have the program's entries")
    code_bytes = sum(
        max((len(library.data) for library in libraries if library.kernels == kernels), default=0)
        for kernels in range(len(image.entries))
    )
    all_stats = {**image.stats, "code_bytes": code_bytes, **(stats or {})}
    checksums = [zlib.crc32(library.data) for library in libraries]
    # The size of the FlatBuffer does not depend on its offsets, so a first version tells where the segments start.
    empty = [Place(0, 0)] * len(image.segments), [Place(0, 0)] * len(libraries)
    length = len(serialize(image, libraries, *empty, all_stats, PRODUCER))
    end = _HEADER.size + length
    places, constants = [], []
    pieces: list[tuple[int, bytes | np.ndarray]] = []
    for library, checksum in zip(libraries, checksums, strict=True):
        offset = _round_up(end, _ALIGNMENT)
        places.append(Place(offset, len(library.data), checksum))
        pieces.append((offset, library.data))
        end = offset + len(library.data)
    for segment in image.segments:
        offset = _round_up(end, constant_alignment)
        constants.append(Place(offset, segment.length, _checksum(segment)))
        pieces += [(offset + start, array) for start, array in segment.parts]
        end = offset + segment.length
    table = serialize(image, libraries, constants, places, all_stats, PRODUCER)
    if len(table) != length:
        raise CompileError("internal: the module table changed its size with its offsets")
    return ModuleFile(_HEADER.pack(IDENTIFIER, VERSION, length, zlib.crc32(table)) + table, tuple(pieces), end)


def _checksum(segment: Segment) -> int:
    """The CRC-32 of a segment's bytes, gaps between its parts included."""
    checksum, position = 0, 0
    for start, array in segment.parts:
        checksum, position = zlib.crc32(bytes(start - position), checksum), start
        for data in _raw(array):
            checksum = zlib.crc32(data, checksum)
            position += len(data)
    return zlib.crc32(bytes(segment.length - position), checksum)


def _raw(content: bytes | np.ndarray) -> Iterator[bytes | memoryview]:
    if isinstance(content, bytes):
        yield content
    elif content.size:
        little = content if content.dtype.byteorder != ">" else content.astype(content.dtype.newbyteorder("<"))
        yield np.ascontiguousarray(little).reshape(-1).view(np.uint8).data


def _pad(sink: Sink, position: int, offset: int) -> int:
    while position < offset:
        count = min(offset - position, len(_ZEROS))
        sink.write(_ZEROS[:count])
        position += count
    return position


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
