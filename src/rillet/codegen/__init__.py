"""Code generation: one kernel (text) becomes one object file. See docs/architecture.md, sections 3 and 4."""

from rillet.codegen.cpu.compile import compile_kernel
from rillet.codegen.result import CodegenOptions, CompiledKernel

__all__ = ["CodegenOptions", "CompiledKernel", "compile_kernel"]
