"""Compiled libraries of one target, ready to be put into a module file."""

from __future__ import annotations

from dataclasses import dataclass

EMBEDDED_ELF, SYSTEM_LIBRARY, STATIC = range(3)


@dataclass(frozen=True)
class CompiledLibrary:
    """``features``: CPU features that must be present, by LLVM's names; ``entries``: entry names in ordinal order."""

    target: str
    arch: str
    features: tuple[str, ...]
    format: int
    data: bytes
    entries: list[str]
