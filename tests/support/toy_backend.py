"""A backend for tests: an elementwise kernel becomes the list of its operations, a library the lines of all kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rillet.codegen.backend import Alternatives
from rillet.codegen.knobs import Choice
from rillet.codegen.result import CodegenOptions, CompiledKernel, KernelLibrary
from rillet.errors import CompileError
from rillet.targets import DispatchOptions, Target

FORMAT = 100
DESCRIPTION = 'backend = "toy"\n[machine]\nlanes = 4\n'


@dataclass(frozen=True)
class ToyMachine:
    """An accelerator that no computer has."""

    lanes: int

    arch = "toy"
    label = "toy"
    features = ()

    @property
    def identity(self) -> dict[str, object]:
        return {"lanes": self.lanes}

    @property
    def rank(self) -> tuple[int, ...]:
        return (self.lanes,)

    @property
    def obstacle(self) -> str | None:
        return "this machine has no toy"

    def refined(self) -> ToyMachine:
        return self


ToyTarget: TypeAlias = Target[ToyMachine]


class ToyBackend:
    """Remembers what it was asked for."""

    name = "toy"
    machine = ToyMachine
    kernel = CompiledKernel
    version = "1"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def dispatch_options(self, target: ToyTarget, *, optimize_for_size: bool) -> DispatchOptions:
        self.asked.append("dispatch_options")
        return DispatchOptions(packing=target.packing)

    def compile(self, text: str, target: ToyTarget, options: CodegenOptions) -> CompiledKernel:
        from torch_mlir import ir

        from rillet.ir import thread_context
        from rillet.ir.structured import walk

        self.asked.append("compile")
        with thread_context():
            module = ir.Module.parse(text)
            ops = [op.name for op in walk(module.operation)]
        if unknown := [name for name in ops if name.startswith("math.")]:
            raise CompileError(f"a toy cannot compute {unknown[0]}")
        lines = [name for name in ops if name.startswith("arith.")]
        listing = f"{target.machine.lanes} lanes: {' '.join(lines)}"
        name = ir.StringAttr(module.operation.attributes["sym_name"]).value
        return CompiledKernel(name, listing.encode(), 3, 0, "elementwise", listings={"toy": listing})

    def link(self, kernels: Sequence[CompiledKernel], target: ToyTarget) -> KernelLibrary:
        self.asked.append("link")
        return KernelLibrary(FORMAT, b"\n".join(kernel.object for kernel in kernels))

    def alternatives(self, kernel: CompiledKernel, target: ToyTarget) -> Alternatives | None:
        return None

    def modelled_cost(self, kernel: CompiledKernel, choice: Choice, target: ToyTarget) -> float | None:
        return None


class Incomplete:
    """No backend: it cannot link."""

    name = "toy"
    machine = ToyMachine
