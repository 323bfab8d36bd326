"""Sizes of the C runtime's structures for a target, from its own sources: what ``session_memory`` counts with."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from rillet.codegen import cache
from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.cpu.object_code.zig import zig
from rillet.export import runtime_library
from rillet.support.temporary_folder import scratch_folder

# C expressions: in sizes of bytes, as the sources named in _SOURCE see them.
_EXPRESSIONS = {
    "byte": "1",
    "int64": "sizeof(int64_t)",
    "pointer": "sizeof(void*)",
    "header": "sizeof(header_t)",
    "alignment": "_Alignof(max_align_t)",
    "word": "sizeof(int64_t) > sizeof(void*) ? sizeof(int64_t) : sizeof(void*)",
    "file": "sizeof(rlt_session_file_t)",
    "session": "sizeof(rlt_session_t)",
    "device": "sizeof(sync_device_t)",
    "scratch": "sizeof(rlt_cpu_scratch_t)",
    "library": "sizeof(rlt_cpu_library_t)",
    "buffer": "sizeof(rlt_buffer_t)",
    "view": "sizeof(rlt_buffer_view_t)",
    "commands": "sizeof(rlt_command_buffer_t)",
    "slot": "sizeof(rlt_slot_t)",
    "command": "sizeof(rlt_command_t)",
    "binding": "sizeof(rlt_binding_t)",
    "source_function": "sizeof(rlt_vm_function_t)",
    "source_import": "sizeof(rlt_vm_import_t)",
    "source_export": "sizeof(rlt_vm_export_t)",
    "vm_module": "sizeof(rlt_vm_module_t)",
    "function": "sizeof(function_t)",
    "import": "sizeof(import_t)",
    "export": "sizeof(rlt_vm_export_t)",
    "frames": "sizeof(stack_t)",
}
_INCLUDED = ("base/arena.c", "drivers/cpu/sync.c", "program/session.h", "vm/internal.h")
_VALUE = re.compile(r"^\s*\.(?:long|word|4byte|int32)\s+(\d+)", re.MULTILINE)


def measure(target: CpuTarget, directory: Path | None) -> Mapping[str, int]:
    """Bytes by name. ``directory``: a cache that keeps them. Raises ``CompileError`` when compiling fails."""
    configuration = runtime_library.STATIC
    made_from = f"{runtime_library.digest(target, configuration)} {_EXPRESSIONS} {_INCLUDED}"
    kept = directory / f"sizes-{hashlib.sha256(made_from.encode()).hexdigest()[:32]}" if directory else None
    if kept and (stored := cache.read(kept)):
        return {name: int(value) for name, value in stored[0].items()}
    sizes = _compiled(runtime_library.flags(target, configuration), target)
    if kept:
        cache.write(kept, sizes, b"")
    return sizes


def _compiled(flags: list[str], target: CpuTarget) -> dict[str, int]:
    lines = [f'#include "{name}"' for name in _INCLUDED]
    lines.append(f"const uint32_t sizes[] = {{{', '.join(_EXPRESSIONS.values())}}};")
    with scratch_folder("sizes") as folder:
        (folder / "sizes.c").write_text("\n".join(lines) + "\n", "utf-8")
        command = ["cc", *flags, "-S", "sizes.c", "-o", "sizes.s"]
        zig(command, f"measuring the runtime for {target.name}", folder)
        assembly = (folder / "sizes.s").read_text("utf-8")
    values = _VALUE.findall(assembly[assembly.index("\nsizes:") :])
    return dict(zip(_EXPRESSIONS, map(int, values[: len(_EXPRESSIONS)]), strict=True))
