"""Ops that start from an empty tensor share nothing with others that do, but clean-ups merge such tensors."""

from __future__ import annotations

from torch_mlir import ir


def separate(module: ir.Module) -> None:
    """Give each use of a ``tensor.empty`` in the kernel's function one of its own."""
    function = module.body.operations[0].operation
    for op in [o.operation for o in function.regions[0].blocks[0].operations]:
        if op.name != "tensor.empty":
            continue
        for use in list(op.results[0].uses)[1:]:
            clone = op.clone(ip=ir.InsertionPoint(op))
            use.owner.operation.operands[use.operand_number] = clone.operation.results[0]
