"""``while``, ``if`` and ``case`` as ``scf``."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, scf

from rillet.frontends.building.builder import Builder
from rillet.ir import builders
from rillet.ir.rewrite import clone_operations, replace


def while_loop(b: Builder, op: ir.Operation) -> None:
    """A loop whose condition is computed before each step."""
    types = [v.type for v in op.operands]
    loop = ir.Operation.create("scf.while", results=types, operands=list(op.operands), regions=2)
    condition, body = (region.blocks.append(*types, arg_locs=[op.location] * len(types)) for region in loop.regions)
    with ir.InsertionPoint(condition):
        (holds,) = _inlined(op.regions[0].blocks[0], condition.arguments)
        scf.ConditionOp(builders.extract(holds, []), list(condition.arguments))
    with ir.InsertionPoint(body):
        scf.YieldOp(_inlined(op.regions[1].blocks[0], body.arguments))
    replace(op, loop.results)


def branch(b: Builder, op: ir.Operation) -> None:
    """One of the regions: a bool chooses the first if it holds, a number its own or else the last one."""
    regions = [region.blocks[0] for region in op.regions]
    number = builders.extract(op.operands[0], [])
    replace(op, _branches(op, number, regions, 0))


def _branches(op: ir.Operation, number: ir.Value, regions: Sequence[ir.Block], first: int) -> Sequence[ir.Value]:
    if first == len(regions) - 1:
        return _inlined(regions[first], [])
    is_bool = op.name == "stablehlo.if"
    taken = number if is_bool else _equals(number, first)
    choice = scf.IfOp(taken, [r.type for r in op.results], has_else=True)
    with ir.InsertionPoint(choice.operation.regions[0].blocks[0]):
        scf.YieldOp(_inlined(regions[first], []))
    with ir.InsertionPoint(choice.operation.regions[1].blocks[0]):
        scf.YieldOp(_branches(op, number, regions, first + 1))
    return list(choice.operation.results)


def _equals(number: ir.Value, value: int) -> ir.Value:
    constant = arith.ConstantOp(number.type, ir.IntegerAttr.get(number.type, value)).result
    return arith.cmpi(arith.CmpIPredicate.eq, number, constant)


def _inlined(block: ir.Block, arguments: Sequence[ir.Value]) -> list[ir.Value]:
    """The operations of ``block`` at the insertion point; what it returns."""
    mapping = dict(zip(block.arguments, arguments, strict=True))
    *operations, terminator = (o.operation for o in block.operations)
    clone_operations(operations, mapping)
    return [mapping.get(v, v) for v in terminator.operands]
