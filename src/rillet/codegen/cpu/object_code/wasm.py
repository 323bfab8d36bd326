"""Reads WebAssembly objects and modules: sections and imports (WebAssembly Core Specification 2.0, chapter 5)."""

from __future__ import annotations

from collections.abc import Iterator

from rillet.codegen.cpu.object_code import leb128
from rillet.codegen.cpu.object_code.sizes import Sizes

MAGIC = b"\0asm"

_CUSTOM, _IMPORT, _CODE, _DATA = 0, 2, 10, 11
_SEGMENT_INFO = 5  # of the section "linking" (the tool conventions' Linking.md)
_FUNCTION, _TABLE, _MEMORY = range(3)
# The linker provides memory, the stack pointer and the table of functions.
_OF_THE_LINKER = ("__linear_memory", "__stack_pointer", "__indirect_function_table")


def sizes(blob: bytes) -> Sizes:
    """Sizes of an object or module: the bodies of its functions, and its data. Objects store zeroed data in full."""
    text, lengths, names = 0, list[int](), list[str]()
    for kind, content in _sections(blob):
        if kind == _CODE:
            text = len(content)
        elif kind == _DATA:
            lengths = list(_segment_lengths(content))
        elif kind == _CUSTOM and _name(content, 0)[0] == "linking":
            names = list(_segment_names(content))
    zeroed = sum(n for n, name in zip(lengths, names, strict=False) if name.startswith(".bss"))
    return Sizes(text=text, rodata=sum(lengths) - zeroed, bss=zeroed)


def undefined_symbols(blob: bytes) -> list[str]:
    """The names of the functions, tables and globals that an object imports, except those the linker provides;
    sorted."""
    names: set[str] = set()
    for kind, content in _sections(blob):
        if kind == _IMPORT:
            names.update(_imports(content))
    return sorted(names - set(_OF_THE_LINKER))


def float_abi(blob: bytes) -> None:
    """None: WebAssembly has one calling convention only."""


def _sections(blob: bytes) -> Iterator[tuple[int, bytes]]:
    position = 8  # after the magic number and the version
    while position < len(blob):
        kind = blob[position]
        length, position = leb128.read(blob, position + 1)
        yield kind, blob[position : position + length]
        position += length


def _segment_lengths(content: bytes) -> Iterator[int]:
    count, position = leb128.read(content, 0)
    for _ in range(count):
        mode, position = leb128.read(content, position)
        if mode == 2:
            _, position = leb128.read(content, position)  # the memory's number
        if mode != 1:
            _, position = leb128.read(content, position + 1)  # one instruction: a constant or a global
            position += 1  # its end
        length, position = leb128.read(content, position)
        yield length
        position += length


def _segment_names(content: bytes) -> Iterator[str]:
    _, position = _name(content, 0)
    _, position = leb128.read(content, position)  # the version
    while position < len(content):
        kind, position = content[position], position + 1
        length, position = leb128.read(content, position)
        if kind == _SEGMENT_INFO:
            count, cursor = leb128.read(content, position)
            for _ in range(count):
                name, cursor = _name(content, cursor)
                _, cursor = leb128.read(content, cursor)  # alignment
                _, cursor = leb128.read(content, cursor)  # flags
                yield name
        position += length


def _imports(content: bytes) -> Iterator[str]:
    count, position = leb128.read(content, 0)
    for _ in range(count):
        _, position = _name(content, position)
        name, position = _name(content, position)
        yield name
        kind, position = content[position], position + 1
        if kind == _FUNCTION:
            _, position = leb128.read(content, position)
        elif kind in (_TABLE, _MEMORY):
            position = _limits(content, position + (kind == _TABLE))
        else:
            position += 2  # a global: its type and whether it changes


def _limits(content: bytes, position: int) -> int:
    has_maximum = content[position] & 1
    _, position = leb128.read(content, position + 1)
    return leb128.read(content, position)[1] if has_maximum else position


def _name(content: bytes, position: int) -> tuple[str, int]:
    length, position = leb128.read(content, position)
    return content[position : position + length].decode(), position + length
