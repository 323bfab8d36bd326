"""Links kernel objects into one embedded ELF: a shared object without libc, dynamic linker or symbolic relocations.

Its only export is ``rlt_kernel_query``, which returns the table of entries (docs/reference/kernel-abi.md).
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.cpu.object_code import helpers, object_file
from rillet.codegen.cpu.object_code.llvm import emit_object
from rillet.codegen.cpu.result import CpuKernel
from rillet.errors import CompileError
from rillet.support.temporary_folder import scratch_folder

ABI_VERSION = 1

_ENTRY_TYPE = "{ ptr, ptr, ptr, i32, i32, i32, i32 }"
_LIBRARY_TYPE = "{ i32, i32, ptr }"

_LINK_FLAGS = (
    "-shared",
    "-nostdlib",
    "--no-undefined",
    "--hash-style=sysv",
    "--gc-sections",
    "--build-id=none",
    "-znorelro",
    "-znoexecstack",
    "-zmax-page-size=4096",
    "--icf=all",
    "-s",
    "-erlt_kernel_query",
    "--no-eh-frame-hdr",
)


def link_embedded_elf(kernel_texts: Sequence[CpuKernel], target: CpuTarget) -> bytes:
    """Link the objects in ordinal order into an embedded ELF and return its bytes.

    Raises ``CompileError`` when the linker refuses, naming the symbol it misses.
    """
    table = emit_object(table_ir(kernel_texts, target), target)
    with scratch_folder("link") as folder:
        names = []
        called = {symbol for e in kernel_texts for symbol in object_file.undefined_symbols(e.object)}
        helping = [blob for _, blob in helpers.objects(called, target)]
        for ordinal, blob in enumerate([table, *(e.object for e in kernel_texts), *helping]):
            names.append(f"{ordinal}.o")  # relative: the folder's path may hold a response file's syntax
            (folder / names[-1]).write_bytes(blob)
        (folder / "objects.rsp").write_text("\n".join(names))  # thousands of objects would not fit a command line
        command = [_linker(), "ld.lld", *_LINK_FLAGS, "@objects.rsp", "-o", "library.so"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode != 0:
            raise CompileError(f"linking the kernels for {target.name} failed: {done.stderr.strip()[:2000]}")
        return (folder / "library.so").read_bytes()


def table_ir(kernel_texts: Sequence[CpuKernel], target: CpuTarget, *, query: str = "rlt_kernel_query") -> str:
    """LLVM IR of the entry table and the query function, which is called ``query``."""
    lines = [f'target triple = "{target.machine.triple}"']
    entries = []
    for ordinal, e in enumerate(kernel_texts):
        name = e.name.encode() + b"\0"
        text = "".join(f"\\{byte:02X}" for byte in name)
        lines.append(f'@n{ordinal} = private unnamed_addr constant [{len(name)} x i8] c"{text}"')
        lines.append(f'declare hidden i32 @"{e.name}"(ptr, ptr)')
        lines.append(f'declare hidden void @"{e.name}__count"(ptr, ptr)')
        counts = f"i32 {e.binding_count}, i32 {e.constant_count}, i32 {e.local_memory_size}, i32 0"
        entries.append(f'{_ENTRY_TYPE} {{ ptr @n{ordinal}, ptr @"{e.name}", ptr @"{e.name}__count", {counts} }}')
    array = f"[{len(entries)} x {_ENTRY_TYPE}]"
    lines.append(f"@entries = internal constant {array} [{', '.join(entries)}]")
    lines.append(
        f"@library = internal constant {_LIBRARY_TYPE} {{ i32 {ABI_VERSION}, i32 {len(entries)}, ptr @entries }}"
    )
    lines.append(f"define ptr @{query}(i32 %version) {{")
    lines.append(f"  %same = icmp eq i32 %version, {ABI_VERSION}")
    lines.append("  %library = select i1 %same, ptr @library, ptr null")
    lines.append("  ret ptr %library")
    lines.append("}")
    return "\n".join(lines) + "\n"


def _linker() -> str:
    import ziglang

    return str(Path(ziglang.__file__).parent / "zig")
