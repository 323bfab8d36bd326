"""A kernel compiled for a CPU."""

from __future__ import annotations

from dataclasses import dataclass

from rillet.codegen.result import CompiledKernel


@dataclass(frozen=True)
class CpuKernel(CompiledKernel):
    """An object file that defines hidden ``name`` and ``name__count`` (docs/reference/kernel-abi.md)."""

    local_memory_size: int = 0  # scratch of a workgroup, in bytes
    stack_bytes: int = 0  # the most stack that a workgroup takes; 0 where the target asks for no bound
    grid: tuple[int, int, int] | None = None  # the workgroup grid; None when it depends on the push constants

    @property
    def kernel(self) -> str:
        """The kernel in vector, scf and memref form; empty unless intermediates were kept."""
        return self.listings.get("mlir", "")

    @property
    def llvm_ir(self) -> str:
        """LLVM IR before LLVM's passes; empty unless intermediates were kept."""
        return self.listings.get("ll", "")

    @property
    def assembly(self) -> str:
        """The assembly; empty unless intermediates were kept."""
        return self.listings.get("s", "")
