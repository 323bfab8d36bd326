"""A code generation strategy is a module-level object that recognizes a kernel by its structure, decides how it is cut,
and emits it."""

from __future__ import annotations

from typing import Protocol, TypeVar

from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.recognize.kernel_function import KernelFunction

P = TypeVar("P")


class Strategy(Protocol[P]):
    """One way to generate code; ``P`` is its plan for a kernel. ``strategies.STRATEGIES`` has all of them."""

    name: str
    vectorize_loops: bool  # LLVM should vectorize and unroll the loops, for they are scalar
    collapses: bool  # the kernel's dimensions that all ops treat alike are merged, and the strategies asked again

    def plan(self, function: KernelFunction, target: CpuTarget) -> P | None:
        """The plan for a kernel; None where another strategy must take it. Emits nothing and must not raise."""
        ...

    def emit(self, plan: P, kernel: KernelBuilder) -> None:
        """Emit the kernel as planned: call ``kernel.grid(...)`` once and emit inside ``with kernel.body():``.

        The code must write every element of every result, each by exactly one workgroup, and may read tied or aliasing
        arguments only as ``KernelFunction.may_alias`` allows.
        """
        ...
