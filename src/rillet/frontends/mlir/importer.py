"""Brings an MLIR module to the tensor form, in named steps. All sources of MLIR come here: text, PyTorch, JAX."""

from __future__ import annotations

from torch_mlir import ir

from rillet.frontends.mlir import (
    assertions,
    dialects,
    edges,
    entry,
    external_constants,
    fills,
    foreign,
    host_scalars,
    index_arithmetic,
    narrow_floats,
    scalar_operands,
    stablehlo,
    static_results,
    whole_tensors,
)
from rillet.frontends.mlir.conversion import convert
from rillet.ir import Constants, Program
from rillet.ir.strided_insertions import insert_unpadded
from rillet.ir.structured import walk

_INLINE = "builtin.module(func.func(stablehlo-legalize-composite-to-call),inline,symbol-dce)"
# Linalg's ops say whether they are signed, so types no longer need to.
_SIGNLESS = "builtin.module(stablehlo-convert-to-signless,reconcile-unrealized-casts)"
_STRUCTURED = "builtin.module(func.func(convert-elementwise-to-linalg,linalg-generalize-named-ops))"
_CLEANUP = "builtin.module(canonicalize,lower-affine,cse,symbol-dce)"


def import_module(module: ir.Module, constants: Constants | None = None) -> Program:
    """Bring ``module`` to the tensor form, in place; ``constants`` are the arrays of its external globals.

    The function to compile is ``@main``, or the only public one. Raises ``UnsupportedError``, which lists all ops that
    have no form here, and ``CompileError`` when there is no such function, or when it takes or returns something other
    than ranked tensors of numpy's types.
    """
    program = Program(module, constants or Constants())
    with program.context, ir.Location.unknown():
        edges.annotate(entry.isolate(module))
        foreign.set_state_aside(module)
        insert_unpadded(module.operation)  # inlining canonicalizes
        convert(module, _INLINE)
        for conversion in dialects.conversions({op.name.partition(".")[0] for op in walk(module.operation)}):
            if conversion.prepare is not None:
                conversion.prepare(module)
            convert(module, conversion.pipeline)
        convert(module, _SIGNLESS)
        whole_tensors.to_structured(module)
        convert(module, _STRUCTURED)
        insert_unpadded(module.operation)  # those of other dialects
        convert(module, _CLEANUP)
        index_arithmetic.to_arith(module)
        fills.restore(module)
        scalar_operands.capture(module)
        host_scalars.sink(program.main())
        narrow_floats.widen(program.main())
        stablehlo.lower(program)
        foreign.refuse(module)
        static_results.refine(program.main())
        assertions.hoist(program.main())
        external_constants.externalize(program)
    return program
