"""Compiled libraries of one target, ready to be put into a module file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rillet.targets import Target


@dataclass(frozen=True)
class CompiledLibrary:
    """``features``: CPU features that must be present, by LLVM's names; ``entries``: entry names in ordinal order.

    ``kernels``: the number of its set of kernels.
    """

    target: str
    arch: str
    features: tuple[str, ...]
    format: int
    data: bytes
    entries: list[str]
    kernels: int = 0

    @staticmethod
    def of(target: Target, format: int, data: bytes, entries: Iterable[str], kernels: int = 0) -> CompiledLibrary:
        """The library of ``target`` that a backend linked."""
        machine = target.machine
        return CompiledLibrary(target.name, machine.arch, machine.features, format, data, list(entries), kernels)
