"""The form after the stage ``hal``."""

from __future__ import annotations

from torch_mlir import ir

from rillet.errors import CompileError
from rillet.ir import Program

_DIALECTS = ("hal", "arith", "math", "cf", "func")


def check(program: Program) -> None:
    """Raise ``CompileError`` when any op is not a hal operation, host arithmetic or a branch."""
    with program.context:
        for function in program.module.body.operations:
            if function.operation.name != "func.func":
                raise CompileError(f"internal: '{function.operation.name}' is left in the module after hal")
            for block in function.operation.regions[0].blocks:
                for op in block.operations:
                    _check(op.operation)


def _check(op: ir.Operation) -> None:
    if op.name.split(".")[0] not in _DIALECTS:
        raise CompileError(f"internal: '{op.name}' is left after hal")
