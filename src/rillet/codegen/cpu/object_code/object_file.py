"""Facts about an object file in any format (ELF or WebAssembly): sizes, imports, calling convention."""

from __future__ import annotations

from types import ModuleType

from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.cpu.object_code import elf, wasm
from rillet.codegen.cpu.object_code.sizes import Sizes
from rillet.errors import CompileError


def sizes(blob: bytes) -> Sizes:
    """Sizes of a relocatable object or a kernel."""
    return _reader(blob).sizes(blob)  # type: ignore[no-any-return]


def undefined_symbols(blob: bytes) -> list[str]:
    """The names that a relocatable object leaves undefined, sorted."""
    return _reader(blob).undefined_symbols(blob)  # type: ignore[no-any-return]


def check_float_abi(blob: bytes, target: CpuTarget, what: str) -> None:
    """Raises ``CompileError`` for an object that passes floats in other registers than the target says, since linkers
    mix the two silently."""
    found = _reader(blob).float_abi(blob)
    if found is not None and found != target.machine.float_abi:
        raise CompileError(
            f"{what} passes floating-point arguments by the {found}-float convention, but target {target.name} uses "
            f"the {target.machine.float_abi}-float one: linking them would give wrong results"
        )


def _reader(blob: bytes) -> ModuleType:
    if blob[:4] == elf.MAGIC:
        return elf
    if blob[:4] == wasm.MAGIC:
        return wasm
    raise CompileError("internal: the code generator made neither an ELF nor a WebAssembly object")
