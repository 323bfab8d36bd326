"""Inserts ``flow.transfer`` where a tensor is used on another device than the one it lives on.

A value is brought to a device once for each block that defines it, before its first use there and outside loops that do
not change it. Control flow, results and elements that the host reads need values on the first device.
"""

from __future__ import annotations

from torch_mlir import ir

from rillet.dialects import flow
from rillet.ir import Program
from rillet.ir.structured import walk
from rillet.placement import homes


def run(program: Program, options: None) -> None:
    """Transfer the operands of every operation of ``@main`` that need it."""
    with program.context, ir.Location.unknown():
        first = flow.devices(program.module)[0].name
        moved: dict[tuple[ir.Value, str], ir.Value] = {}
        for op in list(walk(program.main())):
            if op.name == "func.call":
                wanted = ir.StringAttr(op.attributes[flow.DEVICE]).value
            elif op.name in homes.VIEWS or op.name == "tensor.dim":
                continue
            else:
                wanted = first
            for i in homes.tensors(op):
                value = op.operands[i]
                if (homes.home(value) or first) == wanted:
                    continue
                if (value, wanted) not in moved:
                    moved[value, wanted] = _transfer(value, wanted, op)
                op.operands[i] = moved[value, wanted]


def _transfer(value: ir.Value, device: str, user: ir.Operation) -> ir.Value:
    block = value.owner if isinstance(value.owner, ir.Block) else value.owner.operation.block
    while user.block != block:
        user = user.parent.operation
    with ir.InsertionPoint(user), user.location:
        return flow.TransferOp(value.type, value, ir.StringAttr.get(device)).operation.results[0]
