"""Loops over the blocks and tiles of a workgroup, shared by the tiled strategies."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, vector

from rillet.codegen import index
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.index import Index

Span = tuple[Index, Index]  # from, to (exclusive)


@dataclass(frozen=True)
class Tile:
    """A register tile: ``rows`` x ``vectors`` accumulators of ``lanes`` elements."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        """Elements of a row of the tile."""
        return self.vectors * self.lanes


@dataclass(frozen=True)
class Segment:
    """A part of the first reduction axis of a contraction."""

    start: Index
    length: Index

    @staticmethod
    def whole(sizes: Sequence[Index]) -> Segment:
        """The whole axis; ``sizes`` are the extents of the reduction axes."""
        return Segment(0, sizes[0] if sizes else 1)


def workgroup_span(kernel: KernelBuilder, axis: int, block: int, total: Index) -> Span:
    """The part of ``total`` that this workgroup owns on a grid axis cut into blocks of ``block``."""
    if isinstance(total, int) and total <= block:
        return 0, total
    start = index.mul(kernel.workgroup(axis), block)
    end = index.add(start, block)
    return start, end if isinstance(total, int) and total % block == 0 else index.minimum(end, total)


def each(kernel: KernelBuilder, span: Span, step: int, body: Callable[[Index], None]) -> None:
    """Calls ``body(i)`` for i from the span's start on in steps of ``step``; emits no loop when one iteration at most
    is known to run."""
    start, end = span
    if isinstance(start, int) and isinstance(end, int):
        if start >= end:
            return
        if start + step >= end:
            body(start)
            return
    with kernel.loop(start, end, step) as loop:
        body(loop.iv)


def each_row_tile(
    kernel: KernelBuilder, span: Span, total: Index, rows: int, body: Callable[[Index, int], None]
) -> None:
    """Calls ``body(first row, rows of the tile)`` for each row tile of a span of ``total`` rows. Spans start at
    multiples of ``rows``, and the last tile is smaller. Where ``total`` is not known, see ``each_row_part``."""
    start, end = span
    if not isinstance(total, int):
        each_row_part(kernel, span, rows, body)
        return
    tail = total % rows
    whole = total - tail
    main_end = whole if end == total else index.minimum(end, whole)
    each(kernel, (start, main_end), rows, lambda m: body(m, rows))
    if tail:
        each(kernel, (main_end, end), rows, lambda m: body(m, tail))


def each_row_part(kernel: KernelBuilder, span: Span, most: int, body: Callable[[Index, int], None]) -> None:
    """Calls ``body(first row, rows)`` for parts of a span, as few as have at most ``most`` rows and as even as may be,
    the longer ones first. The body is emitted for each number of rows: seven rows of at most six go as four and three,
    which takes less time than six and one."""
    start, end = span
    if most == 1:
        each(kernel, span, 1, lambda m: body(m, 1))
        return
    rows = index.sub(end, start)
    parts = index.ceildiv(rows, most)
    shorter = index.floordiv(rows, index.maximum(parts, 1))
    longer_parts = index.sub(rows, index.mul(parts, shorter))
    with kernel.loop(0, parts, 1, [index.value(start)]) as loop:
        (first,) = loop.carried
        is_longer = arith.CmpIOp(arith.CmpIPredicate.ult, loop.iv, index.value(longer_parts)).result
        count = arith.SelectOp(is_longer, index.value(index.add(shorter, 1)), index.value(shorter)).result
        kernel.switch(count, {n: functools.partial(body, first, n) for n in range(most, 0, -1)})
        loop.yield_(index.add(first, count))


def each_column_tile(
    kernel: KernelBuilder, span: Span, total: Index, tile: Tile, body: Callable[[Index, int, Index], None]
) -> None:
    """Calls ``body(first column, vectors of the tile, valid columns)`` for each column tile of a span of ``total``
    columns. Where ``total`` is not known, columns that fill no tile go vector by vector."""
    start, end = span
    if isinstance(total, int):
        tail = total % tile.columns
        whole = total - tail
        main_end = whole if end == total else index.minimum(end, whole)
        each(kernel, (start, main_end), tile.columns, lambda n: body(n, tile.vectors, tile.columns))
        if tail:
            each(kernel, (main_end, end), tile.columns, lambda n: body(n, math.ceil(tail / tile.lanes), tail))
        return
    main_end = index.add(start, index.mul(index.floordiv(index.sub(end, start), tile.columns), tile.columns))
    each(kernel, (start, main_end), tile.columns, lambda n: body(n, tile.vectors, tile.columns))
    each(
        kernel,
        (main_end, end),
        tile.lanes,
        lambda n: body(n, 1, index.minimum(index.sub(end, n), tile.lanes)),
    )


def column_masks(lanes: int, width: Index, vectors: int) -> list[ir.Value | None]:
    """Masks for each of a tile's vectors that hold in the lanes below ``width`` columns; None where all lanes exist."""
    return [_mask(lanes, width, number) for number in range(vectors)]


def _mask(lanes: int, width: Index, number: int) -> ir.Value | None:
    if lanes == 1:
        return None
    type_ = ir.VectorType.get([lanes], ir.IntegerType.get_signless(1))
    if not isinstance(width, int):
        return vector.CreateMaskOp(type_, [index.value(index.sub(width, number * lanes))]).result
    present = min(lanes, width - number * lanes)
    if present == lanes:
        return None
    bits = [ir.IntegerAttr.get(type_.element_type, n < present) for n in range(lanes)]
    return arith.ConstantOp(type_, ir.DenseElementsAttr.get(bits, type=type_)).result
