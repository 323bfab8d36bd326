"""Bytes of an object file by kind."""

from __future__ import annotations

from dataclasses import dataclass


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
        """Bytes in read-only memory."""
        return self.text + self.rodata + self.data
