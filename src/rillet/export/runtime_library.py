"""The C runtime as a static library for a target: sessions, VM, in-order driver, a loader; no C library."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from rillet.codegen import cache
from rillet.codegen.cpu.machine import CpuTarget
from rillet.errors import CompileError
from rillet.export import objects
from rillet.support.temporary_folder import scratch_folder


@dataclass(frozen=True)
class Configuration:
    """Parts of the runtime, and how they are built. Code that includes its headers must define the same
    ``definitions``."""

    definitions: tuple[str, ...]
    parts: tuple[str, ...]
    left_out: frozenset[str]  # source files


_COMMON_PARTS = ("RLT_HAVE_VM", "RLT_HAVE_MODULE", "RLT_HAVE_CPU_SYNC")
_NOT_FREESTANDING = frozenset(
    {
        "call.c",
        "code_memory.c",
        "devices.c",
        "fence.c",
        "file.c",
        "queue.c",
        "system.c",
        "task.c",
        "thread_pool.c",
        "transient_pool.c",
    }
)

# Kernels are linked in; errors are status codes.
STATIC = Configuration(
    definitions=("RLT_FREESTANDING", "RLT_SINGLE_THREADED", "RLT_NO_ERROR_MESSAGES"),
    parts=(*_COMMON_PARTS, "RLT_HAVE_STATIC_LOADER"),
    left_out=_NOT_FREESTANDING | {"elf.c"},
)
# Kernels are loaded from module files.
MODULE = Configuration(
    definitions=("RLT_FREESTANDING", "RLT_SINGLE_THREADED"),
    parts=(*_COMMON_PARTS, "RLT_HAVE_ELF_LOADER"),
    left_out=_NOT_FREESTANDING | {"static.c"},
)

_FOLDERS = ("base", "drivers", "drivers/cpu", "drivers/cpu/loaders", "hal", "module", "program", "vm")


def headers() -> Mapping[str, str]:
    """The public headers by path, ``rillet/session.h`` and so on."""
    include = root() / "include"
    return {p.relative_to(include).as_posix(): p.read_text("utf-8") for p in sorted(include.rglob("*.h"))}


def build(target: CpuTarget, configuration: Configuration, directory: Path | None) -> bytes:
    """The archive for ``target``. ``directory``: a cache that keeps it; a damaged copy is made again.

    Raises ``CompileError`` when compiling fails.
    """
    if not target.deployment.c_flags:
        raise CompileError(f"target {target.name} does not say how to compile C for it (c_flags)")
    kept = directory / f"runtime-{digest(target, configuration)}" if directory else None
    if kept and (stored := cache.read(kept)):
        return stored[1]
    with scratch_folder("runtime") as folder:
        library = objects.archive(_compile(target, configuration, folder))
    if kept:
        cache.write(kept, {}, library)
    return library


def root() -> Path:
    """The folder of the runtime's sources: that of the repository, or the copy that is installed with the package."""
    package = Path(__file__).resolve().parents[1]
    for candidate in (package.parents[1] / "runtime", package / "runtime" / "c"):
        if (candidate / "include" / "rillet" / "session.h").exists():
            return candidate
    raise CompileError("the sources of the C runtime are not installed with rillet: install it again")


def _sources(configuration: Configuration) -> list[Path]:
    found = [p for f in _FOLDERS for p in sorted((root() / "src" / f).glob("*.c"))]
    return [p for p in found if p.name not in configuration.left_out]


def digest(target: CpuTarget, configuration: Configuration) -> str:
    """Of everything that the library is made from."""
    c_flags = target.deployment.c_flags
    options = (c_flags, objects.C_FLAGS, objects.STACK_SIZES, configuration.definitions, configuration.parts)
    digest = hashlib.sha256(repr((metadata.version("ziglang"), *options)).encode())
    for path in [
        *_sources(configuration),
        *sorted((root() / "src").rglob("*.h")),
        *sorted((root() / "include").rglob("*.h")),
    ]:
        digest.update(f"{path.name}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:32]


def flags(target: CpuTarget, configuration: Configuration) -> list[str]:
    """How a source of the runtime is compiled."""
    found = [*target.deployment.c_flags, *objects.C_FLAGS, objects.STACK_SIZES, "-fvisibility=hidden", "-fno-builtin"]
    found += [f"-D{d}" for d in (*configuration.definitions, *configuration.parts)]
    found += ["-I", str(root() / "include"), "-I", str(root() / "src")]
    if target.deployment.position_independent:
        found.append("-fPIC")
    if target.machine.arch == "arm":
        found.append("-fshort-enums")  # as GNU C has it; functions take and give enumerations in registers only
    return found


def _compile(target: CpuTarget, configuration: Configuration, folder: Path) -> list[tuple[str, bytes]]:
    """The objects. Files of one name in several folders need names of their own."""
    names = []
    for source in _sources(configuration):
        name = "_".join(("rillet", *source.relative_to(root() / "src").with_suffix("").parts))
        (folder / f"{name}.c").write_text(f'#include "{source}"\n', "utf-8")
        names.append(name)
    compiled = objects.compile_each([f"{n}.c" for n in names], flags(target, configuration), target, folder)
    return [(name, (folder / name).read_bytes()) for name in compiled]
