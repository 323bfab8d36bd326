"""Code generation: one kernel (text) becomes one object file. See docs/reference/flow-form.md and kernel-abi.md."""

from rillet.codegen.cpu.compile import compile_kernel
from rillet.codegen.result import CodegenOptions, CompiledKernel

__all__ = ["CodegenOptions", "CompiledKernel", "compile_kernel"]
