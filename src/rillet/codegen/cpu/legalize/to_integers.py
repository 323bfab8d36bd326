"""Gives conversions of floats to integers a result for every number, as far as memory safety needs one.

``arith.fptosi`` of NaN, or of what the integer cannot hold, has no defined result: LLVM may leave out the store of a
value that it knows to be one, and what was in memory before stays. Frozen, it is some integer.

Quantization clamps before it converts, and no integer stands for NaN: there ``x > c ? x : c`` takes the place of the
maximum, which makes NaN the lowest integer by the same one instruction.
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
    """Of the clamps that give ``value``, the one that meets NaN first: the lower bound if there is one."""
    outer = _clamp(value)
    if outer is None:
        return None
    inner = next((c for c in map(_clamp, outer.operands) if c is not None), None)
    return inner if inner is not None and inner.name == "arith.maximumf" else outer


def _clamp(value: ir.Value) -> ir.Operation | None:
    """The maximum or minimum with a number that gives ``value`` for one user."""
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
