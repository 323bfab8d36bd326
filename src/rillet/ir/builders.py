"""Builds the structured ops of the tensor form (docs/reference/tensor-form.md) at the current insertion point.

Everything here takes and returns plain MLIR values. An *extent* is an ``int`` when it is known and an ``index`` value
when it is not; a list of extents mixes both, as ``tensor.empty`` and friends do. Indexing maps are given as one
affine expression for each dimension of the operand (an ``int`` is a constant expression), over ``dims(n)``, the loop
dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from rillet.dialects import linalg
from rillet.ir.structured import DYNAMIC, IN_BOUNDS, iterators_attr

Extent: TypeAlias = int | ir.Value
Expr: TypeAlias = ir.AffineExpr | int
Body: TypeAlias = Callable[..., ir.Value | Sequence[ir.Value]]


def dims(count: int) -> list[ir.AffineExpr]:
    """The loop dimensions d0 .. d(count-1)."""
    return [ir.AffineDimExpr.get(i) for i in range(count)]


def affine_map(loops: int, exprs: Sequence[Expr]) -> ir.AffineMap:
    """The map from ``loops`` loop dimensions to ``exprs``."""
    return ir.AffineMap.get(loops, 0, [ir.AffineConstantExpr.get(e) if isinstance(e, int) else e for e in exprs])


def i64_attr(value: int) -> ir.IntegerAttr:
    """An attribute of type ``i64``."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)


def index(value: int) -> ir.Value:
    """An ``index`` constant."""
    return arith.ConstantOp(ir.IndexType.get(), ir.IntegerAttr.get(ir.IndexType.get(), value)).result


def as_index(extent: Extent) -> ir.Value:
    """The extent as a value, materializing a constant when it is known."""
    return index(extent) if isinstance(extent, int) else extent


def split(extents: Sequence[Extent]) -> tuple[list[int], list[ir.Value]]:
    """Static extents (``DYNAMIC`` where unknown) and the values for the unknown ones, as tensor ops take them."""
    static = [e if isinstance(e, int) else DYNAMIC for e in extents]
    return static, [e for e in extents if not isinstance(e, int)]


def tensor_type(extents: Sequence[Extent], element: ir.Type) -> ir.RankedTensorType:
    """The ranked tensor type with ``?`` where an extent is a value."""
    return ir.RankedTensorType.get(split(extents)[0], element)


def empty(extents: Sequence[Extent], element: ir.Type) -> ir.Value:
    """``tensor.empty`` of the given extents."""
    return tensor.EmptyOp(list(extents), element).result


def fill(value: ir.Value, extents: Sequence[Extent]) -> ir.Value:
    """A new tensor of the given extents with every element equal to the scalar ``value``."""
    return fill_into(value, empty(extents, value.type))


def fill_into(value: ir.Value, destination: ir.Value) -> ir.Value:
    """``linalg.fill`` of ``destination`` with the scalar ``value``."""
    op = linalg.FillOp([destination.type], [value], [destination])
    _yield_input(op, value.type)
    return op.operation.results[0]


def copy_into(source: ir.Value, destination: ir.Value) -> ir.Value | None:
    """``linalg.copy`` of ``source`` to ``destination``; without a result when they are memrefs."""
    results = [destination.type] if isinstance(destination.type, ir.RankedTensorType) else []
    op = linalg.CopyOp(results, [source], [destination])
    _yield_input(op, ir.ShapedType(source.type).element_type)
    return op.operation.results[0] if results else None


def _yield_input(op: ir.OpView, element: ir.Type) -> None:
    block = ir.Block.create_at_start(op.operation.regions[0], [element, element])
    with ir.InsertionPoint(block):
        linalg.YieldOp([block.arguments[0]])


def generic(
    inputs: Sequence[tuple[ir.Value, Sequence[Expr]]],
    outputs: Sequence[tuple[ir.Value, Sequence[Expr]]],
    iterators: str,
    body: Body,
) -> list[ir.Value]:
    """A ``linalg.generic``.

    ``inputs`` and ``outputs`` pair a tensor with the affine expressions that index it; ``iterators`` has one letter
    for each loop, ``p`` (parallel) or ``r`` (reduction). ``body`` is called with the block's scalars (inputs, then
    outputs) and returns the scalar(s) to yield. Returns the results, of the outputs' types.
    """
    loops = len(iterators)
    operands = [*inputs, *outputs]
    maps = [ir.AffineMapAttr.get(affine_map(loops, exprs)) for _, exprs in operands]
    op = linalg.GenericOp(
        [value.type for value, _ in outputs],
        [value for value, _ in inputs],
        [value for value, _ in outputs],
        ir.ArrayAttr.get(maps),
        iterators_attr([letter == "p" for letter in iterators]),
    )
    elements = [ir.RankedTensorType(value.type).element_type for value, _ in operands]
    block = ir.Block.create_at_start(op.operation.regions[0], elements)
    with ir.InsertionPoint(block):
        results = body(*block.arguments)
        linalg.YieldOp([results] if isinstance(results, ir.Value) else list(results))
    return list(op.operation.results)


