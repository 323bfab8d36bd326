"""Object files of an exported model: the constants, the archive of kernels, and what the host program compiles to."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rillet.codegen import object_file
from rillet.codegen.llvm import emit_object
from rillet.codegen.sizes import Sizes
from rillet.codegen.stack import stack_bytes
from rillet.errors import CompileError
from rillet.ir.image import Image
from rillet.targets import Target

_C_FLAGS = (
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
    """What C source compiles to. ``stack``: bytes all its functions take together."""

    object: bytes
    sizes: Sizes
    stack: int


def constants_object(image: Image, symbol: str, target: Target) -> bytes:
    """An object whose read-only, 64-byte aligned ``symbol`` holds the constants."""
    content = constant_bytes(image)
    text = "\\" + content.hex("\\")
    array = f'[{len(content)} x i8] c"{text}"'
    return emit_object(f'@{symbol} = constant {array}, section ".rodata.{symbol}", align 64\n', target)


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


def archive(members: Sequence[tuple[str, bytes]]) -> bytes:
    """A static library of (name, object) with a symbol index. The same members always give the same bytes."""
    with tempfile.TemporaryDirectory(prefix="rillet-archive-") as folder:
        for name, blob in members:
            (Path(folder) / name).write_bytes(blob)
        output = Path(folder) / "library.a"
        _zig(["ar", "rcsD", str(output), *(str(Path(folder) / name) for name, _ in members)], "archiving the kernels")
        return output.read_bytes()


def compile_c(source: str, header: str, header_name: str, target: Target) -> Compiled | None:
    """Compile the host program as a user would, to know its size and stack; None where ``c_flags`` are not known."""
    if not target.c_flags:
        return None
    with tempfile.TemporaryDirectory(prefix="rillet-c-") as folder:
        path, assembly, output = (Path(folder) / name for name in ("model.c", "model.s", "model.o"))
        path.write_text(source)
        (Path(folder) / header_name).write_text(header)
        flags = [*target.c_flags, *_C_FLAGS]
        what = f"compiling the host program for {target.name}"
        _zig(["cc", *flags, "-S", str(path), "-o", str(assembly)], what)
        _zig(["cc", *target.c_flags, "-c", str(assembly), "-o", str(output)], what)
        blob = output.read_bytes()
        object_file.check_float_abi(blob, target, "the host program")
        return Compiled(blob, object_file.sizes(blob), stack_bytes(assembly.read_text()) if target.is_bare_metal else 0)


def link_wasm(sources: Mapping[str, str], headers: Mapping[str, str], library: bytes, target: Target) -> bytes:
    """A WebAssembly module of C sources (by file name) and a static library. It exports what the sources export."""
    with tempfile.TemporaryDirectory(prefix="rillet-wasm-") as folder:
        for name, content in {**sources, **headers}.items():
            (Path(folder) / name).write_text(content)
        kernels, output = Path(folder) / "kernels.a", Path(folder) / "module.wasm"
        kernels.write_bytes(library)
        compiled = [str(Path(folder) / f"{number}.o") for number in range(len(sources))]
        for name, path in zip(sources, compiled, strict=True):
            flags = [*target.c_flags, *_C_FLAGS, "-c", str(Path(folder) / name), "-o", path]
            _zig(["cc", *flags], f"compiling {name} for {target.name}")
        _zig(["wasm-ld", *_WASM_FLAGS, *compiled, str(kernels), "-o", str(output)], f"linking for {target.name}")
        return output.read_bytes()


def _zig(arguments: Sequence[str], what: str) -> None:
    done = subprocess.run([sys.executable, "-m", "ziglang", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CompileError(f"{what} failed: {done.stderr.strip()[:2000]}")
