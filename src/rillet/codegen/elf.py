"""Reads ELF objects that the code generator made: section sizes and the floating-point calling convention."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from rillet.errors import CompileError
from rillet.targets import Target

_SHF_WRITE, _SHF_ALLOC, _SHF_EXECINSTR = 1, 2, 4
_SHT_NOBITS, _SHT_ARM_ATTRIBUTES = 8, 0x70000003
_EM_ARM, _EM_RISCV = 40, 243
_TAG_ABI_VFP_ARGS = 28
_STRING_TAGS = (4, 5, 65, 67)  # Tag_CPU_raw_name, Tag_CPU_name, Tag_also_compatible_with, Tag_conformance


@dataclass(frozen=True)
class Sizes:
    """Bytes of an object by kind: code, read-only data, initialized data, zeroed data."""

    text: int = 0
    rodata: int = 0
    data: int = 0
    bss: int = 0

    def __add__(self, other: Sizes) -> Sizes:
        return Sizes(self.text + other.text, self.rodata + other.rodata, self.data + other.data, self.bss + other.bss)

    @property
    def flash(self) -> int:
        """What lies in read-only memory."""
        return self.text + self.rodata + self.data


@dataclass(frozen=True)
class _Section:
    kind: int
    flags: int
    offset: int
    size: int


def sizes(blob: bytes) -> Sizes:
    """Sizes of a relocatable object or an executable. Unwind tables of functions that do not unwind are left out."""
    total = Sizes()
    for section in _sections(blob):
        if not section.flags & _SHF_ALLOC or section.kind not in (1, _SHT_NOBITS):
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


def check_float_abi(blob: bytes, target: Target, what: str) -> None:
    """Refuse an object that passes floats otherwise than the target says: linkers mix the two without a word.

    Raises ``CompileError``.
    """
    found = float_abi(blob)
    if found is not None and found != target.float_abi:
        raise CompileError(
            f"{what} passes floating-point arguments by the {found}-float convention, but target {target.name} uses "
            f"the {target.float_abi}-float one: linking them would give wrong results"
        )


def float_abi(blob: bytes) -> str | None:
    """ "hard" or "soft" for Arm and RISC-V objects; None where the architecture has one convention only."""
    (machine,) = struct.unpack_from("<H", blob, 18)
    if machine == _EM_RISCV:
        (flags,) = struct.unpack_from("<I", blob, 48 if blob[4] == 2 else 36)
        return "hard" if flags & 6 else "soft"
    if machine != _EM_ARM:
        return None
    for section in _sections(blob):
        if section.kind == _SHT_ARM_ATTRIBUTES:
            attributes = _arm_attributes(blob[section.offset : section.offset + section.size])
            return "hard" if attributes.get(_TAG_ABI_VFP_ARGS, 0) == 1 else "soft"
    return "soft"


def _sections(blob: bytes) -> list[_Section]:
    if blob[:4] != b"\x7fELF":
        raise CompileError("internal: the code generator did not make an ELF object")
    wide = blob[4] == 2
    (start,) = struct.unpack_from("<Q" if wide else "<I", blob, 40 if wide else 32)
    entry_size, count = struct.unpack_from("<HH", blob, 58 if wide else 46)
    found = []
    for number in range(count):
        header = start + number * entry_size
        if wide:
            kind, flags, _, offset, size = struct.unpack_from("<IQQQQ", blob, header + 4)
        else:
            kind, flags, _, offset, size = struct.unpack_from("<IIIII", blob, header + 4)
        found.append(_Section(kind, flags, offset, size))
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
            tag, cursor = _uleb(content, cursor)
            (size,) = struct.unpack_from("<I", content, cursor)
            stop, cursor = cursor - 1 + size, cursor + 4
            while tag == 1 and cursor < stop:
                key, cursor = _uleb(content, cursor)
                if key in _STRING_TAGS:
                    cursor = content.index(b"\0", cursor) + 1
                else:
                    found[key], cursor = _uleb(content, cursor)
            cursor = stop
        position = end
    return found


def _uleb(content: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
