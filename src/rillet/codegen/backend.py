"""A backend decides how a program is cut for it, turns kernels into code, and makes code part of a file."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

from rillet.codegen.knobs import Choice, Knobs
from rillet.codegen.result import CodegenOptions, CompiledKernel, KernelLibrary
from rillet.targets import DispatchOptions, Machine, Target

Alternatives: TypeAlias = Generator[list[Knobs], Choice, None]
"""Yields one group of alternatives after another; takes what was decided for the best kernel so far."""

M = TypeVar("M", bound=Machine)
K = TypeVar("K", bound=CompiledKernel)


@runtime_checkable
class Backend(Protocol[M, K]):
    """One kind of code. ``codegen/backends.py`` lists them; a target names its own.

    A backend is made once in each process and holds no state: several processes compile kernels at a time.
    """

    name: str
    machine: type[M]  # the type of [machine] in a target's description: a frozen dataclass
    kernel: type[K]  # the type that ``compile`` returns; the cache keeps its fields, which JSON can hold

    @property
    def version(self) -> str:
        """Part of the key of cached kernels: changes whenever the same text may become other code."""

    def dispatch_options(self, target: Target[M], *, optimize_for_size: bool) -> DispatchOptions:
        """How a program is cut into kernels, and which regions become one."""

    def compile(self, text: str, target: Target[M], options: CodegenOptions) -> K:
        """Compile one kernel, the printed module of docs/reference/flow-form.md. Runs in worker processes.

        The same text, target and options always give the same code. Raises ``CompileError`` for a kernel that it cannot
        take.
        """

    def link(self, kernels: Sequence[K], target: Target[M]) -> KernelLibrary:
        """The library that a module file holds of these kernels, in ordinal order. Raises ``CompileError`` where
        linking fails."""

    def alternatives(self, kernel: K, target: Target[M]) -> Alternatives | None:
        """Groups of other choices worth measuring for a kernel; None where it has no choices."""

    def modelled_cost(self, kernel: K, choice: Choice, target: Target[M]) -> float | None:
        """The expected cost of a choice for a kernel, in any unit, less being better; None where the backend cannot
        say."""
