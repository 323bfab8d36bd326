"""Turns a choice between two tensors back into control flow: canonicalization makes an ``arith.select`` from an
``scf.if`` with empty branches, and the host cannot run that on tensors."""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import scf

from rillet.dispatch.regions.nodes import host_blocks
from rillet.ir import Program


def run(program: Program, options: None) -> None:
    """Turn every ``arith.select`` of tensors in the host program back into an ``scf.if``."""
    with program.context, ir.Location.unknown():
        for block in host_blocks(program.main()):
            for op in [view.operation for view in block.operations]:
                if op.name == "arith.select" and isinstance(op.results[0].type, ir.RankedTensorType):
                    with op.location, ir.InsertionPoint(op):
                        _rewrite(op)


def _rewrite(op: ir.Operation) -> None:
    condition, *choices = op.operands
    branch = scf.IfOp(condition, [op.results[0].type], has_else=True).operation
    for region, choice in zip(branch.regions, choices, strict=True):
        with ir.InsertionPoint(region.blocks[0]):
            scf.YieldOp([choice])
    op.results[0].replace_all_uses_with(branch.results[0])
    op.erase()
