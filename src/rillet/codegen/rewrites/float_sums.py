"""Sums products of 8-bit integers in floats, where that takes fewer instructions and gives the same result.

Processors that have a fused multiply-add for floats, but not for integers, need two instructions for each product of
integers. Products and sums of integers below 2^24 are exact in 32-bit floats, in any order.
"""

from __future__ import annotations

import math

from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.codegen.recognize.linear_access import access_of
from rillet.codegen.recognize.narrow_factors import NarrowFactor, factors_of
from rillet.ir.builders import fill_into
from rillet.ir.contraction import separate_product
from rillet.ir.rewrite import defining, int_constant
from rillet.ir.structured import Structured

_EXACT = 2**24
_FROM_INTEGER = "arith.sitofp"


def sum_in_floats(function: KernelFunction, *, in_vectors: bool) -> bool:
    """Rewrite the kernel's function in place; False (and no change) where that is not possible or does not pay."""
    if len(function.reductions) != 1:
        return False
    root = function.reductions[0]
    if len(root.inputs) != 2 or len(root.inits) != 1 or _zeros(root.inits[0]) is None:
        return False
    product = separate_product(root)
    if product is None or _has_groups(root) or (in_vectors and not _are_vectors(root)):
        return False
    factors = factors_of(root, product)
    if factors is None or not _is_exact(root, factors):
        return False
    readers = [use.owner.operation for use in root.results[0].uses]
    if not readers or any(op.name != "linalg.generic" for op in readers):
        return False
    _rewrite(root, [product.lhs.value, product.rhs.value])
    for op in readers:
        _read_floats(op, root.results[0])
    return True


def _is_exact(root: Structured, factors: tuple[NarrowFactor, NarrowFactor]) -> bool:
    """Whether every sum stays within the integers that are exact floats."""
    extents = [root.extents[n] for n in root.reduction_loops]
    largest = math.prod((128 if f.signed else 255) + abs(f.zero_point) for f in factors)
    return min(extents, default=1) > 0 and math.prod(extents) * largest <= _EXACT


def _are_vectors(root: Structured) -> bool:
    """Whether both operands vary along the last axis of the result. Vectors of integers times a scalar are also added
    in one instruction."""
    last = root.init_maps[0][-1]
    return all(last in map_ for map_ in root.input_maps)


def _has_groups(root: Structured) -> bool:
    """Whether an operand is packed for instructions that sum products of several steps."""
    reads = zip(root.inputs, root.input_maps, strict=True)
    accesses = [access_of(value, map_, root.loops) for value, map_ in reads]
    return any(a is None or a.together > 1 for a in accesses)


def _zeros(init: ir.Value) -> ir.Operation | None:
    """The op that fills a tensor with the integer zero, or None."""
    owner = defining(init)
    if owner is None or owner.name != "linalg.fill":
        return None
    return owner if int_constant(owner.operands[0]) == 0 else None


def _rewrite(root: Structured, factors: list[ir.Value]) -> None:
    f32 = ir.F32Type.get()
    type_ = ir.RankedTensorType.get(ir.RankedTensorType(root.results[0].type).shape, f32)
    old = _zeros(root.inits[0])
    assert old is not None
    with ir.InsertionPoint(root.op), root.op.location:
        extents = list(old.operands[1].owner.operands)
        empty = ir.Operation.create("tensor.empty", results=[type_], operands=extents).results[0]
        zero = arith.ConstantOp(f32, 0.0).result
        filled = fill_into(zero, empty)
    root.op.operands[len(root.inputs)] = filled
    root.results[0].set_type(type_)
    total = root.body.arguments[len(root.inputs)]
    *_, end = root.body.operations
    summed = end.operation.operands[0].owner
    with ir.InsertionPoint(end), end.operation.location:
        lhs, rhs = (arith.SIToFPOp(f32, factor).result for factor in factors)
        product = arith.MulFOp(lhs, rhs).result
    term = next(v for v in summed.operands if v != total).owner
    end.operation.operands[0] = product
    summed.operation.erase()
    term.operation.erase()
    total.set_type(f32)
    with ir.InsertionPoint(end), end.operation.location:
        end.operation.operands[0] = arith.AddFOp(total, product).result


def _read_floats(op: ir.Operation, result: ir.Value) -> None:
    """Give a reader of the sums the integers that it reads; give it the floats where it converts them to floats."""
    f32 = ir.F32Type.get()
    body = op.regions[0].blocks[0]
    for number, value in enumerate(op.operands):
        if value != result:
            continue
        argument = body.arguments[number]
        integer = argument.type
        users = [use.owner.operation for use in argument.uses]
        argument.set_type(f32)
        rest = [user for user in users if user.name != _FROM_INTEGER]
        for user in users:
            if user.name == _FROM_INTEGER:
                user.results[0].replace_all_uses_with(argument)
                user.erase()
        if not rest:
            continue
        with ir.InsertionPoint.at_block_begin(body), op.location:
            converted = arith.FPToSIOp(integer, argument).result
        for user in rest:
            for position, operand in enumerate(user.operands):
                if operand == argument:
                    user.operands[position] = converted
