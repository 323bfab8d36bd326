"""``linalg.fill``, the one named op of the tensor form, is found again after all named ops were generalized."""

from __future__ import annotations

from torch_mlir import ir

from rillet.ir.builders import fill_into
from rillet.ir.structured import walk


def restore(module: ir.Module) -> None:
    """Turn generics that only spread a scalar back into ``linalg.fill``."""
    for op in list(walk(module.operation)):
        if op.name != "linalg.generic" or len(op.operands) != 2 or isinstance(op.operands[0].type, ir.ShapedType):
            continue
        body = op.regions[0].blocks[0]
        if len(body.operations) != 1 or body.operations[0].operands[0] != body.arguments[0]:
            continue
        with ir.InsertionPoint(op), op.location:
            op.results[0].replace_all_uses_with(fill_into(op.operands[0], op.operands[1]))
        op.erase()
