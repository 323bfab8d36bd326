"""Code generation: one executable (text) becomes one object file. See docs/architecture.md, sections 3 and 4."""

from rillet.codegen.cpu.compile import compile_executable
from rillet.codegen.result import CodegenOptions, CompiledExecutable

__all__ = ["CodegenOptions", "CompiledExecutable", "compile_executable"]
