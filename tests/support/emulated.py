"""Runs kernels of another architecture's Linux under QEMU's user emulation."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rillet.codegen.result import CompiledKernel
from rillet.targets import Target
from tests.support.paths import RUNTIME

_INCLUDE = RUNTIME / "include"


class Emulator:
    """A statically linked program around each kernel, run on numpy arrays. ``folder`` keeps what was built."""

    def __init__(self, target: Target, folder: Path):
        self.qemu = f"qemu-{target.machine.arch}"
        self._triple = f"{target.machine.arch}-linux-musl"
        self._folder = folder

    @property
    def present(self) -> bool:
        """Whether the emulator is installed."""
        return shutil.which(self.qemu) is not None

    def run(self, kernel: CompiledKernel, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """What the bindings hold after all workgroups; raises ``CalledProcessError`` when one fails."""
        program = self._link(kernel)
        header = np.array([kernel.local_memory_size, len(arrays)], np.uint64).tobytes()
        data = b"".join(np.uint64(a.nbytes).tobytes() + a.tobytes() for a in arrays)
        done = subprocess.run([self.qemu, str(program)], input=header + data, capture_output=True, check=True)
        found, start = [], 0
        for array in arrays:
            found.append(np.frombuffer(done.stdout, array.dtype, array.size, start).reshape(array.shape))
            start += array.nbytes
        return found

    def _link(self, kernel: CompiledKernel) -> Path:
        code, program = self._folder / f"{kernel.name}.o", self._folder / kernel.name
        code.write_bytes(kernel.object)
        zig = [sys.executable, "-m", "ziglang", "cc", "-target", self._triple, "-std=c11", "-O1", "-static"]
        names = [f"-DKERNEL={kernel.name}", f"-DKERNEL_COUNT={kernel.name}__count", f"-I{_INCLUDE}"]
        source = Path(__file__).with_name("emulated.c")
        command = [*zig, "-fno-sanitize=all", *names, str(source), str(code), "-o", str(program)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return program
