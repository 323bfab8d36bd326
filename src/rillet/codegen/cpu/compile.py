"""Compiles one kernel: analyse and rewrite it, choose a strategy, emit the kernel, lower it, generate the object."""

from __future__ import annotations

from torch_mlir import ir

from rillet.codegen.cpu import strategies
from rillet.codegen.cpu.legalize import legalize
from rillet.codegen.cpu.machine import SCRATCH_BYTES, CpuTarget
from rillet.codegen.cpu.object_code import helpers, llvm, object_file
from rillet.codegen.cpu.object_code.stack import stack_bytes
from rillet.codegen.cpu.result import CpuKernel
from rillet.codegen.cpu.rewrites import rewritten
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.codegen.result import CodegenOptions
from rillet.errors import CompileError
from rillet.ir import thread_context


def compile_kernel(text: str, target: CpuTarget, options: CodegenOptions | None = None) -> CpuKernel:
    """Compile the printed ``builtin.module @name attributes {flow.kernel} {...}`` of one kernel.

    The same text, target and options always give the same bytes. Raises ``CompileError`` when the kernel is not
    in the form of docs/reference/flow-form.md, or holds something no strategy takes.
    """
    options = options or CodegenOptions()
    with thread_context(), ir.Location.unknown():
        function = rewritten(KernelFunction(_parsed(text), options.knobs), target.machine)
        chosen = strategies.choose(function, target)
        kernel = KernelBuilder(
            chosen.function, target, vector_bits=target.machine.vector_bits, scratch_limit=SCRATCH_BYTES
        )
        chosen.strategy.emit(chosen.plan, kernel)
        module = kernel.finish()
        printed = str(module) if options.keep_intermediates else ""
        legalize(module, target)
        lowered = _lowered(module, kernel, target, options)
    object_options = llvm.ObjectOptions(
        optimize_for_size=options.optimize_for_size, vectorize_loops=chosen.strategy.vectorize_loops
    )
    want_assembly = options.keep_intermediates or target.deployment.stack_bound
    blob, assembly = llvm.emit(lowered, target, object_options, assembly=want_assembly)
    called = object_file.undefined_symbols(blob)
    missing = sorted(set(called) - helpers.names(target))
    if missing:
        raise CompileError(
            f"kernel @{function.name}: the code for {target.name} calls {', '.join(missing)}, which no kernel may"
        )
    return CpuKernel(
        name=function.name,
        object=blob,
        binding_count=function.binding_count,
        constant_count=function.constant_count,
        local_memory_size=kernel.local_memory_size,
        strategy=chosen.strategy.name,
        listings={"mlir": printed, "ll": lowered, "s": assembly} if options.keep_intermediates else {},
        grid=kernel.static_grid,
        choice=kernel.choice,
        stack_bytes=_stack(assembly, calls=bool(called)) if target.deployment.stack_bound else 0,
    )


def _stack(assembly: str, *, calls: bool) -> int:
    return stack_bytes(assembly) + (helpers.STACK_BYTES if calls else 0)


def _parsed(text: str) -> ir.Module:
    """The module that holds the function: the text's own, or the only one nested in it."""
    try:
        module = ir.Module.parse(text)
        operations = list(module.body.operations)
        is_nested = len(operations) == 1 and operations[0].operation.name == "builtin.module"
        return ir.Module.parse(str(operations[0])) if is_nested else module
    except ir.MLIRError as error:
        raise CompileError(f"the kernel's text is not valid MLIR: {error}") from error


def _lowered(module: ir.Module, kernel: KernelBuilder, target: CpuTarget, options: CodegenOptions) -> str:
    """LLVM IR of the kernel under the C ABI."""
    function = kernel.function
    return llvm.wrap(
        llvm.lower(module, target),
        function.name,
        function.binding_count,
        [str(scalar.type) for scalar in function.scalars],
        target,
        optimize_for_size=options.optimize_for_size,
    )
