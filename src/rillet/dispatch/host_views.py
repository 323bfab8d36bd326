"""Turns ops that need no kernel into ``flow``: reshapes, contiguous slices, reading an element, filling with a
scalar."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.dialects import flow
from rillet.dispatch.regions.nodes import host_blocks
from rillet.errors import CompileError
from rillet.ir import Program, builders
from rillet.ir.builders import Extent
from rillet.ir.constants import scalar_attr
from rillet.ir.extents import RESHAPES, add, box, extents, multiply, same
from rillet.ir.rewrite import erase_dead, run_upstream
from rillet.ir.structured import DYNAMIC


def run(program: Program, options: None) -> None:
    """Convert the view-like operations of the host program (not those inside device loops and kernels' bodies)."""
    with program.context, ir.Location.unknown():
        for block in host_blocks(program.main()):
            for op in list(block.operations):
                with op.operation.location, ir.InsertionPoint(op):
                    _convert(op.operation)
        erase_dead(program.main())
        run_upstream(program.module.operation, "builtin.module(func.func(cse))")


def _convert(op: ir.Operation) -> None:
    if op.name in RESHAPES:
        value = reshape(op.operands[0], op.results[0].type, extents(op.results[0]))
    elif op.name == "tensor.extract_slice":
        found = _contiguous_slice(op)
        if found is None:
            return
        value = found
    elif op.name == "tensor.extract":
        value = _load(op)
    elif op.name == "tensor.from_elements" and len(op.operands) == 1:
        value = flow.SplatOp(op.results[0].type, op.operands[0], []).operation.results[0]
    else:
        return
    op.results[0].replace_all_uses_with(value)
    op.erase()


def reshape(source: ir.Value, result: ir.Type, dims: Sequence[Extent]) -> ir.Value:
    """``flow.reshape`` of ``source`` to the type ``result``; ``dims`` are all its extents."""
    if result == source.type and ir.RankedTensorType(result).has_static_shape:
        return source
    return flow.ReshapeOp(result, source, dynamic_dims(result, dims)).operation.results[0]


def dynamic_dims(type_: ir.Type, dims: Sequence[Extent]) -> list[ir.Value]:
    """The values of the dynamic extents of a tensor type."""
    shape = ir.RankedTensorType(type_).shape
    return [builders.as_index(e) for static, e in zip(shape, dims, strict=True) if static == DYNAMIC]


def _contiguous_slice(op: ir.Operation) -> ir.Value | None:
    """``flow.slice`` for a slice that is one run of elements, else None."""
    source, (offsets, sizes, strides) = op.operands[0], box(op)
    shape = extents(source)
    first = next((i for i, size in enumerate(sizes) if size != 1), len(sizes))
    whole = all(same(offsets[i], 0) and same(sizes[i], shape[i]) for i in range(first + 1, len(sizes)))
    if not whole or any(s != 1 for s in strides[first:]):
        return None
    offset: Extent = 0
    for start, extent in zip(offsets, shape, strict=True):
        offset = add(multiply(offset, extent), start)
    result = op.results[0].type
    dims = dynamic_dims(result, extents(op.results[0]))
    return flow.SliceOp(result, source, builders.as_index(offset), dims).operation.results[0]


def _load(op: ir.Operation) -> ir.Value:
    source, indices = op.operands[0], list(op.operands)[1:]
    offset: Extent = 0
    for index, extent in zip(indices, extents(source), strict=True):
        offset = add(multiply(offset, extent), index)
    return flow.LoadOp(op.results[0].type, source, builders.as_index(offset)).operation.results[0]


def splat(op: ir.Operation) -> ir.Value:
    """The ``flow.splat`` for the source ``op`` (an empty tensor or a fill), at the insertion point."""
    result = op.results[0].type
    if op.name == "linalg.fill":
        value = op.operands[0]
    elif op.name == "tensor.empty":
        element = ir.RankedTensorType(result).element_type
        value = arith.ConstantOp(element, scalar_attr(0, element)).result
    else:
        raise CompileError(f"internal: '{op.name}' makes no tensor out of nothing")
    return flow.SplatOp(result, value, dynamic_dims(result, extents(op.results[0]))).operation.results[0]
