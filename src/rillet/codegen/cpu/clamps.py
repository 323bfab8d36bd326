"""Lets a maximum or minimum with a constant be one instruction.

``arith.maximumf`` returns NaN for NaN and +0 for {-0, +0}. Against a constant, x86's MAXPS and MINPS give the first by
the order of their operands, but then not the second, which costs a comparison and a blend for each rectifier of a
network. So the sign of a zero result is left open where one operand is a constant.

Where the target's maximum returns the number for {NaN, number}, a comparison and a move are less than what it takes to
correct it: ``x <= c ? c : x`` is c for -0 and +0, and NaN for NaN.

What becomes an integer is clamped first, and no integer stands for NaN: there ``x > c ? x : c`` makes it the lower
bound, by the same one instruction. Left alone the conversion would have no defined result.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.targets import Target

_TO_INTEGER = ("arith.fptosi", "arith.fptoui")
_KEEPS_NUMBER = {"arith.maximumf": arith.CmpFPredicate.OGT, "arith.minimumf": arith.CmpFPredicate.OLT}
_OPS = {"arith.maximumf": arith.CmpFPredicate.OLE, "arith.minimumf": arith.CmpFPredicate.OGE}


def run(module: ir.Module, target: Target) -> None:
    """Mark maxima and minima with a constant ``nsz`` (no signed zeros), or make them comparisons, in ``module``."""
    for op in _before_integers(module):
        x, limit = op.operands if _is_constant(op.operands[1]) else reversed(list(op.operands))
        with ir.InsertionPoint(op), op.location:
            inside = arith.CmpFOp(_KEEPS_NUMBER[op.name], x, limit).result
            op.results[0].replace_all_uses_with(arith.SelectOp(inside, x, limit).result)
        op.erase()
    flag = ir.Attribute.parse("#arith.fastmath<nsz>", module.context)
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in _OPS and any(_is_constant(operand) for operand in op.operands):
            op.attributes["fastmath"] = flag
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in () if target.maximum_propagates_nan else found:
        x, limit = op.operands if _is_constant(op.operands[1]) else reversed(list(op.operands))
        if _is_nan(limit):
            continue
        with ir.InsertionPoint(op), op.location:
            clamped = arith.CmpFOp(_OPS[op.name], x, limit).result
            op.results[0].replace_all_uses_with(arith.SelectOp(clamped, limit, x).result)
        op.erase()


def _before_integers(module: ir.Module) -> list[ir.Operation]:
    """Of the clamps that only conversions to integers follow, the one that meets NaN first: the lower bound if there is
    one."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in _TO_INTEGER:
            outer = _clamp(op.operands[0])
            inner = next((c for c in map(_clamp, outer.operands) if c is not None), None) if outer is not None else None
            chosen = inner if inner is not None and inner.name == "arith.maximumf" else outer
            if chosen is not None and chosen not in found:
                found.append(chosen)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _clamp(value: ir.Value) -> ir.Operation | None:
    """The maximum or minimum with a number that gives ``value`` for one user."""
    if isinstance(value.owner, ir.Block) or len(list(value.uses)) != 1:
        return None
    op = value.owner.operation if isinstance(value.owner, ir.OpView) else value.owner
    if op.name not in _OPS:
        return None
    limits = [operand for operand in op.operands if _is_constant(operand)]
    return op if limits and not _is_nan(limits[0]) else None


def _is_constant(value: ir.Value) -> bool:
    return _constant(value) is not None


def _is_nan(value: ir.Value) -> bool:
    attribute = _constant(value)
    if isinstance(attribute, ir.DenseElementsAttr):
        attribute = attribute.get_splat_value() if attribute.is_splat else None
    return not isinstance(attribute, ir.FloatAttr) or attribute.value != attribute.value


def _constant(value: ir.Value) -> ir.Attribute | None:
    owner = value.owner
    if isinstance(owner, ir.Block):
        return None
    op = owner.operation if isinstance(owner, ir.OpView) else owner
    if op.name in ("vector.broadcast", "vector.splat"):
        return _constant(op.operands[0])
    return op.attributes["value"] if op.name == "arith.constant" else None
