"""Counts work: multiply-accumulates and bytes touched by each kernel, and the whole model's, as attributes.

A declaration gets ``rillet.macs`` and ``rillet.bytes``; the module gets ``rillet.macs`` (the sum over calls),
``rillet.dispatch_count`` and ``rillet.weight_bytes``. A loop's multiply-accumulates count once for each iteration.
``rillet.dispatch_count`` is the number of calls in the program's text. What only run time knows counts as 1: dynamic
extents, and the trip count of a loop without constant bounds. Both branches of an ``scf.if`` count. Fourier transforms
count as fast ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from torch_mlir import ir

from rillet.dialects import flow
from rillet.ir import Program, dtypes, fourier
from rillet.ir.attributes import BYTES, DISPATCH_COUNT, MACS, WEIGHT_BYTES
from rillet.ir.builders import i64_attr
from rillet.ir.contraction import is_multiply_add
from rillet.ir.kernels import called, declarations, functions
from rillet.ir.rewrite import int_constant
from rillet.ir.structured import DYNAMIC, structured, walk

_DESTINATION = 1  # operand number of a tensor.insert_slice


def run(program: Program, options: None) -> None:
    """Attach the counts."""
    with program.context, ir.Location.unknown():
        declared = declarations(program)
        macs = {}
        for name, function in functions(program).items():
            macs[name] = sum(_runs(op, function) * _macs(op) for op in walk(function))
            declared[name].attributes[MACS] = i64_attr(macs[name])
            declared[name].attributes[BYTES] = i64_attr(_bytes(function))
        main = program.main()
        calls = [op for op in walk(main) if op.name == "func.call"]
        total = sum(_runs(op, main) * macs[called(op)] for op in calls)
        weights = sum(program.constants[name].nbytes for name in program.constants)
        attributes = program.module.operation.attributes
        attributes[MACS] = i64_attr(total)
        attributes[DISPATCH_COUNT] = i64_attr(len(calls))
        attributes[WEIGHT_BYTES] = i64_attr(weights)


def _runs(op: ir.Operation, function: ir.Operation) -> int:
    """How often ``op`` runs in one call of ``function``: the product of the trip counts of the loops around it."""
    runs, around = 1, op.parent.operation
    while around != function:
        runs *= _trips(around)
        around = around.parent.operation
    return runs


def _trips(op: ir.Operation) -> int:
    """How often the body of ``op`` runs; 1 for everything but a loop with constant bounds."""
    if op.name != "scf.for":
        return 1
    first, end, step = map(int_constant, list(op.operands)[:3])
    if first is None or end is None or step is None:
        return 1
    return len(range(first, end, step))


def _macs(op: ir.Operation) -> int:
    view = structured(op)
    if view is None or all(view.parallel) or len(view.inits) != 1 or not is_multiply_add(view):
        return 0
    transform = fourier.marked(op)
    return _elements(view.extents) if transform is None else _elements(view.extents[:-2]) * transform.macs


def _bytes(function: ir.Operation) -> int:
    """The least number of bytes that one dispatch moves between memory and registers: for each operand, the part it
    touches."""
    block = function.regions[0].blocks[0]
    arguments = [argument for argument in block.arguments if isinstance(argument.type, ir.RankedTensorType)]
    results = list(block.operations)[-1].operands
    read = list(map(_read, arguments))
    if flow.WINOGRAD in function.attributes:
        weights, transforms = ir.DenseI64ArrayAttr(function.attributes[flow.WINOGRAD])
        read[weights], read[transforms] = 0, _size(arguments[transforms])
    return sum(read) + sum(map(_written, results))


def _read(argument: ir.Value) -> int:
    """Bytes read from an argument: from a table that elements or slices are taken from, at most what is taken."""
    whole, taken = _size(argument), 0
    for use in argument.uses:
        op, holder = use.owner.operation, use.owner.operation.parent
        if op.name == "tensor.extract" and (view := structured(holder)) is not None:
            taken += _elements(view.extents) * dtypes.storage_bytes(op.results[0].type)
        elif op.name == "tensor.extract_slice":
            taken += _size(op.results[0])
        elif (
            op.name != "tensor.insert_slice" or use.operand_number != _DESTINATION
        ):  # which is written, in another part
            return whole
    return min(whole, taken)


def _written(result: ir.Value) -> int:
    """Bytes written to a result: only the slices, where slices are inserted into another tensor."""
    written, whole = 0, _size(result)
    while isinstance(result, ir.OpResult) and result.owner.name == "tensor.insert_slice":
        written += _size(result.owner.operands[0])
        result = result.owner.operands[_DESTINATION]
    return min(whole, written) if written else whole


def _size(value: ir.Value) -> int:
    type_ = ir.RankedTensorType(value.type)
    return _elements(type_.shape) * dtypes.storage_bytes(type_.element_type)


def _elements(extents: Iterable[int]) -> int:
    return math.prod(1 if e == DYNAMIC else e for e in extents)
