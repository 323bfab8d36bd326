"""The pipeline: every stage and pass, in order, in one list. Read this first.

The frontend makes the program, and codegen compiles its kernels after dispatch; the passes here do all the rest. After
each stage the module is verified and the stage's own form is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rillet import dispatch, hal, optimize, placement, schedule, vm
from rillet.codegen.backends import backend_of
from rillet.codegen.result import CompiledKernel
from rillet.errors import CompileError
from rillet.ir import Program
from rillet.ir.passes import Pass
from rillet.support.files import save_error, write_atomically
from rillet.targets import DispatchOptions, Target
from rillet.targets.devices import CPU, Device

STAGES = ("frontend", "optimize", "dispatch", "placement", "codegen", "schedule", "hal", "vm")


@dataclass(frozen=True)
class Options:
    """The options of all stages."""

    dispatch: DispatchOptions
    devices: Sequence[Device] = (CPU,)


def options_for(target: Target, *, optimize_for_size: bool = False, devices: Sequence[Device] = (CPU,)) -> Options:
    """The options of a compilation of kernels for ``target`` and a program for ``devices``."""
    cut = backend_of(target).dispatch_options(target, optimize_for_size=optimize_for_size)
    return Options(cut, devices)


def passes(options: Options) -> list[Pass]:
    """Every pass of a compilation, in order."""
    return [
        *optimize.passes(),
        *dispatch.passes(options.dispatch),
        *placement.passes(options.devices),
        *schedule.passes(),
        *hal.passes(),
        *vm.passes(),
    ]


_CHECKS: dict[str, Callable[[Program], None]] = {
    "optimize": optimize.check,
    "dispatch": dispatch.check,
    "placement": placement.check,
    "schedule": schedule.check,
    "hal": hal.check,
    "vm": vm.check,
}


@dataclass(frozen=True)
class Trace:
    """Where the IR is written: dumps under ``directory``, none where that is None."""

    directory: Path | None = None

    def dump(self, stage: str, program: Program) -> None:
        """Write the module as ``NN-stage.mlir`` when a directory is set."""
        if self.directory is None:
            return
        text = program.module.operation.get_asm(enable_debug_info=False)
        _write(self.directory / f"{STAGES.index(stage):02d}-{stage}.mlir", text)

    def dump_kernels(self, target: str, kernels: Sequence[CompiledKernel]) -> None:
        """Write each kernel's listings, ``NN-codegen/TARGET/NAME.mlir``, ``.ll`` …, when a directory is set."""
        if self.directory is None:
            return
        folder = self.directory / f"{STAGES.index('codegen'):02d}-codegen" / target
        for kernel in kernels:
            for ending, text in kernel.listings.items():
                _write(folder / f"{kernel.name}.{ending}", text)


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise save_error(path, error) from error
    write_atomically(path, text.encode("utf-8", "surrogateescape"), durable=False)


def run(program: Program, options: Options, *, until: str, after: str = "frontend", trace: Trace | None = None) -> None:
    """Run the stages after ``after``, up to and including ``until``; verify and dump after each stage that has
    passes."""
    wanted = STAGES[STAGES.index(after) + 1 : STAGES.index(until) + 1]
    steps = passes(options)
    for stage in wanted:
        group = [step for step in steps if step.stage == stage]
        for step in group:
            step(program)
        if group:
            verify(program, stage)
            (trace or Trace()).dump(stage, program)


def verify(program: Program, stage: str) -> None:
    """Verify the module and the stage's own form. A failure is a bug of the compiler, and the message says so."""
    from torch_mlir import ir

    try:
        program.module.operation.verify()
    except ir.MLIRError as error:
        raise CompileError(f"internal error: the module is invalid after stage '{stage}': {error}") from error
    if stage in _CHECKS:
        _CHECKS[stage](program)
