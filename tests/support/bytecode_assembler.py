"""Module files written by hand: kernels in C, host programs in bytecode."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rillet.ir.image import Export, Function, Image, Import, Segment, TensorSpec
from rillet.module import CompiledLibrary, write_module
from rillet.vm.imports import BY_NAME
from tests.support.paths import RUNTIME

ENTRIES = ("add", "gather", "grid", "negate")
ADD, GATHER, GRID, NEGATE = range(len(ENTRIES))
READ, WRITE, READ_WRITE = 1, 2, 3
DEVICE = 30  # the register that holds the ordinal of the device, where a function uses one
F32, I8, I32, I64, BF16 = 1, 3, 6, 7, 16


def compile_kernels(folder: Path) -> bytes:
    """kernels.c as an embedded ELF for this machine."""
    obj, elf = folder / "kernels.o", folder / "kernels.so"
    zig = [sys.executable, "-m", "ziglang"]
    flags = ["-std=c11", "-O2", "-fPIC", "-ffreestanding", "-fno-sanitize=all", "-fno-stack-protector"]
    flags += ["-fvisibility=hidden", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables", "-g0"]
    target = ["-target", f"{platform.machine()}-linux-none"]
    source = ["-c", str(RUNTIME / "tests" / "kernels.c"), f"-I{RUNTIME / 'include'}", "-o", str(obj)]
    subprocess.run([*zig, "cc", *target, *flags, *source], check=True)
    link = ["-shared", "-nostdlib", "--no-undefined", "--hash-style=sysv", "--gc-sections", "--build-id=none"]
    link += ["-z", "max-page-size=4096", "-z", "norelro", "-z", "noexecstack", "-s", "-e", "rlt_kernel_query"]
    subprocess.run([*zig, "ld.lld", *link, "--no-eh-frame-hdr", str(obj), "-o", str(elf)], check=True)
    return elf.read_bytes()


class Program:
    """Collects functions and the imports they use."""

    def __init__(self) -> None:
        self.imports: list[Import] = []
        self.functions: list[Function] = []

    def call(
        self,
        name: str,
        ints: Sequence[int] = (),
        refs: Sequence[int] = (),
        int_results: Sequence[int] = (),
        ref_results: Sequence[int] = (),
    ) -> list[int]:
        """A call of an import on registers."""
        entry = BY_NAME[name]
        if entry not in self.imports:
            self.imports.append(entry)
        words = [7, 0x8000 | self.imports.index(entry)]
        for registers in (ints, refs, int_results, ref_results):
            words += [len(registers), *registers]
        return words

    def function(self, name: str, arguments: str, results: str, code: Sequence[Sequence[int]]) -> int:
        words = tuple(word for instruction in code for word in instruction)
        self.functions.append(Function(name, arguments, results, 32, 32, words))
        return len(self.functions) - 1

    def image(
        self, export: int, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], segments: Sequence[Segment] = ()
    ) -> Image:
        return Image(
            tuple(self.functions),
            tuple(self.imports),
            (Export("main", export, tuple(inputs), tuple(outputs)),),
            0,
            4,
            tuple(segments),
            (ENTRIES,),
            {"macs": 12},
        )


def const(register: int, value: int) -> list[int]:
    value &= (1 << 64) - 1
    return [1, register, *((value >> shift) & 0xFFFF for shift in (0, 16, 32, 48))]


def ret(*refs: int) -> list[int]:
    return [8, 0, len(refs), *refs]


def spec(name: str, dtype: int, *shape: int | str) -> TensorSpec:
    dims = tuple(d if isinstance(d, int) else -1 for d in shape)
    return TensorSpec(name, dtype, dims, tuple(d if isinstance(d, str) else "" for d in shape))


def library(
    elf: bytes, *, target: str = "test", arch: str | None = None, features: tuple[str, ...] = (), kind: int = 0
) -> CompiledLibrary:
    return CompiledLibrary(target, arch or platform.machine(), features, kind, elf, list(ENTRIES))


def module(image: Image, *libraries: CompiledLibrary) -> bytes:
    written = write_module(image, libraries)
    assert written is not None
    return bytes(written)


def bind(p: Program, binding: int, slot: int, length: int, access: int, at: int = 24) -> list[int]:
    """Instructions that bind all ``length`` bytes of a slot for the command buffer in register 0 of the references."""
    numbers = (binding, slot, 0, length, access)
    words = [word for i, number in enumerate(numbers) for word in const(at + i, number)]
    return words + p.call("hal.cmd.bind", range(at, at + 5), [0])


def static_add(n: int) -> Image:
    """z = x + y on float32[n], its command buffer recorded at load."""
    p = Program()
    p.function(
        "__init",
        "",
        "",
        [
            const(DEVICE, 0),
            const(0, 3),
            p.call("hal.cmd.create", [DEVICE, 0], ref_results=[0]),
            const(1, n),
            p.call("hal.cmd.constants", [1], [0]),
            bind(p, 0, 0, 4 * n, READ),
            bind(p, 1, 1, 4 * n, READ),
            bind(p, 2, 2, 4 * n, WRITE),
            const(2, ADD),
            p.call("hal.cmd.dispatch", [2], [0]),
            p.call("hal.cmd.end", (), [0]),
            [12, 0, 0],
            [8, 0, 0],
        ],
    )
    main = p.function(
        "main",
        "rr",
        "r",
        [
            [11, 2, 0],
            p.call("hal.view.buffer", (), [0], (), [3]),
            p.call("hal.view.buffer", (), [1], (), [4]),
            const(DEVICE, 0),
            const(0, 4 * n),
            p.call("hal.buffer.allocate", [DEVICE, 0], (), (), [5]),
            p.call("hal.execute", (), [2, 3, 4, 5]),
            const(1, F32),
            const(2, n),
            p.call("hal.view.create", [1, 2], [5], (), [6]),
            ret(6),
        ],
    )
    return p.image(main, [spec("x", F32, n), spec("y", F32, n)], [spec("z", F32, n)])


def dynamic_add() -> Image:
    """z = x + y on float32[N], recorded in each call."""
    p = Program()
    main = p.function(
        "main",
        "rr",
        "r",
        [
            const(0, 0),
            p.call("hal.view.dim", [0], [0], [1]),
            const(2, 4),
            [18, 3, 1, 2],
            const(DEVICE, 0),
            const(4, 3),
            p.call("hal.cmd.create", [DEVICE, 4], (), (), [2]),
            p.call("hal.cmd.constants", [1], [2]),
            *(
                [word for r, value in ((8, i), (9, i), (10, 0), (11, access)) for word in const(r, value)]
                + p.call("hal.cmd.bind", [8, 9, 10, 3, 11], [2])
                for i, access in enumerate((READ, READ, WRITE))
            ),
            const(5, ADD),
            p.call("hal.cmd.dispatch", [5], [2]),
            p.call("hal.cmd.end", (), [2]),
            p.call("hal.view.buffer", (), [0], (), [3]),
            p.call("hal.view.buffer", (), [1], (), [4]),
            p.call("hal.buffer.allocate", [DEVICE, 3], (), (), [5]),
            p.call("hal.execute", (), [2, 3, 4, 5]),
            const(6, F32),
            p.call("hal.view.create", [6, 1], [5], (), [6]),
            ret(6),
        ],
    )
    return p.image(main, [spec("x", F32, "N"), spec("y", F32, "N")], [spec("z", F32, "N")])


def identity(dtype: int, *shape: int | str) -> Image:
    """Returns its input, twice."""
    p = Program()
    main = p.function("main", "r", "rr", [ret(0, 0)])
    return p.image(main, [spec("x", dtype, *shape)], [spec("a", dtype, *shape), spec("b", dtype, *shape)])


def returned_constant(segment: Segment, dtype: int, n: int) -> Image:
    """Returns its constant."""
    p = Program()
    main = p.function(
        "main",
        "",
        "r",
        [
            const(0, 0),
            p.call("hal.constant", [0], (), (), [0]),
            const(1, dtype),
            const(2, n),
            p.call("hal.view.create", [1, 2], [0], (), [1]),
            ret(1),
        ],
    )
    return p.image(main, [], [spec("c", dtype, n)], [segment])


def one_dispatch(
    entry: int, constants: Sequence[int], inputs: Sequence[tuple[TensorSpec, int, int]], output: TensorSpec, size: int
) -> Image:
    """One dispatch over its inputs (spec, bytes, access) and then an output of ``size`` bytes that it writes."""
    p = Program()
    count = len(inputs)
    code = [const(DEVICE, 0), const(0, count + 1), p.call("hal.cmd.create", [DEVICE, 0], (), (), [count])]
    registers = range(8, 8 + len(constants))
    code += [const(r, c) for r, c in zip(registers, constants, strict=True)]
    code.append(p.call("hal.cmd.constants", registers, [count]))
    sizes = [(length, access) for _, length, access in inputs] + [(size, WRITE)]
    for i, (length, access) in enumerate(sizes):
        code += [const(20 + j, value) for j, value in enumerate((i, i, 0, length, access))]
        code.append(p.call("hal.cmd.bind", range(20, 25), [count]))
    buffers = range(count + 1, 2 * count + 1)
    code += [const(1, entry), p.call("hal.cmd.dispatch", [1], [count]), p.call("hal.cmd.end", (), [count])]
    code += [p.call("hal.view.buffer", (), [i], (), [b]) for i, b in enumerate(buffers)]
    out = 2 * count + 1
    code += [const(2, size), p.call("hal.buffer.allocate", [DEVICE, 2], (), (), [out])]
    code.append(p.call("hal.execute", (), [count, *buffers, out]))
    dims = range(10, 10 + len(output.dims))
    code += [const(r, d) for r, d in zip(dims, output.dims, strict=True)]
    code += [const(3, output.dtype), p.call("hal.view.create", [3, *dims], [out], (), [out + 1]), ret(out + 1)]
    main = p.function("main", "r" * count, "r", code)
    return p.image(main, [s for s, _, _ in inputs], [output])
