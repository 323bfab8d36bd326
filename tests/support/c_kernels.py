"""Kernels written in C as an embedded ELF, for host programs whose kernels no compiler has made."""

from __future__ import annotations

import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from rillet import vm
from rillet.errors import CompileError
from rillet.ir import Program
from rillet.module import CompiledLibrary, write_module
from rillet.runtime import Module, load
from tests.support.paths import RUNTIME

_INCLUDE = RUNTIME / "include"
_PRELUDE = """
#include "rillet/cpu/kernel_abi.h"
#define BINDING(type, n) ((type*)state->bindings[n])
#define F(n) BINDING(float, n)
#define C(n) (state->constants[n])
#define KERNEL(name) \\
  static int name(const rlt_dispatch_state_t* state, const uint32_t workgroup_id[3])
static void one(const int64_t* constants, uint32_t count[3]) { count[0] = count[1] = count[2] = 1; }
"""


def library(source: str, entries: Sequence[str], signatures: Mapping[str, tuple[int, int]]) -> CompiledLibrary:
    """Compile ``source``, in which ``KERNEL(name) { ... }`` defines each of ``entries``.

    ``signatures``: bindings and push constants of each.
    """
    rows = ", ".join(f'{{"{n}", {n}, one, {signatures[n][0]}, {signatures[n][1]}, 0, 0}}' for n in entries)
    table = f"""
static const rlt_kernel_entry_t entries[] = {{ {rows} }};
static const rlt_kernel_table_t table = {{RLT_KERNEL_ABI_VERSION, {len(entries)}, entries}};
__attribute__((visibility("default"))) const rlt_kernel_table_t* rlt_kernel_query(uint32_t version) {{
  return version == RLT_KERNEL_ABI_VERSION ? &table : 0;
}}
"""
    with tempfile.TemporaryDirectory() as folder:
        code, obj, elf = (Path(folder) / f"kernels.{suffix}" for suffix in ("c", "o", "so"))
        code.write_text(_PRELUDE + source + table)
        zig = [sys.executable, "-m", "ziglang"]
        flags = ["-std=c11", "-O1", "-fPIC", "-ffreestanding", "-fno-sanitize=all", "-fno-stack-protector", "-w", "-g0"]
        flags += ["-fvisibility=hidden", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables", "-fno-builtin"]
        target = ["-target", f"{platform.machine()}-linux-none", f"-I{_INCLUDE}"]
        _run([*zig, "cc", *target, *flags, "-c", str(code), "-o", str(obj)])
        link = ["-shared", "-nostdlib", "--no-undefined", "--hash-style=sysv", "--build-id=none", "--no-eh-frame-hdr"]
        link += ["-z", "max-page-size=4096", "-z", "norelro", "-z", "noexecstack", "-s", "-e", "rlt_kernel_query"]
        _run([*zig, "ld.lld", *link, str(obj), "-o", str(elf)])
        return CompiledLibrary("test", platform.machine(), (), 0, elf.read_bytes(), list(entries))


def load_program(program: Program, source: str, signatures: Mapping[str, tuple[int, int]], threads: int = 1) -> Module:
    """A lowered program with kernels in C, loaded."""
    image = vm.encode(program)
    memory = write_module(image, [library(source, image.entries[0], signatures)])
    assert memory is not None
    return load(memory, threads=threads)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CompileError(done.stderr)
