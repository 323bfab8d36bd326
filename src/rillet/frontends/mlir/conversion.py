"""Runs upstream's conversions, and sets aside what they cannot convert.

A conversion stops at the first op that it has no pattern for. That op becomes an opaque one, which conversions pass
over, and the conversion starts again, so that at the end all such ops are known.
"""

from __future__ import annotations

import re

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from rillet.errors import CompileError
from rillet.ir.structured import walk

OPAQUE = "opaque."  # in front of the name of an op that was set aside
_FAILED = re.compile(r"failed to legalize operation '([^']+)'|'([^']+)' op ")
_KEPT = ("func.func", "func.return", "builtin.module")  # what holds the ops


def convert(module: ir.Module, pipeline: str) -> None:
    """Run ``pipeline`` on ``module``. Raises CompileError for a failure that no op of the module explains."""
    while True:
        before = module.operation.clone()
        try:
            PassManager.parse(pipeline).run(module.operation)
            return
        except ir.MLIRError as error:
            failed = _failed(before.operation, error)
            if not failed:
                raise CompileError(f"the MLIR module cannot be brought to linalg form: {error}") from error
            for op in failed:
                set_aside(op)
            _restore(module, before.operation)


def set_aside(op: ir.Operation) -> None:
    """Replace ``op`` by an opaque one."""
    with ir.InsertionPoint(op):
        opaque = ir.Operation.create(
            OPAQUE + op.name, results=[r.type for r in op.results], operands=list(op.operands), loc=op.location
        )
    for old, new in zip(op.results, opaque.results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


def _failed(module: ir.Operation, error: ir.MLIRError) -> list[ir.Operation]:
    """The ops of ``module`` that the error is about: at its place, by name if they are not lowered yet."""
    for diagnostic in error.error_diagnostics:
        named = _FAILED.search(diagnostic.message)
        if named is None or isinstance(diagnostic.location, ir.UnknownLoc):
            continue
        here = [op for op in walk(module) if op.location == diagnostic.location and op.name not in _KEPT]
        return [op for op in here if op.name in (named[1], named[2])] or here
    return []


def _restore(module: ir.Module, before: ir.Operation) -> None:
    for op in reversed(list(module.body.operations)):
        op.operation.erase()
    for op in list(before.regions[0].blocks[0].operations):
        module.body.append(op)
