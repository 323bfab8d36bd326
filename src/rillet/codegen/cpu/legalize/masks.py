"""Writes ``vector.create_mask`` as a comparison, for targets whose conversion to LLVM does not know it.

The conversion that expands masks assumes that ``index`` has 64 bits (see ``object_code.llvm.lower``).
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith, vector


def run(module: ir.Module) -> None:
    """Replace every mask of one dimension by ``lane < count``. Mutates ``module``."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in ("vector.create_mask", "vector.constant_mask") and ir.VectorType(op.results[0].type).rank == 1:
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in found:
        with ir.InsertionPoint(op), op.location:
            op.results[0].replace_all_uses_with(_comparison(op))
        op.erase()


def _comparison(op: ir.Operation) -> ir.Value:
    (lanes,) = ir.VectorType(op.results[0].type).shape
    i32 = ir.IntegerType.get_signless(32)
    type_ = ir.VectorType.get([lanes], i32)
    if op.name == "vector.constant_mask":
        (size,) = list(ir.DenseI64ArrayAttr(op.attributes["mask_dim_sizes"]))
        count = arith.ConstantOp(i32, size).result
    else:
        # No count comes near 2^31, and a negative one enables no lane, as it should.
        count = arith.IndexCastOp(i32, op.operands[0]).result
    numbers = ir.DenseElementsAttr.get([ir.IntegerAttr.get(i32, n) for n in range(lanes)], type=type_)
    positions = arith.ConstantOp(type_, numbers).result
    limit = vector.BroadcastOp(type_, count).result
    return arith.CmpIOp(arith.CmpIPredicate.slt, positions, limit).result
