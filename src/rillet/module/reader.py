"""Reads back what the writer wrote, for inspection and tests. The loader that users depend on is the C runtime's.

Offsets are those of a file that the runtime accepts: only the header is checked here.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from flatbuffers import encode, number_types, packer
from flatbuffers.table import Table

from rillet.errors import LoadError
from rillet.ir.image import Export, Function, Import, TensorSpec
from rillet.module.schema import IDENTIFIER, Place


@dataclass(frozen=True)
class LibraryEntry:
    """One library in a file."""

    target: str
    arch: str
    features: tuple[str, ...]
    format: int
    place: Place
    entries: tuple[str, ...]


@dataclass(frozen=True)
class DeviceEntry:
    """One device of a file's program. ``libraries``: the variants of its kernels, best first, by number.

    ``first_fact``: the number of the file's entry fact for its entry 0.
    """

    name: str
    driver: str
    libraries: tuple[int, ...]
    first_fact: int


@dataclass(frozen=True)
class Contents:
    """Everything in a module file but the bytes of its segments."""

    producer: str
    imports: tuple[Import, ...]
    functions: tuple[Function, ...]
    exports: tuple[Export, ...]
    int_globals: int
    ref_globals: int
    constants: tuple[Place, ...]
    libraries: tuple[LibraryEntry, ...]
    stats: dict[str, int]
    messages: tuple[str, ...]
    devices: tuple[DeviceEntry, ...]


def read_module(data: bytes | memoryview) -> Contents:
    """Parse the table of a module file. Raises ``LoadError`` when ``data`` does not start like one."""
    if len(data) < 24 or bytes(data[:4]) != IDENTIFIER:
        raise LoadError("not a Rillet module file")
    size = struct.unpack_from("<I", data, 8)[0]
    buffer = bytes(data[16 : 16 + size])
    root = _Table(Table(buffer, encode.Get(packer.uoffset, buffer, 0)))
    code = root.scalars(4, "<u2")
    return Contents(
        producer=root.text(0),
        imports=tuple(Import(t.text(0), t.text(1), t.text(2)) for t in root.tables(1)),
        functions=tuple(_function(t, code) for t in root.tables(2)),
        exports=tuple(_export(t) for t in root.tables(3)),
        int_globals=root.number(5, number_types.Uint32Flags),
        ref_globals=root.number(6, number_types.Uint32Flags),
        constants=tuple(_place(t) for t in root.tables(7)),
        libraries=tuple(_library(t) for t in root.tables(8)),
        stats={t.text(0): t.number(1, number_types.Int64Flags) for t in root.tables(9)},
        messages=root.texts(11),
        devices=tuple(_device(t) for t in root.tables(12)),
    )


class _Table:
    """Fields of a FlatBuffer table by their slot."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def number(self, slot: int, flags: type) -> int:
        return int(self._table.GetSlot(4 + 2 * slot, 0, flags))

    def text(self, slot: int) -> str:
        return str(self._table.String(self._position(slot)).decode())

    def table(self, slot: int) -> _Table:
        return _Table(Table(self._table.Bytes, self._table.Indirect(self._position(slot))))

    def tables(self, slot: int) -> list[_Table]:
        return [_Table(Table(self._table.Bytes, self._table.Indirect(p))) for p in self._elements(slot)]

    def texts(self, slot: int) -> tuple[str, ...]:
        return tuple(self._table.String(p).decode() for p in self._elements(slot))

    def scalars(self, slot: int, dtype: str) -> tuple[int, ...]:
        offset = self._table.Offset(4 + 2 * slot)
        if not offset or not self._table.VectorLen(offset):
            return ()
        kinds = {"<u2": number_types.Uint16Flags, "<u4": number_types.Uint32Flags, "<i8": number_types.Int64Flags}
        flags = kinds[dtype]
        return tuple(int(v) for v in self._table.GetVectorAsNumpy(flags, offset))

    def _position(self, slot: int) -> int:
        return int(self._table.Offset(4 + 2 * slot) + self._table.Pos)

    def _elements(self, slot: int) -> list[int]:
        offset = self._table.Offset(4 + 2 * slot)
        if not offset:
            return []
        start = self._table.Vector(offset)
        return [start + 4 * i for i in range(self._table.VectorLen(offset))]


def _function(t: _Table, code: tuple[int, ...]) -> Function:
    ints, refs = (t.number(slot, number_types.Uint16Flags) for slot in (3, 4))
    start, length = (t.number(slot, number_types.Uint32Flags) for slot in (5, 6))
    return Function(t.text(0), t.text(1), t.text(2), ints, refs, code[start : start + length])


def _export(t: _Table) -> Export:
    inputs, outputs = (tuple(_spec(s) for s in t.tables(slot)) for slot in (2, 3))
    return Export(t.text(0), t.number(1, number_types.Uint32Flags), inputs, outputs)


def _spec(t: _Table) -> TensorSpec:
    default = t.number(4, number_types.Uint32Flags)
    dtype, dims, names = t.number(1, number_types.Uint8Flags), t.scalars(2, "<i8"), t.texts(3)
    return TensorSpec(t.text(0), dtype, dims, names, default - 1 if default else None)


def _place(t: _Table) -> Place:
    offset, length = (t.number(slot, number_types.Uint64Flags) for slot in (0, 1))
    return Place(offset, length, t.number(2, number_types.Uint32Flags))


def _device(t: _Table) -> DeviceEntry:
    return DeviceEntry(t.text(0), t.text(1), t.scalars(2, "<u4"), t.number(3, number_types.Uint32Flags))


def _library(t: _Table) -> LibraryEntry:
    return LibraryEntry(
        t.text(0), t.text(2), t.texts(3), t.number(1, number_types.Uint8Flags), _place(t.table(4)), t.texts(5)
    )
