"""The memory of an exported model on a microcontroller, and whether it fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rillet.codegen.cpu.object_code import object_file
from rillet.errors import CompileError
from rillet.export import objects
from rillet.export.build import Build
from rillet.export.convert_to_emitc import Memory
from rillet.export.objects import Compiled
from rillet.export.source import parameters

_LISTED = 8  # pieces that a message names


@dataclass(frozen=True)
class Figures:
    """Sizes in bytes. ``code`` and ``stack`` are None where the host program was not compiled for the target."""

    arena: int
    arena_lower_bound: int
    kernels: int  # code and tables of the kernels
    constants: int
    code: int | None  # everything else: the host program
    stack: int | None  # at most, for one call
    macs: int
    dispatches: int

    @property
    def flash(self) -> int:
        """Bytes of read-only memory: kernels, constants, and the host program's code where it was measured."""
        return self.kernels + self.constants + (self.code or 0)

    @property
    def ram(self) -> int:
        """Bytes of writable memory: the arena, and the stack where it was measured."""
        return self.arena + (self.stack or 0)


def measure_c(build: Build, program: Compiled | None) -> Figures:
    """The figures in C mode. ``program``: the host program as the target's compiler compiled it."""
    stats = build.image.stats
    return Figures(
        arena=build.lowered.arena_bytes,
        arena_lower_bound=stats["arena_lower_bound"],
        kernels=kernel_flash(build),
        constants=stats["constant_bytes"],
        code=program.sizes.flash if program else None,
        stack=program.stack + kernel_stack(build) if program and build.target.deployment.stack_bound else None,
        macs=stats.get("macs", 0),
        dispatches=len(build.lowered.dispatches),
    )


def kernel_flash(build: Build) -> int:
    """Bytes of the kernels, and of the helpers that they call."""
    return sum(object_file.sizes(blob).flash for _, blob in objects.kernel_members(build.kernels, build.target))


def kernel_stack(build: Build) -> int:
    """The most stack that a kernel takes, in bytes."""
    return max((k.stack_bytes for k in build.kernels), default=0)


def pieces_of(tensors: Sequence[Memory], arena: int, rest: str) -> tuple[Memory, ...]:
    """The parts of the ``arena``: ``tensors``, and a remainder called ``rest``."""
    left = arena - sum(t.total for t in tensors)
    return (*tensors, Memory(rest, left)) if left > 0 else tuple(tensors)


def require_address_space(build: Build, arena: int) -> None:
    """Raise ``CompileError`` when the arena, the constants and the caller's tensors have more bytes than addresses."""
    inputs, outputs = parameters(build)
    pieces = [(arena, "arena"), (build.image.stats["constant_bytes"], "constants")]
    pieces += [(p.bytes, f"input '{p.spec.name}'") for p in inputs]
    pieces += [(p.bytes, f"output '{p.spec.name}'") for p in outputs]
    needed, addresses = sum(size for size, _ in pieces), 1 << build.target.machine.pointer_bits
    if needed > addresses:
        what = f"address space on {build.target.name} ({build.target.machine.pointer_bits} bits)"
        raise CompileError(_message(what, needed, addresses, "give the model smaller inputs", pieces))


def check_budget(name: str, size: object) -> None:
    """Raise ``CompileError`` unless the argument is a number of bytes, or None for no budget."""
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 0):
        raise CompileError(f"{name} must be a number of bytes from 0 on, not {size!r}")


def check_budgets(build: Build, figures: Figures, arena: Sequence[Memory], ram: int | None, flash: int | None) -> None:
    """Raise ``CompileError`` when the model does not fit; the message lists what takes the memory, largest first.

    ``arena``: its parts.
    """
    if ram is not None and figures.ram > ram:
        pieces = [(m.total, str(m)) for m in arena]
        pieces += [(figures.stack, "stack of a call")] if figures.stack else []
        rest = f"arena {figures.arena:,} + stack {figures.stack or 0:,}"
        raise CompileError(_message("RAM", figures.ram, ram, rest, pieces))
    if flash is not None and figures.flash > flash:
        pieces = [(array.nbytes, f"constant {'x'.join(map(str, array.shape))}") for array in _arrays(build)]
        pieces += [(object_file.sizes(k.object).flash, f"code of {k.name.split('_', 2)[2]}") for k in build.kernels]
        rest = f"constants {figures.constants:,} + kernels {figures.kernels:,} + host program {figures.code or 0:,}"
        raise CompileError(_message("flash", figures.flash, flash, rest, pieces))


def _arrays(build: Build) -> list:
    return [array for segment in build.image.segments for _, array in segment.parts]


def _message(what: str, needed: int, budget: int, parts: str, pieces: list[tuple[int, str]]) -> str:
    pieces = sorted((p for p in pieces if p[0]), key=lambda p: -p[0])
    largest, others = pieces[:_LISTED], pieces[_LISTED:]
    if others:
        largest.append((sum(size for size, _ in others), f"{len(others)} more"))
    lines = "".join(f"\n  {size:>10,}  {name}" for size, name in largest)
    excess = f"{needed - budget:,} more than the {budget:,} there are"
    return f"the model needs {needed:,} bytes of {what}, {excess} ({parts}):{lines}"
