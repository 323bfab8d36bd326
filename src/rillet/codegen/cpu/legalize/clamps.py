"""Lets a maximum or minimum with a constant be one instruction.

``arith.maximumf`` returns NaN for NaN and +0 for {-0, +0}. Against a constant, x86's MAXPS and MINPS give the first by
the order of their operands, but then not the second, which costs a comparison and a blend for each rectifier of a
network. So the sign of a zero result is left open where one operand is a constant.

Where the target's maximum returns the number for {NaN, number}, a comparison and a move are less than what it takes to
correct it: ``x <= c ? c : x`` is c for -0 and +0, and NaN for NaN.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.codegen.cpu.machine import CpuTarget
from rillet.ir.rewrite import defining

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
    """Whether the value, or each element of it, is a constant."""
    return _constant(value) is not None


def constant_number(value: ir.Value) -> float | None:
    """The float that a value, or each element of it, is; None when it is no such constant."""
    attribute = _constant(value)
    if isinstance(attribute, ir.DenseElementsAttr):
        attribute = attribute.get_splat_value() if attribute.is_splat else None
    return float(attribute.value) if isinstance(attribute, ir.FloatAttr) else None


def is_nan(value: ir.Value) -> bool:
    """Whether a constant may be NaN."""
    number = constant_number(value)
    return number is None or number != number


def _constant(value: ir.Value) -> ir.Attribute | None:
    op = defining(value)
    if op is None:
        return None
    if op.name in ("vector.broadcast", "vector.splat"):
        return _constant(op.operands[0])
    return op.attributes["value"] if op.name == "arith.constant" else None
