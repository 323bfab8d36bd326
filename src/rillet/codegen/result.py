"""What code generation takes and gives, free of MLIR and LLVM so that the cache and the workers can pass it around."""

from __future__ import annotations

from dataclasses import dataclass

from rillet.codegen.knobs import MODEL, Choice, Knobs


@dataclass(frozen=True)
class CodegenOptions:
    """Options of one kernel's compilation."""

    optimize_for_size: bool = False
    keep_intermediates: bool = False  # the kernel as MLIR, LLVM IR and assembly, beside the object
    knobs: Knobs = MODEL  # choices that overrule the cost model's


@dataclass(frozen=True)
class CompiledKernel:
    """One kernel as an object file that defines hidden ``name`` and ``name__count`` (docs/reference/kernel-abi.md)."""

    name: str
    object: bytes
    binding_count: int
    constant_count: int
    local_memory_size: int
    strategy: str
    kernel: str = ""  # in vector, scf and memref form
    llvm_ir: str = ""  # before LLVM's passes
    assembly: str = ""
    stack_bytes: int = 0  # the most stack a workgroup takes; 0 when it was not computed (targets with an OS)
    grid: tuple[int, int, int] | None = None  # the workgroup grid; None when it depends on the push constants
    choice: Choice | None = None  # what was decided; None when the kernel's strategy decides nothing
