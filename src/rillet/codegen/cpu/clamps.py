"""Lets a maximum or minimum with a constant be one instruction.

``arith.maximumf`` returns NaN for NaN and +0 for {-0, +0}. Against a constant, x86's MAXPS and MINPS give the first by
the order of their operands, but then not the second, which costs a comparison and a blend for each rectifier of a
network. So the sign of a zero result is left open where one operand is a constant.
"""

from __future__ import annotations

from torch_mlir import ir

_OPS = ("arith.maximumf", "arith.minimumf")


def run(module: ir.Module) -> None:
    """Mark maxima and minima with a constant ``nsz`` (no signed zeros). Mutates ``module``."""
    flag = ir.Attribute.parse("#arith.fastmath<nsz>", module.context)

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in _OPS and any(_is_constant(operand) for operand in op.operands):
            op.attributes["fastmath"] = flag
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)


def _is_constant(value: ir.Value) -> bool:
    owner = value.owner
    if isinstance(owner, ir.Block):
        return False
    op = owner.operation if isinstance(owner, ir.OpView) else owner
    if op.name in ("vector.broadcast", "vector.splat"):
        return _is_constant(op.operands[0])
    return op.name == "arith.constant"
