"""The pipeline: every stage and pass, in order, in one list. Read this first.

The frontend makes the program; codegen compiles its kernels after dispatch; the passes here are all that happens
between and after. After each stage the module is verified and the stage's own spec check runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rillet import dispatch, hal, optimize, placement, schedule, vm
from rillet.codegen.result import CompiledKernel
from rillet.errors import CompileError
from rillet.ir import Program
from rillet.ir.passes import Pass
from rillet.support.files import save_error, write_atomically
from rillet.targets import Target
from rillet.targets.devices import CPU, Device

STAGES = ("frontend", "optimize", "dispatch", "placement", "codegen", "schedule", "hal", "vm")


def passes(target: Target, *, optimize_for_size: bool = False, devices: Sequence[Device] = (CPU,)) -> list[Pass]:
    """Every pass of a compilation of kernels for ``target`` and a program for ``devices``, in order."""
    machine, deployment = target.machine, target.deployment
    return [
        *optimize.PASSES,
        *dispatch.passes(
            target.packing.columns,
            (target.packing.steps, target.packing.ways),
            not deployment.roomy,
            machine.l2_bytes // 2,
            1 if deployment.small_code else machine.lanes(32),
            dispatch.winograd.Options() if deployment.roomy and not optimize_for_size else None,
            not machine.widening_loads,
        ),
        *placement.passes(devices),
        *schedule.passes(),
        *hal.passes(),
        *vm.passes(),
    ]


_CHECKS = {
    "optimize": optimize.check,
    "dispatch": dispatch.check,
    "placement": placement.check,
    "schedule": schedule.check,
    "hal": hal.check,
    "vm": vm.check,
}


@dataclass
class Trace:
    """Where the time went and where the IR is written: ``seconds`` by pass, dumps under ``directory``."""

    directory: Path | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    def dump(self, stage: str, program: Program) -> None:
        """Write the module as ``NN-stage.mlir`` when a directory is set."""
        if self.directory is None:
            return
        text = program.module.operation.get_asm(enable_debug_info=False)
        _write(self.directory / f"{STAGES.index(stage):02d}-{stage}.mlir", text)

    def dump_kernels(self, target: str, kernels: Sequence[CompiledKernel]) -> None:
        """Write ``NN-codegen/TARGET/NAME.mlir``, ``.ll`` and ``.s`` of each kernel when a directory is set."""
        if self.directory is None:
            return
        folder = self.directory / f"{STAGES.index('codegen'):02d}-codegen" / target
        for kernel in kernels:
            _write(folder / f"{kernel.name}.mlir", kernel.kernel)
            _write(folder / f"{kernel.name}.ll", kernel.llvm_ir)
            _write(folder / f"{kernel.name}.s", kernel.assembly)


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise save_error(path, error) from error
    write_atomically(path, text.encode("utf-8", "surrogateescape"), durable=False)


def run(program: Program, steps: Sequence[Pass], trace: Trace | None = None) -> None:
    """Run ``steps`` on ``program``, verifying and dumping after each stage."""
    trace = trace or Trace()
    for stage, group in _by_stage(steps):
        for step in group:
            start = time.perf_counter()
            step(program)
            trace.seconds[f"{stage}.{step.name}"] = time.perf_counter() - start
        verify(program, stage)
        trace.dump(stage, program)


def verify(program: Program, stage: str) -> None:
    """Verify the module and the stage's own rules. A failure is a bug of the compiler and says so."""
    from torch_mlir import ir

    try:
        program.module.operation.verify()
    except ir.MLIRError as error:
        raise CompileError(f"internal error: the module is invalid after stage '{stage}': {error}") from error
    if stage in _CHECKS:
        _CHECKS[stage](program)


def _by_stage(steps: Sequence[Pass]) -> Iterator[tuple[str, list[Pass]]]:
    for stage in STAGES:
        group = [step for step in steps if step.stage == stage]
        if group:
            yield stage, group