def pad(
    source: ir.Value, low: Sequence[Extent], high: Sequence[Extent], result: Sequence[Extent], value: ir.Value
) -> ir.Value:
    """``tensor.pad`` by the scalar ``value``; ``result`` are the extents of the result."""
    element = ir.RankedTensorType(source.type).element_type
    static_low, dynamic_low = split(low)
    static_high, dynamic_high = split(high)
    op = tensor.PadOp(tensor_type(result, element), source, dynamic_low, dynamic_high, static_low, static_high)
    block = ir.Block.create_at_start(op.operation.regions[0], [ir.IndexType.get()] * len(low))
    with ir.InsertionPoint(block):
        tensor.YieldOp(value)
    return op.result


def extract_slice(
    source: ir.Value, offsets: Sequence[Extent], sizes: Sequence[Extent], strides: Sequence[Extent]
) -> ir.Value:
    """``tensor.extract_slice`` without rank reduction."""
    element = ir.RankedTensorType(source.type).element_type
    return tensor.ExtractSliceOp(tensor_type(sizes, element), source, *_box(offsets, sizes, strides)).result


def insert_slice(
    source: ir.Value,
    destination: ir.Value,
    offsets: Sequence[Extent],
    sizes: Sequence[Extent],
    strides: Sequence[Extent],
) -> ir.Value:
    """``tensor.insert_slice`` of ``source`` into ``destination``; ``sizes`` may have additional dimensions of extent 1.

    Nothing is inserted where a size is 0, which upstream does not accept.
    """
    if 0 in sizes:
        return destination
    return tensor.InsertSliceOp(source, destination, *_box(offsets, sizes, strides)).result


def _box(*parts: Sequence[Extent]) -> list[Sequence[Extent]]:
    """Offsets, sizes and strides as slices take them: all dynamic parts, then all static ones."""
    both = [split(part) for part in parts]
    return [*(dynamic for _, dynamic in both), *(static for static, _ in both)]


def concat(sources: Sequence[ir.Value], axis: int, result: Sequence[Extent]) -> ir.Value:
    """``tensor.concat`` along ``axis``; ``result`` are the extents of the result."""
    element = ir.RankedTensorType(sources[0].type).element_type
    return tensor.ConcatOp(tensor_type(result, element), axis, list(sources)).result


def _reassociation(groups: Sequence[Sequence[int]]) -> ir.ArrayAttr:
    i64 = ir.IntegerType.get_signless(64)
    return ir.ArrayAttr.get([ir.ArrayAttr.get([ir.IntegerAttr.get(i64, d) for d in group]) for group in groups])


def collapse_shape(source: ir.Value, groups: Sequence[Sequence[int]], result: Sequence[Extent]) -> ir.Value:
    """``tensor.collapse_shape``: each group of source dimensions becomes one dimension of the result."""
    element = ir.RankedTensorType(source.type).element_type
    return tensor.CollapseShapeOp(tensor_type(result, element), source, _reassociation(groups)).result


def expand_shape(source: ir.Value, groups: Sequence[Sequence[int]], result: Sequence[Extent]) -> ir.Value:
    """``tensor.expand_shape``: each source dimension becomes one group of dimensions of the result."""
    element = ir.RankedTensorType(source.type).element_type
    static, dynamic = split(result)
    return tensor.ExpandShapeOp(tensor_type(result, element), source, _reassociation(groups), dynamic, static).result


def reshape(source: ir.Value, result: Sequence[Extent]) -> ir.Value:
    """``tensor.reshape`` to extents whose relation to the source's is not known."""
    element = ir.RankedTensorType(source.type).element_type
    shape = tensor.FromElementsOp(
        ir.RankedTensorType.get([len(result)], ir.IndexType.get()), [as_index(e) for e in result]
    ).result
    return tensor.ReshapeOp(tensor_type(result, element), source, shape).result


def cast(source: ir.Value, result: Sequence[Extent]) -> ir.Value:
    """``tensor.cast`` to extents that are more or less static; the source itself when nothing changes."""
    target = tensor_type(result, ir.RankedTensorType(source.type).element_type)
    return source if source.type == target else tensor.CastOp(target, source).result


def dim(source: ir.Value, axis: int) -> Extent:
    """The extent of one dimension: an ``int`` when static, else a ``tensor.dim``."""
    static = ir.RankedTensorType(source.type).shape[axis]
    return static if static != DYNAMIC else tensor.DimOp(source, index(axis)).result


def extract(source: ir.Value, indices: Sequence[Extent], *, in_bounds: bool = False) -> ir.Value:
    """``tensor.extract`` of one element. ``in_bounds``: the indices are known to be in bounds, even where the loop
    around would have ended before, so nothing needs to be checked."""
    op = tensor.ExtractOp(source, [as_index(i) for i in indices])
    if in_bounds:
        op.operation.attributes[IN_BOUNDS] = ir.UnitAttr.get()
    return op.result


def from_elements(values: Sequence[ir.Value], shape: Sequence[int]) -> ir.Value:
    """``tensor.from_elements`` in row-major order; ``values`` must not be empty."""
    return tensor.FromElementsOp(ir.RankedTensorType.get(list(shape), values[0].type), list(values)).result
