"""The most stack that a program takes: the deepest path through its calls, each function counted once.

Calls are found in the relocations of an object in which each function has its own section and records its frame
(``-ffunction-sections -fstack-size-section``). A call through a pointer may reach every function whose address is taken
somewhere. Functions that reach each other are treated as one, so that a recursive function counts once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from rillet.codegen.cpu.object_code import elf, leb128
from rillet.errors import CompileError

_SHT_RELA, _SHT_REL = 4, 9
_UNWINDING = (".ARM.exidx", ".ARM.extab", ".eh_frame")  # they refer to functions without calling them
_SIZES = ".stack_sizes"


@dataclass(frozen=True)
class _Machine:
    """Relocation types. ``calls``: direct calls and jumps; ``pairs``: those of them that the instruction of an indirect
    call follows; ``local``: references to a place in the function itself."""

    calls: frozenset[int]
    pairs: frozenset[int] = frozenset()
    local: frozenset[int] = frozenset()


_MACHINES = {
    elf.EM_ARM: _Machine(calls=frozenset((10, 28, 29, 30, 51))),  # THM_CALL, CALL, JUMP24, THM_JUMP24, THM_JUMP19
    elf.EM_RISCV: _Machine(  # BRANCH, JAL, CALL, CALL_PLT; PCREL_LO12_I and _S
        calls=frozenset((16, 17, 18, 19)), pairs=frozenset((18, 19)), local=frozenset((24, 25))
    ),
}


@dataclass
class _Graph:
    """The calls between functions, by the number of each function's section."""

    frames: dict[int, int] = field(default_factory=dict)
    uses: dict[int, set[int]] = field(default_factory=dict)  # functions that it calls, or whose address it takes
    taken: set[int] = field(default_factory=set)  # functions whose address is taken
    jumps: dict[int, set[int]] = field(default_factory=dict)  # where the second half of a direct call lies


def deepest(blob: bytes, entry: str) -> int:
    """The most bytes of stack that a call of ``entry`` takes, without the frames of undefined functions.

    ``blob``: a 32-bit relocatable object for Arm (Thumb) or RISC-V. Raises ``CompileError`` for any other object, and
    where a function does not record its frame.
    """
    machine = _MACHINES.get(struct.unpack_from("<H", blob, 18)[0])
    if machine is None or blob[4] != 1:
        raise CompileError("internal: the calls of a program for this architecture are not known")
    sections = elf.sections(blob)
    graph = _graph(blob, sections, machine)
    for number, section in enumerate(sections):
        if section.is_code and section.size and number not in graph.frames:
            raise CompileError(f"internal: the stack that '{section.name}' needs is not known")
        if section.is_code and _calls_pointers(blob, section, graph.jumps.get(number, set())):
            graph.uses.setdefault(number, set()).update(graph.taken)
    start = next(s.section for s in elf.symbols(blob) if s.name == entry)
    return _deepest_way(start, graph.frames, graph.uses)


def _graph(blob: bytes, sections: list[elf.Section], machine: _Machine) -> _Graph:
    symbols = list(elf.symbols(blob))
    graph = _Graph()
    for section in sections:
        if section.name == _SIZES:
            size, _ = leb128.read(blob, section.offset + 4)  # after the address
            graph.frames[section.link] = size
    for section in sections:
        patched = sections[section.info] if section.kind in (_SHT_REL, _SHT_RELA) else None
        if patched is None or not patched.is_loaded or patched.name.startswith(_UNWINDING):
            continue
        for offset, kind, symbol in _relocations(blob, section):
            target = symbols[symbol].section
            if kind in machine.pairs:
                graph.jumps.setdefault(section.info, set()).add(offset + 4)
            if target not in graph.frames or (kind in machine.local and target == section.info):
                continue
            if patched.is_code:
                graph.uses.setdefault(section.info, set()).add(target)
            if not patched.is_code or kind not in machine.calls:
                graph.taken.add(target)
    return graph


def _relocations(blob: bytes, section: elf.Section) -> Iterator[tuple[int, int, int]]:
    """(where, kind, number of the symbol)"""
    step = 12 if section.kind == _SHT_RELA else 8
    for at in range(section.offset, section.offset + section.size, step):
        offset, info = struct.unpack_from("<II", blob, at)
        yield offset, info & 0xFF, info >> 8


def _calls_pointers(blob: bytes, section: elf.Section, jumps: set[int]) -> bool:
    """Whether some instruction may call through a register. Data that only looks like such an instruction counts,
    too."""
    code = blob[section.offset : section.offset + section.size]
    if struct.unpack_from("<H", blob, 18)[0] == elf.EM_ARM:
        words = (word for (word,) in struct.iter_unpack("<H", code[: len(code) & ~1]))
        return any(word & 0xFF87 == 0x4780 or (word & 0xFF87 == 0x4700 and word != 0x4770) for word in words)
    if struct.unpack_from("<I", blob, 36)[0] & 1:  # compressed instructions, which are not distinguished here
        return True
    words = (word for (word,) in struct.iter_unpack("<I", code[: len(code) & ~3]))
    # jalr, unless it returns (jalr x0, 0(ra)) or ends a direct call.
    return any(w & 0x7F == 0x67 and w != 0x8067 and 4 * n not in jumps for n, w in enumerate(words))


def _deepest_way(start: int, frames: Mapping[int, int], uses: Mapping[int, Iterable[int]]) -> int:
    @cache
    def reached(function: int) -> frozenset[int]:
        found, pending = set[int](), [function]
        while pending:
            for other in uses.get(pending.pop(), ()):
                if other not in found:
                    found.add(other)
                    pending.append(other)
        return frozenset(found)

    @cache
    def depth(together: frozenset[int]) -> int:
        """The deepest path from a set of functions that reach each other."""
        behind = {other for function in together for other in uses.get(function, ())} - together
        return sum(frames[f] for f in together) + max((depth(group(other)) for other in behind), default=0)

    def group(function: int) -> frozenset[int]:
        return frozenset({function, *(other for other in reached(function) if function in reached(other))})

    return depth(group(start))
