"""Object files of an exported model: the constants, the archive of kernels, and the compiled host program."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.cpu.object_code import helpers, object_file
from rillet.codegen.cpu.object_code.llvm import emit_object
from rillet.codegen.cpu.object_code.sizes import Sizes
from rillet.codegen.cpu.object_code.stack import stack_bytes
from rillet.codegen.cpu.object_code.zig import zig
from rillet.codegen.cpu.result import CpuKernel
from rillet.ir.image import Image
from rillet.support.temporary_folder import scratch_folder

ALIGNMENT = 64  # of constants and modules, in bytes
STACK_SIZES = "-fstack-size-section"  # records the stack of each function
C_FLAGS = (
    *("-std=c11", "-Os", "-ffreestanding", "-fno-sanitize=all", "-fno-stack-protector", "-ffunction-sections"),
    *(
        "-fdata-sections",
        "-fno-unwind-tables",
        "-fno-asynchronous-unwind-tables",
        "-fno-vectorize",
        "-fno-slp-vectorize",
    ),
)
# The stack lies below the data, so that an overflow traps instead of overwriting it.
_WASM_FLAGS = ("--no-entry", "--gc-sections", "--strip-all", "--no-growable-memory", "-z", "stack-size=65536")


@dataclass(frozen=True)
class Compiled:
    """Compiled C source. ``stack``: bytes that all its functions take together, at the level that takes the most."""

    object: bytes
    sizes: Sizes
    stack: int


def constants_object(image: Image, symbol: str, target: CpuTarget) -> bytes:
    """An object whose read-only, 64-byte aligned ``symbol`` holds the constants."""
    return data_object(constant_bytes(image), symbol, target)


def data_object(content: bytes, symbol: str, target: CpuTarget) -> bytes:
    """An object whose read-only, 64-byte aligned ``symbol`` holds ``content``."""
    text = "\\" + content.hex("\\")
    array = f'[{len(content)} x i8] c"{text}"'
    return emit_object(f'@{symbol} = constant {array}, section ".rodata.{symbol}", align {ALIGNMENT}\n', target)


def constant_bytes(image: Image) -> bytes:
    """The constants as they lie in memory, little-endian."""
    if not image.segments:
        return b""
    (segment,) = image.segments
    content = bytearray(segment.length)
    for offset, array in segment.parts:
        little = array if array.dtype.byteorder != ">" else array.astype(array.dtype.newbyteorder("<"))
        raw = np.ascontiguousarray(little).reshape(-1).view(np.uint8).tobytes()
        content[offset : offset + len(raw)] = raw
    return bytes(content)


def kernel_members(kernels: Sequence[CpuKernel], target: CpuTarget) -> list[tuple[str, bytes]]:
    """The objects (name, content) of the kernels, and of the helpers that they call."""
    called = {symbol for k in kernels for symbol in object_file.undefined_symbols(k.object)}
    return [*((f"{k.name}.o", k.object) for k in kernels), *helpers.objects(called, target)]


def archive(members: Sequence[tuple[str, bytes]]) -> bytes:
    """A static library of (name, object) with a symbol index. The same members always give the same bytes."""
    with scratch_folder("archive") as folder:
        for name, blob in members:
            (folder / name).write_bytes(blob)
        output = folder / "library.a"
        zig(["ar", "rcsD", str(output), *(str(folder / name) for name, _ in members)], "archiving the kernels")
        return output.read_bytes()


def compile_c(source: str, header: str, header_name: str, target: CpuTarget) -> Compiled | None:
    """Compile the host program as a user would, to know its size and stack; None where ``c_flags`` are not known."""
    if not target.deployment.c_flags:
        return None
    with scratch_folder("c") as folder:
        (folder / "model.c").write_text(source, "utf-8")
        (folder / header_name).write_text(header, "utf-8")
        what = f"compiling the host program for {target.name}"
        flags = [*target.deployment.c_flags, *C_FLAGS]
        stack = 0
        for level in ("-O0", "-Os") if target.deployment.stack_bound else ():
            zig(["cc", *flags, level, "-S", "model.c", "-o", "model.s"], what, folder)
            stack = max(stack, stack_bytes((folder / "model.s").read_text("utf-8")))
        zig(["cc", *flags, "-c", "model.c", "-o", "model.o"], what, folder)
        blob = (folder / "model.o").read_bytes()
        object_file.check_float_abi(blob, target, "the host program")
        return Compiled(blob, object_file.sizes(blob), stack)


def link_wasm(
    sources: Mapping[str, str],
    headers: Mapping[str, str],
    definitions: Sequence[str],
    libraries: Sequence[bytes],
    target: CpuTarget,
) -> bytes:
    """A WebAssembly module of C sources (by file name) and static libraries. It exports what the sources export."""
    with scratch_folder("wasm") as folder:
        compiled = _compile_all(sources, headers, definitions, target, folder)
        paths = _write_libraries(libraries, folder)
        zig(["wasm-ld", *_WASM_FLAGS, *compiled, *paths, "-o", "module.wasm"], f"linking for {target.name}", folder)
        return (folder / "module.wasm").read_bytes()


@dataclass(frozen=True)
class Linked:
    """C source and the parts of a static library that it needs, for measuring: other symbols stay undefined.

    ``functions``: the same as a relocatable object with a section for each function; None for WebAssembly.
    """

    program: bytes
    functions: bytes | None


def linked(
    source: str, headers: Mapping[str, str], definitions: Sequence[str], library: bytes, entry: str, target: CpuTarget
) -> Linked:
    """C source and the parts of a static library that it needs to run from ``entry``."""
    with scratch_folder("size") as folder:
        compiled = _compile_all({"model.c": source}, headers, definitions, target, folder)
        for path in compiled:
            object_file.check_float_abi((folder / path).read_bytes(), target, "the host program")
        paths = _write_libraries([library], folder)
        what, inputs = f"linking for {target.name}", ["--gc-sections", *compiled, *paths, "-o", "linked"]
        if target.machine.arch == "wasm32":
            options = ["--no-entry", "--allow-undefined", f"--export={entry}", "--strip-all"]
            zig(["wasm-ld", *options, *inputs], what, folder)
            return Linked((folder / "linked").read_bytes(), None)
        zig(["ld.lld", "-e", entry, "-r", *inputs], what, folder)
        functions = (folder / "linked").read_bytes()
        options = ["-e", entry, "--unresolved-symbols=ignore-all", "-static", "--no-eh-frame-hdr"]
        zig(["ld.lld", *options, *inputs], what, folder)
        return Linked((folder / "linked").read_bytes(), functions)


def _compile_all(
    sources: Mapping[str, str], headers: Mapping[str, str], definitions: Sequence[str], target: CpuTarget, folder: Path
) -> list[str]:
    for name, content in {**sources, **headers}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, "utf-8")
    flags = [*target.deployment.c_flags, *C_FLAGS, STACK_SIZES, "-I.", *(f"-D{d}" for d in definitions)]
    return compile_each(list(sources), flags, target, folder)


def compile_each(sources: Sequence[str], flags: Sequence[str], target: CpuTarget, folder: Path) -> list[str]:
    """Compile C files in ``folder``, each to an object beside it, whose names are returned."""
    objects = [name.removesuffix(".c") + ".o" for name in sources]

    def compile_one(name: str, output: str) -> None:
        zig(["cc", *flags, "-c", name, "-o", output], f"compiling {name} for {target.name}", folder)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_one, sources, objects))
    return objects


def _write_libraries(libraries: Sequence[bytes], folder: Path) -> list[str]:
    names = [f"library{number}.a" for number in range(len(libraries))]
    for name, content in zip(names, libraries, strict=True):
        (folder / name).write_bytes(content)
    return names
