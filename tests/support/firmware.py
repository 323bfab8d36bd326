"""Builds firmware around an exported model and runs it under QEMU: input from a file, output to a file."""

from __future__ import annotations

import functools
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from rillet.codegen.cache import default_directory
from rillet.export import CrossModule, Exported, objects, runtime_library
from rillet.targets import Target, get
from tests.support.paths import RUNTIME

PLATFORM = RUNTIME / "platforms" / "qemu"
COMPILE = (
    *("-std=c11", "-Wall", "-Wextra", "-Werror", "-Os", "-ffreestanding", "-fno-sanitize=all", "-fno-stack-protector"),
    *("-ffunction-sections", "-fdata-sections", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables"),
    *("-fno-vectorize", "-fno-slp-vectorize", "-g"),
)
LINK = ("-Wl,--gc-sections", "-Wl,--build-id=none", "-Wl,-e,Reset_Handler")
SEMIHOSTING = ("-nographic", "-monitor", "none", "-serial", "none", "-semihosting-config", "enable=on,target=native")


@dataclass(frozen=True)
class Board:
    """A machine that QEMU emulates."""

    emulator: str
    machine: tuple[str, ...]
    script: str
    startup: str
    # What the linker's helper library is built for, where it cannot be what c_flags say: passing floats in integer
    # registers to a processor that has others.
    link_flags: tuple[str, ...] = ()


BOARDS = {
    "cortex-m4": Board("qemu-system-arm", ("-M", "mps2-an386"), "mps2-an386.ld", "startup_arm.c"),
    "cortex-m55": Board("qemu-system-arm", ("-M", "mps3-an547"), "mps3-an547.ld", "startup_arm.c"),
    "riscv32imf": Board(
        "qemu-system-riscv32",
        ("-M", "virt", "-bios", "none"),
        "virt-rv32.ld",
        "startup_riscv.c",
        ("-target", "riscv32-freestanding-none", "-mcpu=generic_rv32+m", "-mabi=ilp32"),
    ),
    "riscv32imf-ilp32f": Board(
        "qemu-system-riscv32", ("-M", "virt", "-bios", "none"), "virt-rv32.ld", "startup_riscv.c"
    ),
}

_MAIN = """#include "{name}.h"
#include "semihosting.h"
{arrays}
__attribute__((noinline)) void run_begins(void) {{ __asm__ volatile("" ::: "memory"); }}
__attribute__((noinline)) void run_ends(void) {{ __asm__ volatile("" ::: "memory"); }}
enum {{ PAINTED = 16384, OWN = 64 }};
// Fills the stack below; then looks how far down something else was written.
__attribute__((noinline)) static void paint(void) {{
  volatile char* top = (volatile char*)__builtin_frame_address(0);
  for (int n = OWN; n < PAINTED; ++n) top[-n] = 0x5a;
}}
__attribute__((noinline)) static size_t used(void) {{
  volatile char* top = (volatile char*)__builtin_frame_address(0);
  int n = PAINTED;
  while (--n >= OWN && top[-n] == 0x5a) {{
  }}
  return (size_t)n;
}}
int main(void) {{
  long file = semihosting_open("input.bin", 0);
{reads}  int status = 0;
  paint();
  run_begins();
  status = {name}_run({arguments});
  run_ends();
  const size_t facts[] = {{used(), PEAK}};
  if (status != 0) return 100 + status;
  file = semihosting_open("output.bin", 1);
{writes}  (void)semihosting_write(file, facts, sizeof facts);
  return 0;
}}
"""


_LOADER = """#include "rillet/base/arena.h"
#include "rillet/session.h"
#include "semihosting.h"
extern const uint8_t module_file[];
static _Alignas(64) uint8_t memory[262144];
static _Alignas(8) uint8_t input[{input_bytes}];
int main(void) {{
  long file = semihosting_open("input.bin", 0);
  if (semihosting_read(file, input, sizeof input)) return 99;
  rlt_error_t error = {{0}};
  rlt_arena_t arena;
  rlt_arena_initialize(&arena, memory, sizeof memory);
  rlt_session_t* session = NULL;
  rlt_status_t status =
      rlt_session_create(module_file, {length}, NULL, NULL, NULL, rlt_arena_allocator(&arena), &error, &session);
  rlt_buffer_view_t *view = NULL, *output = NULL;
  int64_t dims[RLT_VIEW_MAX_RANK];
  if (status == RLT_OK) {{
    const rlt_module_tensor_t tensor =
        rlt_module_tensor(rlt_module_export(rlt_session_module(session), 0).inputs, 0);
    for (uint32_t i = 0; i < tensor.dims.count; ++i) dims[i] = rlt_module_dim(tensor.dims, i);
    status = rlt_session_wrap(session, tensor.dtype, tensor.dims.count, dims, input, sizeof input, &error, &view);
  }}
  if (status == RLT_OK) status = rlt_session_run(session, 0, 1, &view, 1, &output, &error);
  if (status != RLT_OK) {{
    semihosting_print(error.message);
    return (int)status;
  }}
  file = semihosting_open("output.bin", 1);
  (void)semihosting_write(file, output->buffer->data, (size_t)output->length);
  rlt_buffer_view_release(output), rlt_buffer_view_release(view), rlt_session_release(session);
  return 0;
}}
"""


def require_emulator(target: str) -> str:
    """The emulator of a target; skips the test where it is not installed, fails under CI, which installs it."""
    emulator = BOARDS[target].emulator
    found = shutil.which(emulator)
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{emulator} is not installed, though CI installs it")
        pytest.skip(f"{emulator} is not installed (Debian: qemu-system-arm, qemu-system-misc)")
    return found


def zig(*arguments: object) -> None:
    """Run the C compiler."""
    done = subprocess.run(
        [sys.executable, "-m", "ziglang", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def link(module: CrossModule, exported: Exported, using: Callable[..., Path] | None = None) -> Path:
    """Build firmware that runs the model once. ``using``: what builds it in place of ``build``."""
    folder, name = exported.directory, exported.name
    specs = [*((s, True) for s in module.inputs), *((s, False) for s in module.outputs)]
    sizes = [int(np.prod(s.shape, dtype=int)) * s.dtype.itemsize for s, _ in specs]
    arrays = "\n".join(f"static _Alignas(8) unsigned char t{n}[{size}];" for n, size in enumerate(sizes))
    reads = "".join(
        f"  if (semihosting_read(file, t{n}, sizeof t{n})) return 99;\n" for n, s in enumerate(specs) if s[1]
    )
    writes = "".join(f"  (void)semihosting_write(file, t{n}, sizeof t{n});\n" for n, s in enumerate(specs) if not s[1])
    arguments = ", ".join(f"(void*)t{n}" for n in range(len(specs)))
    static = f"{name}_arena_peak" in (folder / f"{name}.h").read_text()
    peak = f"{name}_arena_peak()" if static else "0"
    text = f"#define PEAK {peak}\n" + _MAIN.format(
        name=name, arrays=arrays, reads=reads, writes=writes, arguments=arguments
    )
    (folder / "firmware.c").write_text(text)
    return (using or build)(module.targets[0], folder, name, "firmware.c", f"{name}.c")


def build(target_name: str, folder: Path, name: str, *own: str) -> Path:
    """Compile a folder's C files ``own`` and link them with the start-up code and the libraries of model ``name``."""
    target, board, image = get(target_name), BOARDS[target_name], folder / "firmware.elf"
    sources = [*(folder / c for c in own), PLATFORM / "semihosting.c", PLATFORM / board.startup]
    flags = [*target.deployment.c_flags, *COMPILE, "-I", folder, "-I", PLATFORM]
    libraries = [folder / f"lib{name}_kernels.a"]
    if (folder / "librillet_runtime.a").exists():
        libraries.append(folder / "librillet_runtime.a")
        flags += [f"-D{d}" for d in runtime_library.STATIC.definitions]
    if board.link_flags:
        for source in sources:
            zig("cc", *flags, "-c", source, "-o", folder / f"{source.stem}.o")
        flags, sources = [*board.link_flags], [folder / f"{source.stem}.o" for source in sources]
    zig("cc", *flags, *LINK, "-T", PLATFORM / board.script, *sources, *libraries, "-o", image)
    return image


def link_loader(target: Target, file: bytes, input_bytes: int, folder: Path) -> Path:
    """Build firmware with the runtime and its ELF loader. It loads a module file, its kernels into RAM, and runs it."""
    board, configuration = BOARDS[target.name], runtime_library.MODULE
    (folder / "runtime.a").write_bytes(runtime_library.build(target, configuration, default_directory()))
    (folder / "module.o").write_bytes(objects.data_object(file, "module_file", target))
    (folder / "firmware.c").write_text(_LOADER.format(length=len(file), input_bytes=input_bytes))
    sources = [folder / "firmware.c", *(PLATFORM / s for s in ("semihosting.c", "code_memory.c", board.startup))]
    flags = [*target.deployment.c_flags, *COMPILE, "-I", PLATFORM, "-I", runtime_library.root() / "include"]
    flags += [f"-D{d}" for d in configuration.definitions]
    image = folder / "firmware.elf"
    objects_and_libraries = [folder / "module.o", folder / "runtime.a"]
    zig("cc", *flags, *LINK, "-T", PLATFORM / board.script, *sources, *objects_and_libraries, "-o", image)
    return image


def run(module: CrossModule, image: Path, inputs: list[np.ndarray]) -> tuple[list[np.ndarray], int]:
    """Run the firmware; returns the outputs and the number of instructions of the call."""
    emulator = require_emulator(module.targets[0])
    board = BOARDS[module.targets[0]]
    folder = image.parent
    (folder / "input.bin").write_bytes(b"".join(np.ascontiguousarray(a).tobytes() for a in inputs))
    output = folder / "output.bin"
    output.unlink(missing_ok=True)
    symbols = symbol_addresses(image.read_bytes())
    first, last = (symbols[s] & ~1 for s in ("run_begins", "run_ends"))
    plugin = f"{plugin_path()},first={first:#x},last={last:#x}"
    command = [emulator, *board.machine, *SEMIHOSTING, "-plugin", plugin, "-d", "plugin", "-kernel", str(image)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"status {done.returncode}: {done.stderr}"
    counted = re.search(r"instructions (\d+)", done.stderr)
    assert counted is not None, done.stderr
    data, results, offset = output.read_bytes(), [], 0
    for spec in module.outputs:
        size = int(np.prod(spec.shape, dtype=int)) * spec.dtype.itemsize
        results.append(np.frombuffer(data[offset : offset + size], spec.dtype).reshape(spec.shape))
        offset += size
    return results, int(counted[1])


def used_memory(image: Path, outputs: list[np.ndarray]) -> tuple[int, int]:
    """What a run has needed of the stack, and of its arena in static mode, in bytes."""
    data = (image.parent / "output.bin").read_bytes()
    stack, arena = struct.unpack_from("<II", data, sum(a.nbytes for a in outputs))
    return stack, arena


@functools.cache
def plugin_path() -> Path:
    """The instruction counter, built once."""
    import tempfile

    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler for the host (cc)")
    path = Path(tempfile.mkdtemp(prefix="rillet-plugin-")) / "insn_count.so"
    source = Path(__file__).with_name("insn_count.c")
    subprocess.run(
        [compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC", source, "-o", path], check=True
    )
    return path


def symbol_addresses(blob: bytes) -> dict[str, int]:
    """The symbols of a 32-bit ELF file."""
    (start,) = struct.unpack_from("<I", blob, 32)
    entry_size, count = struct.unpack_from("<HH", blob, 46)
    found: dict[str, int] = {}
    headers = [struct.unpack_from("<IIIIIIIIII", blob, start + n * entry_size) for n in range(count)]
    for header in headers:
        if header[1] != 2:
            continue
        names = headers[header[6]][4]
        for position in range(header[4], header[4] + header[5], 16):
            name, value = struct.unpack_from("<II", blob, position)
            end = blob.index(b"\0", names + name)
            found[blob[names + name : end].decode()] = value
    return found
