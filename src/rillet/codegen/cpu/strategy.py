"""What a code generation strategy is: a module-level object that recognizes a kernel by its structure and emits its
kernel."""

from __future__ import annotations

from typing import Protocol

from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.recognize.kernel_function import KernelFunction


class Strategy(Protocol):
    """One way to generate code. Strategies are tried in the order of ``strategies.ALL``; the first match emits.

    ``emit`` calls ``kernel.grid(...)`` once and emits inside ``with kernel.body():``. It must write every element of
    every result, each by exactly one workgroup, and may read tied or aliasing arguments only as
    ``KernelFunction.may_alias``
    allows.
    """

    name: str
    # Optional, False when absent: ``vectorize_loops``: LLVM should vectorize and unroll the loops, for they are scalar;
    # ``collapses``: merge dimensions that all ops treat alike before emitting (``collapse``).

    def matches(self, function: KernelFunction, target: CpuTarget) -> bool:
        """True when this strategy can generate the dispatch. Emits nothing and must not raise."""
        ...

    def emit(self, function: KernelFunction, kernel: KernelBuilder, target: CpuTarget) -> None:
        """Emit the kernel."""
        ...
