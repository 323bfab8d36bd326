"""The compiler's output for the module writer: bytecode, signatures and the layout of constants, free of MLIR."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np


class LibraryFormat(IntEnum):
    """The kinds of kernel libraries, by which a loader recognizes its own (``runtime/include/rillet``)."""

    EMBEDDED_ELF = 0
    SYSTEM_LIBRARY = 1
    STATIC = 2


@dataclass(frozen=True)
class TensorSpec:
    """An input or output. ``dims`` holds -1 for dynamic extents; ``dim_names`` their names, "" for none.

    ``default``: the number of the segment with the value of an input that calls may leave out.
    """

    name: str
    dtype: int  # element type code
    dims: tuple[int, ...]
    dim_names: tuple[str, ...]
    default: int | None = None


@dataclass(frozen=True)
class Function:
    """One function: signature strings of ``i`` and ``r``, register counts, and code as 16-bit words."""

    name: str
    arguments: str
    results: str
    int_registers: int
    ref_registers: int
    code: tuple[int, ...]


@dataclass(frozen=True)
class Import:
    """A function of the runtime; a trailing ``*`` in ``arguments`` means any number of the kind before it."""

    name: str
    arguments: str
    results: str


@dataclass(frozen=True)
class Export:
    """A function that callers see: ``function`` is its ordinal."""

    name: str
    function: int
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


@dataclass(frozen=True)
class Segment:
    """Constants side by side: ``parts`` are (offset, array); the bytes between them are zero. Arrays are not copied."""

    length: int
    parts: tuple[tuple[int, np.ndarray], ...]


@dataclass(frozen=True)
class EntryFacts:
    """The work of one dispatch of an entry, for profiles. Dynamic extents count as 1."""

    macs: int
    bytes: int
    sources: str


@dataclass(frozen=True)
class ProgramDevice:
    """A device of a host program: its name in the program, and the driver that it asks for ("cpu": any CPU driver).

    ``kernels``: the number of the set of kernels that it runs.
    """

    name: str
    driver: str
    kernels: int = 0


@dataclass(frozen=True)
class Image:
    """A complete host program. ``entries``: for each set of kernels, entry names in ordinal order; ``facts`` of each
    entry of all sets, or none.

    ``messages``: the texts of the program's checks when they fail, by the ordinal that they pass. ``devices`` by
    ordinal.
    """

    functions: tuple[Function, ...]
    imports: tuple[Import, ...]
    exports: tuple[Export, ...]
    int_globals: int
    ref_globals: int
    segments: tuple[Segment, ...]
    entries: tuple[tuple[str, ...], ...]
    stats: dict[str, int] = field(default_factory=dict)
    facts: tuple[EntryFacts, ...] = ()
    messages: tuple[str, ...] = ()
    devices: tuple[ProgramDevice, ...] = (ProgramDevice("cpu", "cpu"),)
