"""Computes elements on the device that are made from other elements and inserted into a tensor.

Canonicalization replaces a loop of one iteration by its body. Here such a body becomes a device loop again, so that the
host neither waits for the elements nor needs arithmetic of every type.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import scf

from rillet.dispatch.regions.nodes import host_blocks
from rillet.ir import Program, builders
from rillet.ir.rewrite import clone_operations, defining

_SCALAR = ("arith", "math", "complex")


def run(program: Program, options: None) -> None:
    """Wrap every such ``tensor.insert`` of the host program in a loop, together with the ops that compute its
    element."""
    with program.context, ir.Location.unknown():
        for block in host_blocks(program.main()):
            for op in [view.operation for view in block.operations]:
                if op.name == "tensor.insert":
                    with op.location, ir.InsertionPoint(op):
                        _rewrite(op)


def _rewrite(op: ir.Operation) -> None:
    needed = _needed(op)
    if not any(o.name == "tensor.extract" for o in needed):
        return
    loop = scf.ForOp(builders.index(0), builders.index(1), builders.index(1), [op.operands[1]])
    mapping = {op.operands[1]: loop.inner_iter_args[0]}
    with ir.InsertionPoint(loop.body):
        clone_operations((*needed, op), mapping)
        scf.YieldOp([mapping[op.results[0]]])
    op.results[0].replace_all_uses_with(loop.results[0])
    op.erase()


def _needed(op: ir.Operation) -> list[ir.Operation]:
    """The scalar operations that compute the inserted element and its place, operands first."""
    found: dict[ir.Operation, None] = {}

    def visit(value: ir.Value) -> None:
        maker = defining(value)
        if maker is None or maker in found or isinstance(value.type, ir.RankedTensorType):
            return
        if maker.name != "tensor.extract" and (maker.name.split(".")[0] not in _SCALAR or len(maker.results) != 1):
            return
        for operand in maker.operands:
            visit(operand)
        found[maker] = None

    for operand in op.operands:
        visit(operand)
    return list(found)
