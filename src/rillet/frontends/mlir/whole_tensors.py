"""Ops of ``tensor`` that the tensor form lacks, since structured ops say the same."""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.dialects import linalg
from rillet.ir import builders
from rillet.ir.builders import Extent
from rillet.ir.rewrite import clone_operations, defining, replace
from rillet.ir.structured import DYNAMIC, walk


def to_structured(module: ir.Module) -> None:
    """Replace ``tensor.splat``, ``generate`` and ``bitcast``; the shape of each ``reshape`` is read one by one."""
    for op in list(walk(module.operation)):
        if op.name not in _REWRITES:
            continue
        with ir.InsertionPoint(op), op.location:
            _REWRITES[op.name](op)


def _splat(op: ir.Operation) -> None:
    value, *sizes = op.operands
    replace(op, [builders.fill(value, _shape(op, sizes))])


def _generate(op: ir.Operation) -> None:
    """A tensor computed from its own indices."""
    source = op.regions[0].blocks[0]
    shape = _shape(op, list(op.operands))
    empty = builders.empty(shape, ir.RankedTensorType(op.results[0].type).element_type)

    def body(_: ir.Value) -> ir.Value:
        mapping = {argument: linalg.IndexOp(axis).result for axis, argument in enumerate(source.arguments)}
        *operations, terminator = (o.operation for o in source.operations)
        clone_operations(operations, mapping)
        return mapping.get(terminator.operands[0], terminator.operands[0])

    replace(op, builders.generic([], [(empty, builders.dims(len(shape)))], "p" * len(shape), body))


def _bitcast(op: ir.Operation) -> None:
    replace(op, [arith.bitcast(op.results[0].type, op.operands[0])])


def _reshape(op: ir.Operation) -> None:
    source, shape = op.operands
    made = defining(shape)
    if made is not None and made.name in ("tensor.from_elements", "arith.constant"):
        return
    extents = [
        _read(shape, axis) if extent == DYNAMIC else extent
        for axis, extent in enumerate(ir.RankedTensorType(op.results[0].type).shape)
    ]
    replace(op, [builders.reshape(source, extents)])


def _read(shape: ir.Value, axis: int) -> ir.Value:
    number = builders.extract(shape, [axis])
    return number if isinstance(number.type, ir.IndexType) else arith.index_cast(ir.IndexType.get(), number)


def _shape(op: ir.Operation, dynamic: list[ir.Value]) -> list[Extent]:
    sizes = iter(dynamic)
    return [next(sizes) if d == DYNAMIC else d for d in ir.RankedTensorType(op.results[0].type).shape]


_REWRITES = {
    "tensor.splat": _splat,
    "tensor.generate": _generate,
    "tensor.bitcast": _bitcast,
    "tensor.reshape": _reshape,
}
