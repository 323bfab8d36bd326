"""Runs modules and kernels on processors that this machine is not, under Bochs: all cases in one boot.

QEMU's translator has no AVX-512. Bochs has, and starts our program without firmware or operating system. Bochs 2.7 does
three things that processors do not, which look like faults of the compiler:

- It rounds to f16 what lies in the middle to the larger neighbour.
- It refuses gathers and scatters whose index is in a register from zmm16 on ("unknown instruction"), and stops.
- It takes the offset of a vpextrw from a register from xmm16 on, to memory, as half of what it is.
"""

from __future__ import annotations

import functools
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from rillet.codegen.cache import default_directory
from rillet.codegen.cpu.object_code.link import link_embedded_elf
from rillet.codegen.cpu.object_code.zig import zig
from rillet.codegen.result import CompiledKernel
from rillet.export import objects, runtime_library
from rillet.ir import dtypes
from rillet.targets import Target, get
from tests.support.paths import RUNTIME

_PLATFORM = RUNTIME / "platforms" / "bochs"
_SOURCES = (
    *(_PLATFORM / "start.S", _PLATFORM / "printer.c", _PLATFORM / "disk.c"),
    *(RUNTIME / "platforms" / "qemu" / "code_memory.c", Path(__file__).with_suffix(".c")),
)
_PROGRAM, _MEMORY = 0x1000, 1 << 29  # where the program lies; bytes of memory
_SECTOR, _CYLINDER, _PAGE = 512, 512 * 63 * 16, 4096
_MODULE, _KERNEL = 0, 1
WITH_AVX512 = "corei7_skylake_x"  # one of Bochs's processors: F, BW, CD, DQ and VL
WITH_VNNI = "corei7_icelake_u"  # another: those and VNNI
_CONFIGURATION = """
plugin_ctrl: unmapped=1, biosdev=1, parallel=1, serial=0, speaker=0, extfpuirq=0, gameport=0
config_interface: textconfig
display_library: term
cpu: model={cpu}, reset_on_triple_fault=0
memory: guest={megabytes}, host={megabytes}
romimage: file=rom.bin, address=0xffff0000
optramimage1: file=program.bin, address={program:#x}
ata0-master: type=disk, path=cases.bin, mode=flat
parport1: enabled=1, file=printed.bin
log: bochs.log
panic: action=fatal
"""
# The processor starts 16 bytes below 4 GiB: with a far jump to the program.
_ROM = (b"\xea" + struct.pack("<HH", _PROGRAM, 0) + bytes(11)).rjust(1 << 16, b"\0")


@dataclass(frozen=True)
class ModuleCase:
    """A module file and its inputs. ``like``: arrays with the types and shapes of the outputs."""

    file: bytes
    inputs: Sequence[np.ndarray]
    like: Sequence[np.ndarray]


@dataclass(frozen=True)
class KernelCase:
    """A kernel, its bindings: those that are given back after the whole grid come last; and its push constants.

    ``like``: what is in the memory of those before.
    """

    kernel: CompiledKernel
    target: Target
    inputs: Sequence[np.ndarray]
    like: Sequence[np.ndarray]
    constants: Sequence[int] = ()


class Failure(Exception):
    """A case did not run. The message is the runtime's."""


Case = ModuleCase | KernelCase


def require() -> None:
    """Skips the test where Bochs is not installed, fails under CI, which installs it."""
    if shutil.which("bochs"):
        return
    if os.environ.get("CI") == "true":
        pytest.fail("bochs is not installed, though CI installs it")
    pytest.skip("bochs is not installed (Debian: bochs, bochs-term)")


