"""Reads ELF objects: sections, symbols and the floating-point calling convention."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from rillet.codegen.cpu.object_code import leb128
from rillet.codegen.cpu.object_code.sizes import Sizes

MAGIC = b"\x7fELF"

_SHF_WRITE, _SHF_ALLOC, _SHF_EXECINSTR = 1, 2, 4
_SHT_SYMTAB, _SHT_NOBITS, _SHT_ARM_ATTRIBUTES = 2, 8, 0x70000003
EM_ARM, EM_RISCV = 40, 243
_TAG_ABI_VFP_ARGS = 28
_STRING_TAGS = (4, 5, 65, 67)  # Tag_CPU_raw_name, Tag_CPU_name, Tag_also_compatible_with, Tag_conformance


@dataclass(frozen=True)
class Section:
    """``link``, ``info``: numbers of related sections, such as the names of a symbol table or the target of
    relocations."""

    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int

    @property
    def is_loaded(self) -> bool:
        """Whether the section takes memory at run time."""
        return bool(self.flags & _SHF_ALLOC)

    @property
    def is_code(self) -> bool:
        """Whether the section holds instructions."""
        return bool(self.flags & _SHF_EXECINSTR)


@dataclass(frozen=True)
class Symbol:
    """``section``: the number of the defining section, 0 for none."""

    name: str
    section: int


def sizes(blob: bytes) -> Sizes:
    """Sizes of a relocatable object or a kernel. Unwind tables of functions that do not unwind are left out."""
    total = Sizes()
    for section in sections(blob):
        if not section.is_loaded or section.kind not in (1, _SHT_NOBITS):
            continue
        if section.kind == _SHT_NOBITS:
            total += Sizes(bss=section.size)
        elif section.flags & _SHF_EXECINSTR:
            total += Sizes(text=section.size)
        elif section.flags & _SHF_WRITE:
            total += Sizes(data=section.size)
        else:
            total += Sizes(rodata=section.size)
    return total


def undefined_symbols(blob: bytes) -> list[str]:
    """The names a relocatable object (32- or 64-bit, little-endian) leaves undefined, sorted."""
    names = {symbol.name for symbol in symbols(blob) if not symbol.section}
    return sorted(names - {"", "_GLOBAL_OFFSET_TABLE_"})


def symbols(blob: bytes) -> Iterator[Symbol]:
    """An object's symbols (32- or 64-bit, little-endian), as relocations number them."""
    wide = blob[4] == 2
    known = sections(blob)
    for table in known:
        if table.kind != _SHT_SYMTAB:
            continue
        strings = known[table.link].offset
        for at in range(table.offset, table.offset + table.size, 24 if wide else 16):
            start = strings + struct.unpack_from("<I", blob, at)[0]
            (section,) = struct.unpack_from("<H", blob, at + (6 if wide else 14))
            yield Symbol(blob[start : blob.index(b"\0", start)].decode(), section)


def float_abi(blob: bytes) -> str | None:
    """ "hard" or "soft" for Arm and RISC-V objects; None where the architecture has one convention only."""
    (machine,) = struct.unpack_from("<H", blob, 18)
    if machine == EM_RISCV:
        (flags,) = struct.unpack_from("<I", blob, 48 if blob[4] == 2 else 36)
        return "hard" if flags & 6 else "soft"
    if machine != EM_ARM:
        return None
    for section in sections(blob):
        if section.kind == _SHT_ARM_ATTRIBUTES:
            attributes = _arm_attributes(blob[section.offset : section.offset + section.size])
            return "hard" if attributes.get(_TAG_ABI_VFP_ARGS, 0) == 1 else "soft"
    return "soft"


def sections(blob: bytes) -> list[Section]:
    """An ELF file's sections (32- or 64-bit, little-endian), in order."""
    wide = blob[4] == 2
    (start,) = struct.unpack_from("<Q" if wide else "<I", blob, 40 if wide else 32)
    entry_size, count, names = struct.unpack_from("<HHH", blob, 58 if wide else 46)
    headers = [
        struct.unpack_from("<IIQQQQII" if wide else "<IIIIIIII", blob, start + number * entry_size)
        for number in range(count)
    ]
    found = []
    for name, kind, flags, _, offset, size, link, info in headers:
        at = headers[names][4] + name
        found.append(Section(blob[at : blob.index(b"\0", at)].decode(), kind, flags, offset, size, link, info))
    return found


def _arm_attributes(content: bytes) -> dict[int, int]:
    """The file's numeric attributes ("Addenda to, and Errata in, the ABI for the Arm Architecture")."""
    found: dict[int, int] = {}
    position = 1  # after the format version 'A'
    while position < len(content):
        (length,) = struct.unpack_from("<I", content, position)
        end = position + length
        cursor = content.index(b"\0", position + 4) + 1
        while cursor < end:
            tag, cursor = leb128.read(content, cursor)
            (size,) = struct.unpack_from("<I", content, cursor)
            stop, cursor = cursor - 1 + size, cursor + 4
            while tag == 1 and cursor < stop:
                key, cursor = leb128.read(content, cursor)
                if key in _STRING_TAGS:
                    cursor = content.index(b"\0", cursor) + 1
                else:
                    found[key], cursor = leb128.read(content, cursor)
            cursor = stop
        position = end
    return found
