"""Compiles one executable: analyse, choose a strategy, emit the kernel, lower it, generate the object."""

from __future__ import annotations

from torch_mlir import ir

from rillet.codegen.cpu import strategies
from rillet.codegen.cpu.legalize import legalize
from rillet.codegen.cpu.object_code import llvm, object_file
from rillet.codegen.cpu.object_code.stack import stack_bytes
from rillet.codegen.emit.kernel import Kernel
from rillet.codegen.recognize.kernel_function import Dispatch
from rillet.codegen.result import CodegenOptions, CompiledExecutable
from rillet.codegen.rewrites.collapse import collapse
from rillet.codegen.rewrites.float_sums import sum_in_floats
from rillet.codegen.rewrites.group_columns import merge_group_columns
from rillet.codegen.rewrites.unshare_empties import separate
from rillet.errors import CompileError
from rillet.ir import thread_context
from rillet.targets import Target


def compile_executable(text: str, target: Target, options: CodegenOptions | None = None) -> CompiledExecutable:
    """Compile the printed ``builtin.module @name attributes {flow.executable} {...}`` of one executable.

    The same text, target and options always give the same bytes. Raises ``CompileError`` when the executable is not
    in the form of docs/architecture.md, section 3, or holds something no strategy takes.
    """
    options = options or CodegenOptions()
    with thread_context(), ir.Location.unknown():
        try:
            parsed = _executable(ir.Module.parse(text))
        except ir.MLIRError as error:
            raise CompileError(f"the executable's text is not valid MLIR: {error}") from error
        separate(parsed)
        dispatch = Dispatch(parsed, options.knobs)
        if merge_group_columns(dispatch, target):
            dispatch = Dispatch(dispatch.module, options.knobs)
        if sum_in_floats(dispatch, target):
            dispatch = Dispatch(dispatch.module, options.knobs)
        strategy = strategies.choose(dispatch, target)
        if getattr(strategy, "collapses", False) and collapse(dispatch):
            dispatch = Dispatch(dispatch.module, options.knobs)
            strategy = strategies.choose(dispatch, target)
        kernel = Kernel(dispatch, target)
        strategy.emit(dispatch, kernel, target)
        module = kernel.finish()
        printed = str(module) if options.keep_intermediates else ""
        legalize.run(module, target)
        name = dispatch.name
        scalars = [str(s.type) for s in dispatch.scalars]
        lowered = llvm.wrap(
            llvm.lower(module, target),
            name,
            dispatch.binding_count,
            scalars,
            target,
            optimize_for_size=options.optimize_for_size,
        )
    object_options = llvm.ObjectOptions(
        optimize_for_size=options.optimize_for_size,
        vectorize_loops=getattr(strategy, "vectorize_loops", False),
    )
    want_assembly = options.keep_intermediates or target.is_bare_metal
    blob, assembly = llvm.emit(lowered, target, object_options, assembly=want_assembly)
    missing = object_file.undefined_symbols(blob)
    if missing:
        raise CompileError(
            f"executable @{name}: the code for {target.name} calls {', '.join(missing)}, which no kernel may"
        )
    return CompiledExecutable(
        name=name,
        object=blob,
        binding_count=dispatch.binding_count,
        constant_count=dispatch.constant_count,
        local_memory_size=kernel.local_memory_size,
        strategy=strategy.name,
        kernel=printed,
        llvm_ir=lowered if options.keep_intermediates else "",
        assembly=assembly if options.keep_intermediates else "",
        grid=kernel.static_grid,
        choice=kernel.choice,
        stack_bytes=stack_bytes(assembly) if target.is_bare_metal else 0,
    )


def _executable(module: ir.Module) -> ir.Module:
    """The module that holds the function: the printed module itself, or the only one nested in it."""
    operations = list(module.body.operations)
    if len(operations) == 1 and operations[0].operation.name == "builtin.module":
        nested = str(operations[0])
        return ir.Module.parse(nested)
    return module