def run(cases: Sequence[Case], cpu: str, folder: Path, timeout: float = 300) -> list[list[np.ndarray] | Failure]:
    """What each case gives on the processor ``cpu`` (``bochs --help cpu``). ``folder`` keeps what was built.

    A fault of the processor ends the emulation: AssertionError with its registers, naming the number of the case.
    """
    (folder / "program.bin").write_bytes(_program())
    (folder / "rom.bin").write_bytes(_ROM)
    (folder / "cases.bin").write_bytes(_disk(cases))
    values = {"cpu": cpu, "program": _PROGRAM, "megabytes": _MEMORY >> 20}
    (folder / "bochsrc").write_text(_CONFIGURATION.format(**values))
    (folder / "continue").write_text("c\n")  # for Bochs's debugger, where it is built with one
    printed = folder / "printed.bin"
    printed.unlink(missing_ok=True)
    subprocess.run(
        ["bochs", "-q", "-f", "bochsrc", "-rc", "continue"],
        **{"cwd": folder, "env": {**os.environ, "TERM": "xterm"}, "stdin": subprocess.DEVNULL},
        **{"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True},
        timeout=timeout,
        check=False,
    )
    data = printed.read_bytes() if printed.exists() else b""
    results: list[list[np.ndarray] | Failure] = []
    offset = 0
    for number, case in enumerate(cases):
        try:
            result, offset = _read(data, offset, case.like)
        except struct.error:
            log = (folder / "bochs.log").read_text(errors="replace")
            raise AssertionError(f"the processor stopped in case {number}:\n{log[-4000:]}") from None
        results.append(result)
    return results


@functools.cache
def _program() -> bytes:
    """``bochs.c`` with the runtime; runs on every x86-64 processor."""
    target, configuration = get("x86-64-v2"), runtime_library.MODULE
    flags = [*target.deployment.c_flags, *objects.C_FLAGS, "-mno-red-zone", "-DCODE_MEMORY_BYTES=8388608"]
    flags += [f"-D{d}" for d in configuration.definitions]
    flags += ["-I", str(RUNTIME / "include"), "-I", str(RUNTIME / "src"), "-I", str(_PLATFORM)]
    with tempfile.TemporaryDirectory(prefix="rillet-bochs-") as name:
        folder = Path(name)
        (folder / "runtime.a").write_bytes(runtime_library.build(target, configuration, default_directory()))
        for source in _SOURCES:
            warnings = ["-Wall", "-Wextra", "-Werror"] if source.suffix == ".c" else []
            command = ["cc", *flags, *warnings, "-c", str(source), "-o", f"{source.stem}.o"]
            zig(command, f"compiling {source.name}", folder)
        script = ["-T", str(_PLATFORM / "bochs.ld"), "--oformat", "binary", "--gc-sections", "-static"]
        inputs = [*(f"{source.stem}.o" for source in _SOURCES), "runtime.a"]
        zig(["ld.lld", *script, *inputs, "-o", "program.bin"], "linking for Bochs", folder)
        return (folder / "program.bin").read_bytes()


def _disk(cases: Sequence[Case]) -> bytes:
    """The cases as ``bochs.c`` reads them, in whole cylinders."""
    described = [_words(case) for case in cases]
    numbers = [0, _MEMORY, len(cases)]
    place = -(-8 * (len(numbers) + sum(map(len, described))) // _PAGE) * _PAGE
    blobs = bytearray()
    for word in (word for words in described for word in words):
        if isinstance(word, _Blob):
            numbers.append(place + len(blobs) + word.beside)
            blobs += bytes(word.beside) + word.data
            blobs += bytes(-len(blobs) % _PAGE)
        else:
            numbers.append(word)
    numbers[0] = (place + len(blobs)) // _SECTOR
    content = np.array(numbers, np.int64).tobytes().ljust(place, b"\0") + bytes(blobs)
    return content + bytes(-len(content) % _CYLINDER)


@dataclass(frozen=True)
class _Blob:
    """Bytes that lie ``beside`` bytes after a page begins; described by their place."""

    data: bytes
    beside: int = 0


def _words(case: Case) -> list[int | _Blob]:
    """What ``bochs.c`` reads about a case."""
    words: list[int | _Blob]
    if isinstance(case, ModuleCase):
        words = [_MODULE, _Blob(case.file), len(case.file), len(case.inputs)]
        for array in case.inputs:
            words += [dtypes.of_numpy(array.dtype).code, array.ndim, *array.shape]
            # A caller's array is aligned to its element only.
            words += [_Blob(np.ascontiguousarray(array).tobytes(), min(8, array.itemsize)), array.nbytes]
        return words
    elf = link_embedded_elf([case.kernel], case.target)
    bindings = [*case.inputs, *case.like]
    words = [_KERNEL, _Blob(elf), len(elf), len(case.constants), len(bindings), len(case.inputs), *case.constants]
    for array in bindings:
        words += [_Blob(np.ascontiguousarray(array).tobytes()), array.nbytes]
    return words


def _read(data: bytes, offset: int, like: Sequence[np.ndarray]) -> tuple[list[np.ndarray] | Failure, int]:
    """The result of one case, and where the next one's lies."""
    status, count = struct.unpack_from("<QQ", data, offset)
    offset += 16
    parts = []
    for _ in range(count):
        (length,) = struct.unpack_from("<Q", data, offset)
        if offset + 8 + length > len(data):
            raise struct.error("cut short")
        parts.append(data[offset + 8 : offset + 8 + length])
        offset += 8 + length
    if status:
        return Failure(parts[0].split(b"\0")[0].decode(errors="replace")), offset
    return [np.frombuffer(p, a.dtype).reshape(a.shape) for p, a in zip(parts, like, strict=True)], offset
