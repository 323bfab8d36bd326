"""Builds ``rlt-run`` for a Linux target and runs module files with it, under QEMU where the processor is another."""

from __future__ import annotations

import functools
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

from rillet.codegen.cache import default_directory
from rillet.codegen.cpu.object_code.zig import zig
from rillet.export import CrossModule, Exported, objects, runtime_library
from rillet.targets import Target
from tests.support.paths import RUNTIME

PLATFORM = RUNTIME / "platforms" / "linux"
EMULATORS = {
    "x86_64": ("qemu-x86_64",),
    "aarch64": ("qemu-aarch64",),
    "riscv64": ("qemu-riscv64", "-cpu", "rv64,v=true,vlen=128"),
    "arm": ("qemu-arm",),
}


def emulator(target: Target) -> tuple[str, ...]:
    """The command that runs the target's programs; skips the test where it is missing, fails under CI."""
    if platform.machine() == target.machine.arch:
        return ()
    command = EMULATORS[target.machine.arch]
    if shutil.which(command[0]) is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{command[0]} is not installed, though CI installs it")
        pytest.skip(f"{command[0]} is not installed (Debian: qemu-user)")
    return command


@functools.cache
def runner(target: Target) -> Path:
    """``rlt-run`` with the runtime and its ELF loader, as a static program without a C library."""
    configuration = runtime_library.MODULE
    folder = Path(tempfile.mkdtemp(prefix="rillet-runner-"))
    (folder / "runtime.a").write_bytes(runtime_library.build(target, configuration, default_directory()))
    sources = [str(PLATFORM / name) for name in ("start.c", "system.c", "run.c")]
    flags = [
        *target.deployment.c_flags,
        *objects.C_FLAGS,
        "-Wall",
        "-Wextra",
        "-Werror",
        "-static",
        "-Wl,--gc-sections",
    ]
    if target.machine.pointer_bits == 64:  # narrower processors need helpers of the compiler
        flags.append("-nostdlib")
    flags += [f"-D{d}" for d in configuration.definitions] + ["-I", str(runtime_library.root() / "include")]
    zig(["cc", *flags, *sources, "runtime.a", "-o", "rlt-run"], "building rlt-run", folder)
    return folder / "rlt-run"


def call(target: Target, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run ``rlt-run``."""
    command = [*emulator(target), runner(target), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def run(target: Target, module: Path, arrays: list[np.ndarray], like: list[np.ndarray]) -> list[np.ndarray]:
    """The outputs of a module, whose types and shapes are those of ``like``."""
    paths = []
    for number, array in enumerate(arrays):
        paths.append(module.with_suffix(f".{number}.bin"))
        paths[-1].write_bytes(np.ascontiguousarray(array).tobytes())
    output = module.with_suffix(".out")
    done = call(target, module, output, *paths)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(like)
    return split(output.read_bytes(), like)


def link(target: Target, module: CrossModule, exported: Exported) -> Path:
    """A program around a model in static mode: reads its inputs from ``input.bin``, writes ``output.bin``."""
    folder, name = exported.directory, exported.name
    specs = [*module.inputs, *module.outputs]
    sizes = [int(np.prod(s.shape, dtype=int)) * s.dtype.itemsize for s in specs]
    arrays = "".join(f"static _Alignas(8) unsigned char t{n}[{size}];\n" for n, size in enumerate(sizes))
    steps = ["", ""]
    for n in range(len(specs)):
        is_output = n >= len(module.inputs)
        operation = "write" if is_output else "read"
        steps[is_output] += f"  if (!system_{operation}(file, t{n}, sizeof t{n})) return 99;\n"
    arguments = ", ".join(f"(void*)t{n}" for n in range(len(specs)))
    text = _PROGRAM.format(name=name, arrays=arrays, reads=steps[0], arguments=arguments, writes=steps[1])
    (folder / "program.c").write_text(text)
    flags = [*target.deployment.c_flags, *objects.C_FLAGS, "-static", "-nostdlib", "-I", ".", "-I", str(PLATFORM)]
    flags += [f"-D{d}" for d in runtime_library.STATIC.definitions]
    sources = ["program.c", f"{name}.c", str(PLATFORM / "start.c"), str(PLATFORM / "system.c")]
    libraries = [f"lib{name}_kernels.a", "librillet_runtime.a"]
    zig(["cc", *flags, *sources, *libraries, "-o", "program"], "linking", folder)
    return folder / "program"


def run_program(target: Target, program: Path, arrays: list[np.ndarray], like: list[np.ndarray]) -> list[np.ndarray]:
    """Run what ``link`` has made."""
    folder = program.parent
    (folder / "input.bin").write_bytes(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays))
    command = [*emulator(target), program]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return split((folder / "output.bin").read_bytes(), like)


def split(data: bytes, like: list[np.ndarray]) -> list[np.ndarray]:
    """Arrays with the types and shapes of ``like`` that lie one after the other."""
    results, offset = [], 0
    for array in like:
        results.append(np.frombuffer(data[offset : offset + array.nbytes], array.dtype).reshape(array.shape))
        offset += array.nbytes
    assert offset == len(data)
    return results


_PROGRAM = """#include "{name}.h"
#include "system.h"
{arrays}
int main(int argc, char** argv) {{
  (void)argc, (void)argv;
  int file = system_open("input.bin", false);
{reads}  const int status = {name}_run({arguments});
  if (status != 0) return status;
  file = system_open("output.bin", true);
{writes}  return 0;
}}
"""
