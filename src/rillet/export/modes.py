"""The deployment modes, which implement the exported function: C, or bytecode run by the runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rillet.export import objects
from rillet.export import source as c_source
from rillet.export.build import Build
from rillet.export.convert_to_emitc import Memory
from rillet.export.figures import Figures, kernel_stack, measure_c, pieces_of, require_address_space


@dataclass(frozen=True)
class Parts:
    """The pieces of an exported model, before they are laid out in a folder."""

    header: str
    source: str
    members: tuple[tuple[str, bytes], ...]  # objects of the library of kernels, by name
    figures: Figures
    arena: tuple[Memory, ...]  # its parts
    uses: str  # the resources it needs to run, for the README
    notes: str = ""  # more for the README
    definitions: tuple[str, ...] = ()  # macros that the C source is compiled with
    runtime: bytes = b""  # the runtime as a static library; empty when none is needed
    runtime_headers: Mapping[str, str] = field(default_factory=dict)


_RUN = """// Runs the model: reads the inputs, writes the outputs. Returns 0, or 1 when it indexes out of bounds.
// Not reentrant: calls share the working memory.
{signature};"""

_SHARING = """Several models can share one arena: compile each C file with `-DRLT_ARENA=shared` and define a 64-byte
aligned `uint8_t shared[]` as large as the largest `..._ARENA_BYTES`. Calls must then not overlap.
"""

_STACK = """The stack is {kernels:,} bytes for the kernels, compiled already, and the rest for `{name}.c`: what
Clang takes at `-O0`, its most. GNU C takes no more at any level. For another compiler add up what it takes for the
functions of `{name}.c` (`-fstack-usage`), and the {kernels:,} bytes.
"""


def c_mode(build: Build, name: str) -> Parts:
    """The host program as C; no interpreter and no runtime."""
    require_address_space(build, build.lowered.arena_bytes)
    functions = _RUN.format(signature=c_source.signature(build, name))
    header = c_source.header(build, name, build.lowered.arena_bytes, functions)
    source = c_source.source(build, name)
    figures = measure_c(build, objects.compile_c(source, header, f"{name}.h", build.target))
    members = objects.kernel_members(build.kernels, build.target)
    if figures.constants:
        constants = objects.constants_object(build.image, f"{name}_constants", build.target)
        members.append((f"{name}_constants.o", constants))
    uses = "It needs no heap, no operating system and no C library."
    arena = pieces_of(build.lowered.tensors, figures.arena, "scratch of a kernel")
    notes = _SHARING
    if figures.stack is not None:
        notes += "\n" + _STACK.format(name=name, kernels=kernel_stack(build))
    return Parts(header, source, tuple(members), figures, arena, uses, notes)
