"""Brings an MLIR module to the tensor form, in named steps. Whoever makes MLIR ends here: text, PyTorch, JAX."""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from rillet.errors import CompileError
from rillet.frontends.mlir import dialects, edges, entry, external_constants, fills, foreign
from rillet.ir import Constants, Program
from rillet.ir.structured import walk

_INLINE = "builtin.module(func.func(stablehlo-legalize-composite-to-call),inline,symbol-dce)"
# Linalg's ops say themselves whether they are signed, so types need not any more.
_SIGNLESS = "builtin.module(stablehlo-convert-to-signless,reconcile-unrealized-casts)"
_CLEANUP = "builtin.module(func.func(linalg-generalize-named-ops),canonicalize,lower-affine,cse,symbol-dce)"


def import_module(module: ir.Module, constants: Constants | None = None) -> Program:
    """Bring ``module`` to the tensor form, in place; ``constants`` are the arrays of its external globals.

    The function to compile is ``@main``, or the only public one. Raises ``UnsupportedError``, which lists all ops that
    have no form here, and ``CompileError`` when there is no such function, or when it takes or returns something other
    than ranked tensors of numpy's types.
    """
    program = Program(module, constants or Constants())
    with program.context, ir.Location.unknown():
        edges.annotate(entry.isolate(module))
        _run(module, _INLINE)
        for conversion in dialects.conversions({op.name.partition(".")[0] for op in walk(module.operation)}):
            _run(module, conversion.pipeline)
        _run(module, _SIGNLESS)
        _run(module, _CLEANUP)
        fills.restore(module)
        foreign.refuse(module)
        external_constants.externalize(program)
    return program


def _run(module: ir.Module, pipeline: str) -> None:
    try:
        PassManager.parse(pipeline).run(module.operation)
    except ir.MLIRError as error:
        raise CompileError(f"the MLIR module cannot be brought to linalg form: {error}") from error
