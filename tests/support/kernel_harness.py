"""Compiles one kernel, links it into a shared library and runs its whole grid on numpy arrays."""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import ziglang

from rillet import targets
from rillet.codegen.cpu.compile import compile_kernel
from rillet.codegen.cpu.object_code.llvm import emit_object
from rillet.codegen.result import CodegenOptions, CompiledKernel
from rillet.targets import Target
from tests.support import bochs

# Runs the whole grid, so that ctypes does not cost a call for each workgroup.
_DRIVER = """
declare hidden i32 @"NAME"(ptr, ptr)
declare hidden void @"NAME__count"(ptr, ptr)
define void @kernel_count(ptr %constants, ptr %out) {
  call void @"NAME__count"(ptr %constants, ptr %out)
  ret void
}
define i32 @kernel_all(ptr %state, i32 %nx, i32 %ny, i32 %nz) {
entry:
  %id = alloca [3 x i32]
  %py = getelementptr i32, ptr %id, i32 1
  %pz = getelementptr i32, ptr %id, i32 2
  %xy = mul i32 %nx, %ny
  %total = mul i32 %xy, %nz
  br label %head
head:
  %n = phi i32 [ 0, %entry ], [ %next, %ok ]
  %more = icmp ult i32 %n, %total
  br i1 %more, label %body, label %done
body:
  %x = urem i32 %n, %nx
  %r = udiv i32 %n, %nx
  %y = urem i32 %r, %ny
  %z = udiv i32 %r, %ny
  store i32 %x, ptr %id
  store i32 %y, ptr %py
  store i32 %z, ptr %pz
  %status = call i32 @"NAME"(ptr %state, ptr %id)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %bad, label %ok
ok:
  %next = add i32 %n, 1
  br label %head
bad:
  ret i32 %status
done:
  ret i32 0
}
"""


class _State(ctypes.Structure):
    _fields_ = [
        ("bindings", ctypes.POINTER(ctypes.c_void_p)),
        ("constants", ctypes.POINTER(ctypes.c_int64)),
        ("workgroup_count", ctypes.c_uint32 * 3),
        ("binding_count", ctypes.c_uint32),
        ("local_memory", ctypes.c_void_p),
        ("local_memory_size", ctypes.c_size_t),
    ]


# What tests call the host: for example x86-64-v4, to run them all on a processor that Bochs emulates.
_HOST = os.environ.get("RILLET_KERNELS_FOR", "host")


class Kernel:
    """A compiled and loaded kernel. One for an x86-64 processor that this machine is not runs under Bochs."""

    def __init__(self, text: str, target: Target | str = "host", options: CodegenOptions | None = None):
        name = _HOST if target == "host" else target
        self.target = targets.get(name) if isinstance(name, str) else name
        self.compiled: CompiledKernel = compile_kernel(text, self.target, options)
        self._library = _load(self.compiled, self.target)
        self._local = aligned(max(1, self.compiled.local_memory_size))
        self._is_emulated = not self.target.runs_here

    def grid(self, constants: Sequence[int] = ()) -> tuple[int, int, int]:
        """The workgroup counts for these push constants."""
        count = (ctypes.c_uint32 * 3)()
        self._library.kernel_count((ctypes.c_int64 * max(1, len(constants)))(*constants), count)
        return tuple(count)

    def run(self, arrays: Sequence[np.ndarray], constants: Sequence[int | float] = ()) -> int:
        """Run every workgroup on these bindings (arguments, then results, in place). Returns the first non-zero
        status."""
        slots = [_slot(c) for c in constants]
        bindings = (ctypes.c_void_p * max(1, len(arrays)))(*(a.ctypes.data for a in arrays))
        values = (ctypes.c_int64 * max(1, len(slots)))(*slots)
        grid = self.grid(slots)
        if self._is_emulated:
            return self._emulate(arrays, slots)
        self._local[:] = 0xA5
        state = _State(
            bindings, values, (ctypes.c_uint32 * 3)(*grid), len(arrays), self._local.ctypes.data, self._local.size
        )
        return int(self._library.kernel_all(ctypes.byref(state), *grid))

    def _emulate(self, arrays: Sequence[np.ndarray], slots: Sequence[int]) -> int:
        case = bochs.KernelCase(self.compiled, self.target, [], arrays, slots)
        with tempfile.TemporaryDirectory() as folder:
            (found,) = bochs.run([case], bochs.WITH_AVX512, Path(folder))
        if isinstance(found, bochs.Failure):
            return 1
        for array, after in zip(arrays, found, strict=True):
            if array.flags.writeable:
                array[...] = after
        return 0

    def __call__(
        self,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[tuple[tuple[int, ...], type]],
        constants: Sequence[int] = (),
    ) -> list[np.ndarray]:
        """Allocate results of these shapes and dtypes, run, and return them. Raises on a non-zero status."""
        results = [_garbage(shape, dtype) for shape, dtype in outputs]
        status = self.run([*map(np.ascontiguousarray, inputs), *results], constants)
        if status:
            raise RuntimeError(f"status {status}")
        return results


def aligned(size: int) -> np.ndarray:
    """A byte array whose data is 64-byte aligned."""
    raw = np.zeros(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size]


def kernel_text(name: str, arguments: str, results: str, body: str, attributes: str = "") -> str:
    """The text of a kernel ``@name``."""
    return (
        f"builtin.module @{name} attributes {{flow.kernel}} {{\n"
        f"func.func @{name}({arguments}) -> ({results}) {attributes} {{\n{body}\n}}\n}}\n"
    )


def _garbage(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    count = int(np.prod(shape))
    return np.frombuffer(bytearray(b"\x5a" * (count * np.dtype(dtype).itemsize)), dtype, count).reshape(shape)


def _slot(value: int | float) -> int:
    if isinstance(value, float):
        return int(np.float32(value).view(np.int32))
    return int(value)


def _load(compiled: CompiledKernel, target: Target) -> ctypes.CDLL:
    table = _DRIVER.replace("NAME", compiled.name)
    linker = str(Path(ziglang.__file__).parent / "zig")
    with tempfile.TemporaryDirectory() as folder:
        objects = [Path(folder) / "kernel.o", Path(folder) / "table.o"]
        objects[0].write_bytes(compiled.object)
        objects[1].write_bytes(emit_object(table, target))
        library = Path(folder) / "kernel.so"
        command = [linker, "ld.lld", "-shared", "-nostdlib", "--no-undefined", "-znoexecstack"]
        subprocess.run([*command, *map(str, objects), "-o", str(library)], check=True)
        return ctypes.CDLL(str(library))


def generic(maps: str, iterators: str, inputs: str, outputs: str, arguments: str, body: str, yielded: str) -> str:
    """A ``linalg.generic``: maps separated by ``|``, iterators as a string of ``p`` and ``r``, operands as
    ``values:types``, the body's ops separated by ``;`` or newlines."""
    kinds = {"p": '"parallel"', "r": '"reduction"'}
    indexing = ", ".join(f"affine_map<{m}>" for m in maps.split("|"))
    ins, outs, yields = (part.split(":", 1) for part in (inputs, outputs, yielded))
    takes = f"ins({ins[0]} : {ins[1]})" if inputs != ":" else ""
    return (
        f"linalg.generic {{indexing_maps = [{indexing}], iterator_types = [{', '.join(kinds[i] for i in iterators)}]}} "
        f"{takes} outs({outs[0]} : {outs[1]}) {{\n^bb0({arguments}):\n" + body.replace(";", "\n") + "\n"
        f"linalg.yield {yields[0]} : {yields[1]}\n}} -> ({outs[1]})"
    )
