"""What a model takes in each deployment mode, side by side: ``python -m benchmarks.sizes [MODEL [TARGET...]]``.

Prints Markdown, in bytes. Weights are the same in every mode and are left out.

- *debug shared library*, *shared library*: the kernels as the system's linker makes them, with symbols and without, for
  the runtime's loader of shared libraries;
- *embedded ELF*: the kernels as they lie in a module file;
- *static*: kernels and bytecode linked into the program beside the runtime;
- *C*: kernels and the host program as C, without a runtime.

A runtime counts with what a program that runs a model needs of it: with error messages where there is an operating
system, with status codes only in static mode.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import models
from rillet.codegen.cache import default_directory
from rillet.codegen.cpu.object_code import object_file
from rillet.codegen.cpu.object_code.link import link_embedded_elf, table_ir
from rillet.codegen.cpu.object_code.llvm import emit_object
from rillet.codegen.cpu.object_code.sizes import Sizes
from rillet.codegen.cpu.object_code.zig import zig
from rillet.driver.export import static_build
from rillet.driver.options import CompileOptions
from rillet.errors import CompileError
from rillet.export import Build, objects, runtime_library, static_mode
from rillet.export.modes import c_mode
from rillet.export.runtime_library import Configuration
from rillet.frontends.registry import open_model
from rillet.targets import Target, get

TARGETS = ("x86-64-v3", "aarch64", "riscv64gcv", "cortex-m4", "cortex-m55", "riscv32imf", "wasm32")
MODES = ("debug shared library", "shared library", "embedded ELF", "static", "C")

# A program that loads a model and runs it.
_PROGRAM = """#include "rillet/session.h"
int program(const void* data, size_t length, rlt_allocator_t allocator, const rlt_session_options_t* options,
            rlt_error_t* error, const int64_t* shape, rlt_buffer_view_t** output) {
  rlt_session_t* session = NULL;
  rlt_buffer_view_t* input = NULL;
  rlt_status_t status = rlt_session_create(data, length, NULL, NULL, options, allocator, error, &session);
  if (status == RLT_OK) status = rlt_session_wrap(session, RLT_TYPE_F32, 4, shape, data, 4, error, &input);
  if (status == RLT_OK) status = rlt_session_run(session, 0, 1, &input, 1, output, error);
  return (int)status;
}
"""


@dataclass(frozen=True)
class Size:
    """Bytes of kernels, of the host program (bytecode or C) and of the runtime."""

    kernels: int
    program: int
    runtime: int

    @property
    def total(self) -> int:
        return self.kernels + self.program + self.runtime


def runtime_size(target: Target, configuration: Configuration) -> Sizes:
    """The runtime as far as a program that loads and runs a model needs it, without the compiler's helper library."""
    library = runtime_library.build(target, configuration, default_directory())
    headers = runtime_library.headers()
    linked = objects.linked(_PROGRAM, headers, configuration.definitions, library, "program", target).program
    return object_file.sizes(linked)


def measure(model: object, target: Target) -> dict[str, Size]:
    """The sizes by mode; modes that make no sense for the target are absent."""
    options = CompileOptions(cache=default_directory(), optimize_for_size=True)
    built = static_build(open_model(model), target, None, options, None)
    table = emit_object(table_ir(built.kernels, target), target)
    linked_in = sum(object_file.sizes(k.object).flash for k in built.kernels) + object_file.sizes(table).flash
    bytecode = len(static_mode.module_bytes(built, "model")) - built.image.stats["constant_bytes"]
    in_c = c_mode(built, "model").figures
    assert in_c.code is not None
    found = {
        "static": Size(linked_in, bytecode, runtime_size(target, runtime_library.STATIC).flash),
        "C": Size(in_c.kernels, in_c.code, 0),
    }
    if not target.deployment.has_loader:
        return found
    runtime = runtime_size(target, runtime_library.MODULE).flash
    files = {
        "debug shared library": _shared_library(built, table, strip=False),
        "shared library": _shared_library(built, table, strip=True),
        "embedded ELF": len(link_embedded_elf(built.kernels, target)),
    }
    return {**{mode: Size(kernels, bytecode, runtime) for mode, kernels in files.items()}, **found}


def _shared_library(built: Build, table: bytes, *, strip: bool) -> int:
    with tempfile.TemporaryDirectory(prefix="rillet-shared-") as name:
        folder, paths = Path(name), []
        for number, blob in enumerate([table, *(k.object for k in built.kernels)]):
            paths.append(f"{number}.o")
            (folder / paths[-1]).write_bytes(blob)
        flags = ["-shared", "--eh-frame-hdr", "--build-id", *(["-s"] if strip else [])]
        zig(["ld.lld", *flags, *paths, "-o", "library.so"], "linking a shared library", folder)
        return (folder / "library.so").stat().st_size


def report(name: str, targets: Sequence[str]) -> str:
    """The tables as Markdown."""
    model = models.build(name)
    rows = {target: measure(model, get(target)) for target in targets}
    lines = [f"{name}, everything but its weights, in bytes (kernels alone in parentheses):", ""]
    lines += [f"| target | {' | '.join(MODES)} |", "|---|" + "---:|" * len(MODES)]
    for target, sizes in rows.items():
        cells = [f"{sizes[m].total:,} ({sizes[m].kernels:,})" if m in sizes else "" for m in MODES]
        lines.append(f"| `{target}` | {' | '.join(cells)} |")
    lines += ["", "The parts that do not depend on the kernels:", ""]
    lines += ["| target | runtime with its ELF loader | static runtime | bytecode | host program as C |"]
    lines += ["|---|---:|---:|---:|---:|"]
    for target, sizes in rows.items():
        loader = f"{sizes['embedded ELF'].runtime:,}" if "embedded ELF" in sizes else ""
        static, c = sizes["static"], sizes["C"]
        lines.append(f"| `{target}` | {loader} | {static.runtime:,} | {static.program:,} | {c.program:,} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sizes", description="Measure deployment modes' sizes.")
    parser.add_argument("model", nargs="?", default="ds_cnn", metavar="MODEL", help="a model of the zoo (ds_cnn)")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"see `rillet targets` ({' '.join(TARGETS)})")
    options = parser.parse_args(arguments)
    if options.model not in models.NAMES:
        parser.error(f"unknown model '{options.model}'; known are {', '.join(models.NAMES)}")
    try:
        print(report(options.model, options.targets or TARGETS))
    except CompileError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
