"""Point-wise kernels: every element of every result is a function of its own index.

Covers elementwise chains with any broadcast or permutation, slices, pads, concatenations, gathers and casts. The
result's last axis is vectorized; a workgroup takes a block of rows, or a block of one long row, of about 32 KiB of
traffic. Where an argument is contiguous along another axis, square tiles are transposed in registers.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.codegen import coordinates as coords
from rillet.codegen import index
from rillet.codegen.coordinates import Coordinate, Lane
from rillet.codegen.cpu.caches import read_ahead, streaming
from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.emit import memory
from rillet.codegen.emit.elements import Evaluator
from rillet.codegen.emit.epilogue import insertion
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.memory import reshape_memref
from rillet.codegen.emit.transpose import interleave
from rillet.codegen.emit.vector_loop import Shape, shape_for, vector_loop
from rillet.codegen.emit.views import PAD_INTERIOR, parts, slice_parameters
from rillet.codegen.index import Index
from rillet.codegen.recognize.kernel_function import KernelFunction, Port
from rillet.codegen.recognize.lanes import is_costly
from rillet.codegen.recognize.shared_dimensions import Dimension, Dimensions
from rillet.ir.dtypes import storage_bytes
from rillet.ir.rewrite import defining
from rillet.ir.structured import DYNAMIC

_BLOCK_BYTES = 32 * 1024
_TILE_BLOCK = 64  # elements of a side of the square that a workgroup transposes
_PLANE_BLOCK = 2048  # elements of each plane that a workgroup interleaves
_AHEAD_BYTES = 2048  # how far ahead is read of what much is computed with


@dataclass(frozen=True)
class _Group:
    """Results of one shape, computed together. ``values``: what is computed, all of the result or what is inserted."""

    numbers: tuple[int, ...]
    ports: tuple[Port, ...]
    values: tuple[ir.Value, ...]
    insertions: tuple[ir.Operation | None, ...]

    @property
    def type(self) -> ir.RankedTensorType:
        return ir.RankedTensorType(self.values[0].type)


class _Elementwise:
    name = "elementwise"
    vectorize_loops = False
    collapses = True

    def matches(self, function: KernelFunction, target: CpuTarget) -> bool:
        return function.is_parallel

    def emit(self, function: KernelFunction, kernel: KernelBuilder, target: CpuTarget) -> None:
        costly = any(map(is_costly, function.generics))
        shape = shape_for(function, target, costly)
        dimensions = Dimensions(function)
        groups = _groups(function, dimensions)
        ahead = _worth_reading_ahead(function, dimensions, target) if costly else {}
        plans = [_plan(kernel, function, dimensions, group, shape, ahead) for group in groups]

        def grid() -> list[Index]:
            rows: Index = 0
            columns: Index = 0
            for plan in plans:
                blocks = plan.blocks()
                rows = index.add(rows, blocks[0])
                columns = index.maximum(columns, blocks[1])
            return [rows, columns]

        kernel.choice = shape.choice
        kernel.grid(grid)
        with kernel.body():
            first: Index = 0
            for plan in plans:
                row_blocks, column_blocks = plan.blocks()
                if len(plans) == 1:
                    streaming.emit(kernel, functools.partial(plan.emit, kernel.workgroup(0), kernel.workgroup(1)))
                    continue
                last = index.add(first, row_blocks)
                mine = _all_of(
                    _compare("uge", kernel.workgroup(0), first),
                    _compare("ult", kernel.workgroup(0), last),
                    _compare("ult", kernel.workgroup(1), column_blocks),
                )
                with kernel.when(mine):
                    plan.emit(index.sub(kernel.workgroup(0), first), kernel.workgroup(1))
                first = last


def _worth_reading_ahead(
    function: KernelFunction, dimensions: Dimensions, target: CpuTarget
) -> dict[int, list[Dimension]]:
    """The arguments that are worth reading ahead, and the dimensions on their axes."""
    if not read_ahead.is_beyond_l2(function, target):
        return {}
    return {n: list(dimensions.axes(p.value)) for n, p in enumerate(function.arguments) if p.type.rank}


def _plan(
    kernel: KernelBuilder,
    function: KernelFunction,
    dimensions: Dimensions,
    group: _Group,
    shape: Shape,
    ahead: dict[int, list[Dimension]],
) -> _Rows | _Tiles:
    """Tiles where an argument is contiguous along another axis than the results, rows elsewhere."""
    value, rank = group.values[0], group.type.rank
    axes = dimensions.axes(value)
    extents = group.type.shape
    for port in sorted(function.arguments, key=lambda p: -p.type.rank):
        own = dimensions.axes(port.value)
        if rank < 2 or len(own) < 2 or axes[-1] not in own:
            continue
        lanes = min(shape.lanes, 16)
        interleaves = 1 < extents[-1] <= 4 and shape.lanes > 1 and not any(group.insertions)
        padded = _padded_across(value)
        if interleaves and padded is not None and own[-1] == dimensions.axis(padded.operands[0], rank - 2):
            return _Tiles(kernel, group, rank - 2, lanes, extents[-1], padded)
        if own[-1] not in axes[:-1]:
            continue
        across = axes.index(own[-1])
        if lanes > 1 and all(e == DYNAMIC or e >= lanes for e in (extents[across], extents[-1])):
            return _Tiles(kernel, group, across, lanes)
        if interleaves and across == rank - 2:
            return _Tiles(kernel, group, across, lanes, extents[-1])
    read = [number for number, own in ahead.items() if own == list(axes)]
    return _Rows(kernel, function, group, shape, _put_together(function, dimensions, value), read)


def _padded_across(value: ir.Value) -> ir.Operation | None:
    """The pad that makes a result, where it pads along the last axis but one."""
    op = defining(value)
    if op is None:
        return None
    if op.name != "tensor.pad" or ir.RankedTensorType(value.type).rank < 2:
        return None
    low, high = (ir.DenseI64ArrayAttr(op.attributes[n])[-2] for n in ("static_low", "static_high"))
    return op if low != 0 or high != 0 else None


def _put_together(function: KernelFunction, dimensions: Dimensions, value: ir.Value) -> ir.Operation | None:
    """A pad or concatenation along the axis that is vectorized: rows are then cut where its parts meet."""
    rank = ir.RankedTensorType(value.type).rank
    axes = dimensions.axes(value)
    if rank == 0 or axes.count(axes[-1]) != 1 or dimensions.is_shifted(axes[-1]):
        return None
    for op in function.tensor_ops:
        if op.name not in ("tensor.pad", "tensor.concat"):
            continue
        result = op.results[0]
        last = ir.RankedTensorType(result.type).rank - 1
        if last < 0 or dimensions.axis(result, last) != axes[-1]:
            continue
        if op.name == "tensor.concat" and ir.IntegerAttr(op.attributes["dim"]).value == last:
            return op
        if op.name == "tensor.pad":
            low, high = (ir.DenseI64ArrayAttr(op.attributes[n])[last] for n in ("static_low", "static_high"))
            if low != 0 or high != 0:
                return op
    return None


class _Rows:
    """A group of results cut into blocks of rows, or of columns of one row. ``ahead``: the arguments that are read
    ahead, whose axes are those of the results."""

    def __init__(
        self,
        kernel: KernelBuilder,
        function: KernelFunction,
        group: _Group,
        shape: Shape,
        joined: ir.Operation | None,
        ahead: list[int],
    ):
        self.kernel = kernel
        self.group = group
        self.joined = joined
        self.ahead = ahead
        last = group.type.shape[-1] if group.type.rank else 1
        self.shape = shape if last == DYNAMIC else shape.limited(last)
        traffic = sum(storage_bytes(p.type.element_type) for p in (*function.arguments, *group.ports))
        self.block = max(shape.wide, _BLOCK_BYTES // max(1, traffic) // shape.wide * shape.wide)

    def _space(self) -> tuple[list[Index], Index]:
        extents = self.kernel.extents(self.group.values[0])
        return (extents[:-1], extents[-1]) if extents else ([], 1)

    def _rows_per_block(self, inner: Index) -> Index:
        return index.maximum(1, index.floordiv(self.block, index.maximum(inner, 1)))

    def blocks(self) -> tuple[Index, Index]:
        """Row blocks and column blocks."""
        outer, inner = self._space()
        return index.ceildiv(index.product(outer), self._rows_per_block(inner)), index.ceildiv(inner, self.block)

    def emit(self, row_block: Index, column_block: Index) -> None:
        """Emit the block at these positions."""
        outer, inner = self._space()
        rows = self._rows_per_block(inner)
        first = index.mul(row_block, rows)
        last = index.minimum(index.add(first, rows), index.product(outer))
        start: Index = index.mul(column_block, self.block)
        end = index.minimum(index.add(start, self.block), inner)
        if isinstance(inner, int) and inner <= self.block:
            start, end = 0, inner
        if all(isinstance(e, int) for e in outer[1:]):
            with self.kernel.loop(first, last) as row:
                self._row(index.delinearize(row.iv, outer), start, end)
            return
        # Rows may be short, and divisions by what is known at run time only are slow: coordinates are counted.
        begin = index.delinearize(first, [index.maximum(e, 1) for e in outer])  # there may be no rows at all
        with self.kernel.loop(first, last, carried=[index.value(c) for c in begin]) as row:
            where = [0 if isinstance(c, int) else v for c, v in zip(begin, row.carried, strict=True)]
            self._row(where, start, end)
            row.yield_(*(index.value(c) for c in index.successor(where, outer)))

    def _row(self, where: list[Index], start: Index, end: Index) -> None:
        if not self.group.type.rank:
            _store_point(Evaluator(self.kernel), self.group, [])
        elif self.joined is None:
            self._run(where, start, end, None)
        else:
            bounds = parts(self.kernel, self.joined, self._joined_axis())
            for number, (low, high) in enumerate(itertools.pairwise(bounds)):
                if isinstance(low, int) and isinstance(high, int) and low == high:
                    continue
                low = index.maximum(start, low)
                self._run(where, low, index.maximum(low, index.minimum(end, high)), number)

    def _joined_axis(self) -> int:
        assert self.joined is not None
        return ir.RankedTensorType(self.joined.results[0].type).rank - 1

    def _read_ahead(self, where: list[Index], first: Index, elements: int) -> None:
        for number in self.ahead:
            type_ = self.kernel.function.arguments[number].type.element_type
            distance = _AHEAD_BYTES // storage_bytes(type_)
            read_ahead.fetch(self.kernel, number, where, index.add(first, distance), elements)

    def _run(self, where: list[Index], start: Index, end: Index, part: int | None) -> None:
        """The elements of a row from ``start`` to ``end``, which lie within one part of what the row is put together
        from."""

        def emit(c: Coordinate, lanes: int, mask: ir.Value | None) -> None:
            evaluator = Evaluator(self.kernel, lanes, mask)
            if isinstance(c, Lane) and mask is None:
                self._read_ahead(where, c.base, lanes)
            if part is not None and self.joined is not None:
                evaluator.within(self.joined, part, self._joined_axis())
            _store_point(evaluator, self.group, [*where, c])

        known = isinstance(start, int) and isinstance(end, int)
        vector_loop(self.kernel, start, end, self.shape.limited(max(1, end - start)) if known else self.shape, emit)


class _Tiles:
    """A group of results cut into square tiles over the last axis and the axis ``across``, along which an argument is
    contiguous.

    With ``planes``, the last axis is that short and directly behind ``across``: vectors run across and are interleaved.
    ``padded``: a pad along ``across`` that makes the only result, in whose interior they run.
    """

    def __init__(
        self,
        kernel: KernelBuilder,
        group: _Group,
        across: int,
        lanes: int,
        planes: int = 0,
        padded: ir.Operation | None = None,
    ):
        self.kernel = kernel
        self.group = group
        self.across = across
        self.lanes = lanes
        self.planes = planes
        self.padded = padded
        # A cache line of each row of results at a time, where lines are what memory moves.
        self.side_by_side = max(1, 16 // lanes)

    def _space(self) -> tuple[list[Index], list[int], Index, Index]:
        """Outer extents and their axes, the extent across and the last one."""
        extents = self.kernel.extents(self.group.values[0])
        axes = [a for a in range(len(extents) - 1) if a != self.across]
        return [extents[a] for a in axes], axes, extents[self.across], extents[-1]

    def blocks(self) -> tuple[Index, Index]:
        """Blocks over the outer axes and across, and blocks over the last axis."""
        outer, _, across, last = self._space()
        if self.planes:
            pieces = index.mul(index.product(outer), index.ceildiv(across, _PLANE_BLOCK))
            return index.ceildiv(pieces, self._pieces(across)), 1
        return index.mul(index.product(outer), index.ceildiv(across, _TILE_BLOCK)), index.ceildiv(last, _TILE_BLOCK)

    def _pieces(self, across: Index) -> Index:
        """How many short runs across a workgroup interleaves."""
        return index.maximum(1, index.floordiv(_PLANE_BLOCK, index.maximum(across, 1)))

    def emit(self, row_block: Index, column_block: Index) -> None:
        """Emit the block at these positions."""
        outer, _, across, last = self._space()
        if self.planes:
            pieces = index.mul(index.product(outer), index.ceildiv(across, _PLANE_BLOCK))
            first = index.mul(row_block, self._pieces(across))
            end = index.minimum(index.add(first, self._pieces(across)), pieces)
            with self.kernel.loop(first, end) as piece:
                self._interleaved(*self._place(piece.iv, _PLANE_BLOCK))
            return
        left = index.mul(column_block, _TILE_BLOCK)
        right = index.minimum(index.add(left, _TILE_BLOCK), last)
        self._tiled(*self._place(row_block, _TILE_BLOCK), left, right)

    def _place(self, block: Index, size: int) -> tuple[list[Coordinate], Index, Index]:
        """The coordinates of a block of ``size`` elements across (0 for the last two axes), its start and its end."""
        outer, axes, across, _ = self._space()
        per_point = index.ceildiv(across, size)
        where: list[Coordinate] = [0] * (len(axes) + 2)
        for axis, c in zip(axes, index.delinearize(index.floordiv(block, per_point), outer), strict=True):
            where[axis] = c
        start = index.mul(index.mod(block, per_point), size)
        return where, start, index.minimum(index.add(start, size), across)

    def _tiled(self, where: list[Coordinate], start: Index, end: Index, left: Index, right: Index) -> None:
        lanes, several = self.lanes, self.lanes * self.side_by_side
        bottom, middle, edge = (
            index.add(low, index.mul(index.floordiv(index.sub(high, low), step), step))
            for low, high, step in ((start, end, lanes), (left, right, several), (left, right, lanes))
        )
        for low, high, count in ((left, middle, self.side_by_side), (middle, edge, 1)):
            if count == 1 and self.side_by_side == 1 and low is middle:
                continue
            with self.kernel.loop(low, high, lanes * count) as column, self.kernel.loop(start, bottom, lanes) as row:
                for n in range(count):
                    self._tile(where, row.iv, index.add(column.iv, n * lanes))
        self._points(where, start, end, edge, right)
        self._points(where, bottom, end, left, edge)

    def _tile(self, where: list[Coordinate], top: Index, left: Index) -> None:
        evaluator = Evaluator(self.kernel, self.lanes)
        for row in evaluator.tile_rows(top):
            _store_point(evaluator, self.group, _at(where, self.across, row, Lane(left)))

    def _points(self, where: list[Coordinate], start: Index, end: Index, left: Index, right: Index) -> None:
        """What is left beside the tiles, element by element."""
        with self.kernel.loop(start, end) as row, self.kernel.loop(left, right) as column:
            _store_point(Evaluator(self.kernel), self.group, _at(where, self.across, row.iv, column.iv))

    def _interleaved(self, where: list[Coordinate], start: Index, end: Index) -> None:
        if self.padded is not None:
            _, low, high, _ = parts(self.kernel, self.padded, self.across)
            inner_start, inner_end = (index.minimum(index.maximum(start, bound), end) for bound in (low, high))
            self._points(where, start, inner_start, 0, self.planes)
            self._points(where, inner_end, end, 0, self.planes)
            start, end = inner_start, inner_end
        whole = index.add(start, index.mul(index.floordiv(index.sub(end, start), self.lanes), self.lanes))
        with self.kernel.loop(start, whole, self.lanes) as run:
            for number, value in zip(self.group.numbers, self.group.values, strict=True):
                evaluator = Evaluator(self.kernel, self.lanes)
                if self.padded is not None:
                    evaluator.within(self.padded, PAD_INTERIOR, self.across)
                planes = [
                    memory.to_storage(evaluator.vector_at(value, _at(where, self.across, Lane(run.iv), n)))
                    for n in range(self.planes)
                ]
                extents = self.kernel.extents(value)
                flat = reshape_memref(self.kernel.result(number), [index.product(extents)])
                first = index.linearize(
                    [c for c in _at(where, self.across, run.iv, 0) if not isinstance(c, Lane)], extents
                )
                for n, part in enumerate(interleave(planes)):
                    memory.store_raw(flat, index.add(first, n * self.lanes), part)
        self._points(where, whole, end, 0, self.planes)


def _at(where: list[Coordinate], across: int, row: Coordinate, column: Coordinate) -> list[Coordinate]:
    point = list(where)
    point[across], point[-1] = row, column
    return point


def _store_point(evaluator: Evaluator, group: _Group, where: list[Coordinate]) -> None:
    values = [evaluator.at(value, where) for value in group.values]
    for number, into, value in zip(group.numbers, group.insertions, values, strict=True):
        place = where
        if into is not None:
            offsets, _, _ = slice_parameters(evaluator.kernel, into)
            place = [coords.add(c, o, evaluator.lanes) for c, o in zip(where, offsets, strict=True)]
        evaluator.store(evaluator.result(number), place, value)


def _groups(function: KernelFunction, dimensions: Dimensions) -> list[_Group]:
    """Results of one shape with the same dimensions on its axes: a transposition is cut in its own way."""
    insertions = [insertion(function, number) for number in range(len(function.results))]
    values = [p.value if op is None else op.operands[0] for p, op in zip(function.results, insertions, strict=True)]
    by_space: dict[tuple[object, ...], list[int]] = {}
    for number, (port, op, value) in enumerate(zip(function.results, insertions, values, strict=True)):
        type_ = ir.RankedTensorType(value.type)
        extents = port.dims if op is None else () if type_.has_static_shape else op
        axes = tuple(d for d, extent in zip(dimensions.axes(value), type_.shape, strict=True) if extent != 1)
        by_space.setdefault((tuple(type_.shape), extents, axes), []).append(number)
    return [
        _Group(
            tuple(numbers),
            tuple(function.results[n] for n in numbers),
            tuple(values[n] for n in numbers),
            tuple(insertions[n] for n in numbers),
        )
        for numbers in by_space.values()
    ]


def _compare(predicate: str, a: Index, b: Index) -> ir.Value:
    return arith.CmpIOp(getattr(arith.CmpIPredicate, predicate), index.value(a), index.value(b)).result


def _all_of(first: ir.Value, *rest: ir.Value) -> ir.Value:
    for condition in rest:
        first = arith.AndIOp(first, condition).result
    return first


STRATEGY = _Elementwise()
