"""Unsigned LEB128 numbers, as ELF attributes and WebAssembly store them."""

from __future__ import annotations


def read(content: bytes, position: int) -> tuple[int, int]:
    """The number at ``position`` and the position after it."""
    value = shift = 0
    while True:
        byte = content[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
