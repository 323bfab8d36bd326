"""Makes a maximum or minimum with a constant one instruction.

``arith.maximumf`` returns NaN for NaN and +0 for {-0, +0}. Against a constant, x86's MAXPS and MINPS give NaN with the
right order of operands, but the zero then needs a comparison and a blend in each rectifier of a network. So the sign of
a zero result is left open where one operand is a constant.

Some targets' maximum returns the number for {NaN, number}. There a comparison and a move take fewer instructions than
correcting it: ``x <= c ? c : x`` is c for -0 and +0, and NaN for NaN.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.codegen.cpu.machine import CpuTarget
from rillet.ir.rewrite import float_constant, scalar_constant

_OPS = {"arith.maximumf": arith.CmpFPredicate.OLE, "arith.minimumf": arith.CmpFPredicate.OGE}


def run(module: ir.Module, target: CpuTarget) -> None:
    """Mark maxima and minima with a constant ``nsz`` (no signed zeros), or make them comparisons, in ``module``."""
    flag = ir.Attribute.parse("#arith.fastmath<nsz>", module.context)
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in _OPS and any(is_constant(operand) for operand in op.operands):
            op.attributes["fastmath"] = flag
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in () if target.machine.maximum_propagates_nan else found:
        x, limit = op.operands if is_constant(op.operands[1]) else reversed(list(op.operands))
        if is_nan(limit):
            continue
        with ir.InsertionPoint(op), op.location:
            clamped = arith.CmpFOp(_OPS[op.name], x, limit).result
            op.results[0].replace_all_uses_with(arith.SelectOp(clamped, limit, x).result)
        op.erase()


def is_constant(value: ir.Value) -> bool:
    """Whether the value, or each element of it, is one constant."""
    return scalar_constant(value) is not None


def is_nan(value: ir.Value) -> bool:
    """Whether a constant may be NaN."""
    number = float_constant(value)
    return number is None or number != number
