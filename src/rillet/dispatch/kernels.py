"""Finding a kernel's module, function and declaration in a flow program."""

from __future__ import annotations

from torch_mlir import ir

from rillet.dispatch.outline import KERNEL
from rillet.ir import Program


def functions(program: Program) -> dict[str, ir.Operation]:
    """The function of each kernel, by name, in order."""
    found = {}
    for module in modules(program).values():
        function = module.regions[0].blocks[0].operations[0].operation
        found[name(function)] = function
    return found


def modules(program: Program) -> dict[str, ir.Operation]:
    """The module of each kernel, by name, in order."""
    for op in program.module.body.operations:
        if op.operation.name == "builtin.module":
            return {name(m.operation): m.operation for m in op.operation.regions[0].blocks[0].operations}
    return {}


def declarations(program: Program) -> dict[str, ir.Operation]:
    """The declaration that calls of each kernel refer to, by name."""
    return {
        name(op.operation): op.operation
        for op in program.module.body.operations
        if op.operation.name == "func.func" and KERNEL in op.operation.attributes
    }


def name(op: ir.Operation) -> str:
    """The symbol name of ``op``."""
    return ir.StringAttr(op.attributes["sym_name"]).value
