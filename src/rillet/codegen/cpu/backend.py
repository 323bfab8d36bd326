"""CPUs as a backend: kernels become objects by way of LLVM, and a library is an embedded ELF.

The compiling modules are imported on first use, so that reading targets stays fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib import metadata

from rillet.codegen.backend import Alternatives
from rillet.codegen.cpu.machine import Cpu, CpuTarget
from rillet.codegen.cpu.result import CpuKernel
from rillet.codegen.knobs import Choice
from rillet.codegen.result import CodegenOptions, KernelLibrary
from rillet.targets import DispatchOptions


class CpuBackend:
    """The backend called "cpu"."""

    name = "cpu"
    machine = Cpu
    kernel = CpuKernel

    @cached_property  # each kernel's key asks for it, and packages' metadata are slow to read
    def version(self) -> str:
        """The versions of MLIR and LLVM; the cache adds the code generator's own source."""
        return " ".join(f"{package}=={metadata.version(package)}" for package in ("torch-mlir", "llvmlite"))

    def dispatch_options(self, target: CpuTarget, *, optimize_for_size: bool) -> DispatchOptions:
        """Chains may use half of the L2 cache for the tensors between their stages."""
        cpu, deployment = target.machine, target.deployment
        return DispatchOptions(
            packing=target.packing,
            roomy=deployment.roomy,
            row_lanes=1 if deployment.small_code else cpu.lanes(32),
            shared_bytes=not cpu.widening_loads,
            chain_bytes=cpu.l2_bytes // 2,
            winograd=deployment.roomy and not optimize_for_size,
        )

    def compile(self, text: str, target: CpuTarget, options: CodegenOptions) -> CpuKernel:
        """One kernel as an object file; see ``compile_kernel``."""
        from rillet.codegen.cpu.compile import compile_kernel

        return compile_kernel(text, target, options)

    def link(self, kernels: Sequence[CpuKernel], target: CpuTarget) -> KernelLibrary:
        """An embedded ELF: a shared object that needs no dynamic linker."""
        from rillet.codegen.cpu.object_code.link import link_embedded_elf
        from rillet.ir.image import LibraryFormat

        return KernelLibrary(LibraryFormat.EMBEDDED_ELF, link_embedded_elf(kernels, target))

    def alternatives(self, kernel: CpuKernel, target: CpuTarget) -> Alternatives | None:
        """Other register tiles, orders of loops and splits, for kernels whose strategy decides about them."""
        from rillet.codegen.cpu import alternatives

        return alternatives.groups(kernel.strategy, kernel.choice, target) if kernel.choice else None

    def modelled_cost(self, kernel: CpuKernel, choice: Choice, target: CpuTarget) -> float | None:
        """The modelled time of a kernel's register tiles, in cycles; None for kernels that the cost model does not
        time."""
        from rillet.codegen.cpu import alternatives

        return alternatives.modelled_cycles(kernel.strategy, choice, target)
