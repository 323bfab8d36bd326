"""Compiles one kernel: analyse, choose a strategy, emit the kernel, lower it, generate the object."""

from __future__ import annotations

from torch_mlir import ir

from rillet.codegen.cpu import strategies
from rillet.codegen.cpu.legalize import legalize
from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.cpu.object_code import llvm, object_file
from rillet.codegen.cpu.object_code.stack import stack_bytes
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.codegen.result import CodegenOptions, CompiledKernel
from rillet.codegen.rewrites.collapse import collapse
from rillet.codegen.rewrites.float_sums import sum_in_floats
from rillet.codegen.rewrites.group_columns import merge_group_columns
from rillet.codegen.rewrites.unshare_empties import separate
from rillet.errors import CompileError
from rillet.ir import thread_context


def compile_kernel(text: str, target: CpuTarget, options: CodegenOptions | None = None) -> CompiledKernel:
    """Compile the printed ``builtin.module @name attributes {flow.kernel} {...}`` of one kernel.

    The same text, target and options always give the same bytes. Raises ``CompileError`` when the kernel is not
    in the form of docs/reference/flow-form.md, or holds something no strategy takes.
    """
    options = options or CodegenOptions()
    with thread_context(), ir.Location.unknown():
        try:
            parsed = _kernel_module(ir.Module.parse(text))
        except ir.MLIRError as error:
            raise CompileError(f"the kernel's text is not valid MLIR: {error}") from error
        separate(parsed)
        function = KernelFunction(parsed, options.knobs)
        if merge_group_columns(function, target):
            function = KernelFunction(function.module, options.knobs)
        if sum_in_floats(function, target):
            function = KernelFunction(function.module, options.knobs)
        strategy = strategies.choose(function, target)
        if getattr(strategy, "collapses", False) and collapse(function):
            function = KernelFunction(function.module, options.knobs)
            strategy = strategies.choose(function, target)
        kernel = KernelBuilder(function, target)
        strategy.emit(function, kernel, target)
        module = kernel.finish()
        printed = str(module) if options.keep_intermediates else ""
        legalize.run(module, target)
        name = function.name
        scalars = [str(s.type) for s in function.scalars]
        lowered = llvm.wrap(
            llvm.lower(module, target),
            name,
            function.binding_count,
            scalars,
            target,
            optimize_for_size=options.optimize_for_size,
        )
    object_options = llvm.ObjectOptions(
        optimize_for_size=options.optimize_for_size,
        vectorize_loops=getattr(strategy, "vectorize_loops", False),
    )
    want_assembly = options.keep_intermediates or target.deployment.stack_bound
    blob, assembly = llvm.emit(lowered, target, object_options, assembly=want_assembly)
    missing = object_file.undefined_symbols(blob)
    if missing:
        raise CompileError(
            f"kernel @{name}: the code for {target.name} calls {', '.join(missing)}, which no kernel may"
        )
    return CompiledKernel(
        name=name,
        object=blob,
        binding_count=function.binding_count,
        constant_count=function.constant_count,
        local_memory_size=kernel.local_memory_size,
        strategy=strategy.name,
        kernel=printed,
        llvm_ir=lowered if options.keep_intermediates else "",
        assembly=assembly if options.keep_intermediates else "",
        grid=kernel.static_grid,
        choice=kernel.choice,
        stack_bytes=stack_bytes(assembly) if target.deployment.stack_bound else 0,
    )


def _kernel_module(module: ir.Module) -> ir.Module:
    """The module that holds the function: the printed module itself, or the only one nested in it."""
    operations = list(module.body.operations)
    if len(operations) == 1 and operations[0].operation.name == "builtin.module":
        nested = str(operations[0])
        return ir.Module.parse(nested)
    return module
