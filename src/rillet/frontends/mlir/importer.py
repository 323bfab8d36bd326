"""Brings an MLIR module to the tensor form, in named steps. Whoever makes MLIR ends here: text, PyTorch, JAX."""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from rillet.errors import CompileError
from rillet.frontends.mlir import dialects, tensor_form
from rillet.ir import Constants, Program
from rillet.ir.structured import walk

_CLEANUP = "builtin.module(inline,func.func(linalg-generalize-named-ops),canonicalize,lower-affine,cse)"


def import_module(module: ir.Module, constants: Constants | None = None) -> Program:
    """Bring ``module`` to the tensor form, in place; ``constants`` are the arrays of its external globals.

    The function to compile is ``@main``, or the only public one. Raises ``CompileError`` when there is no such
    function, or when it takes or returns something other than ranked tensors.
    """
    program = Program(module, constants or Constants())
    with program.context, ir.Location.unknown():
        for conversion in dialects.conversions({op.name.partition(".")[0] for op in walk(module.operation)}):
            _run(module, conversion.pipeline)
        _run(module, _CLEANUP)
        tensor_form.restore_fills(module)
        main = tensor_form.entry(module)
        main.attributes["sym_name"] = ir.StringAttr.get("main")
        tensor_form.annotate_edges(main)
        tensor_form.externalize_constants(program)
    return program


def _run(module: ir.Module, pipeline: str) -> None:
    try:
        PassManager.parse(pipeline).run(module.operation)
    except ir.MLIRError as error:
        raise CompileError(f"the MLIR module cannot be brought to linalg form: {error}") from error
