"""Gives conversions of floats to integers a result for every number, as far as memory safety needs one.

``arith.fptosi`` of NaN, or of a number that the integer cannot hold, is undefined: LLVM may omit the store of such a
value, and old memory contents stay. Frozen, the value is some integer.

Quantization clamps before it converts, and no integer stands for NaN. There ``x > c ? x : c`` replaces the maximum: it
is one instruction too, and makes NaN the lowest integer.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.codegen.cpu.legalize.clamps import is_constant, is_nan
from rillet.ir.rewrite import defining

_CONVERSIONS = ("arith.fptosi", "arith.fptoui")
_KEEPS_NUMBER = {"arith.maximumf": arith.CmpFPredicate.OGT, "arith.minimumf": arith.CmpFPredicate.OLT}


def run(module: ir.Module) -> None:
    """Rewrite every conversion in ``module``."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in _CONVERSIONS:
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in found:
        clamp = _first_clamp(op.operands[0])
        if clamp is None:
            _freeze(op.results[0])
        else:
            _keep_number(clamp)


def _first_clamp(value: ir.Value) -> ir.Operation | None:
    """The clamp before ``value`` that meets NaN first: the lower bound if there is one, else the upper; None without
    clamps."""
    outer = _clamp(value)
    if outer is None:
        return None
    inner = next((c for c in map(_clamp, outer.operands) if c is not None), None)
    return inner if inner is not None and inner.name == "arith.maximumf" else outer


def _clamp(value: ir.Value) -> ir.Operation | None:
    """The maximum or minimum with a number that makes ``value``, if ``value`` has one user."""
    op = defining(value, *_KEEPS_NUMBER)
    if op is None or len(list(value.uses)) != 1:
        return None
    limits = [operand for operand in op.operands if is_constant(operand)]
    return op if limits and not is_nan(limits[0]) else None


def _keep_number(clamp: ir.Operation) -> None:
    x, limit = clamp.operands if is_constant(clamp.operands[1]) else reversed(list(clamp.operands))
    with ir.InsertionPoint(clamp), clamp.location:
        inside = arith.CmpFOp(_KEEPS_NUMBER[clamp.name], x, limit).result
        clamp.results[0].replace_all_uses_with(arith.SelectOp(inside, x, limit).result)
    clamp.erase()


def _freeze(converted: ir.Value) -> None:
    op = converted.owner.operation
    with ir.InsertionPoint(op), op.location:
        frozen = ir.Operation.create("llvm.freeze", results=[converted.type], operands=[converted])
    frozen.move_after(op)
    converted.replace_all_uses_except(frozen.results[0], frozen)
