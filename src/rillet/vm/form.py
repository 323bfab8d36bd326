"""The form after the stage ``vm``."""

from __future__ import annotations

from torch_mlir import ir

from rillet.dialects import vm
from rillet.errors import CompileError
from rillet.ir import Program

_OTHER = ("cf.br", "cf.cond_br", "func.return")


def check(program: Program) -> None:
    """Raise ``CompileError`` when any op is not an instruction over integers and references."""
    with program.context:
        i64 = ir.IntegerType.get_signless(64)
        for function in program.module.body.operations:
            for block in function.operation.regions[0].blocks:
                for op in block.operations:
                    _check(op.operation, i64)


def _check(op: ir.Operation, i64: ir.Type) -> None:
    if not op.name.startswith("vm.") and op.name not in _OTHER:
        raise CompileError(f"internal: '{op.name}' is left after vm")
    for result in op.results:
        if result.type != i64 and not isinstance(result.type, vm.RefType) and op.name != "vm.test":
            raise CompileError(f"internal: '{op.name}' produces {result.type} after vm")
