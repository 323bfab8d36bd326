"""Point-wise results row by row, or one long row in blocks, vectors along the last axis."""

from __future__ import annotations

import itertools

from torch_mlir import ir

from rillet.codegen import index
from rillet.codegen.coordinates import Coordinate, Lane
from rillet.codegen.cpu.caches import read_ahead
from rillet.codegen.cpu.pointwise.plan import RowsPlan
from rillet.codegen.cpu.pointwise.points import store_point
from rillet.codegen.emit.elements import Evaluator
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.vector_loop import vector_loop
from rillet.codegen.emit.views import parts
from rillet.codegen.index import Index
from rillet.ir.dtypes import storage_bytes

_AHEAD_BYTES = 2048  # bytes from the current element to the one that is read ahead, in kernels that compute much


class Rows:
    """Emits the blocks of a group that is cut into rows."""

    def __init__(self, kernel: KernelBuilder, plan: RowsPlan):
        self.kernel = kernel
        self.plan = plan
        self.group = plan.group

    def _space(self) -> tuple[list[Index], Index]:
        extents = self.kernel.extents(self.group.values[0])
        return (extents[:-1], extents[-1]) if extents else ([], 1)

    def _rows_per_block(self, inner: Index) -> Index:
        return index.maximum(1, index.floordiv(self.plan.block, index.maximum(inner, 1)))

    def blocks(self) -> tuple[Index, Index]:
        """The numbers of row blocks and of column blocks."""
        outer, inner = self._space()
        return index.ceildiv(index.product(outer), self._rows_per_block(inner)), index.ceildiv(inner, self.plan.block)

    def emit(self, row_block: Index, column_block: Index) -> None:
        """Emit the block at these positions."""
        outer, inner = self._space()
        rows = self._rows_per_block(inner)
        first = index.mul(row_block, rows)
        last = index.minimum(index.add(first, rows), index.product(outer))
        start: Index = index.mul(column_block, self.plan.block)
        end = index.minimum(index.add(start, self.plan.block), inner)
        if isinstance(inner, int) and inner <= self.plan.block:
            start, end = 0, inner
        if all(isinstance(e, int) for e in outer[1:]):
            with self.kernel.loop(first, last) as row:
                self._row(index.delinearize(row.iv, outer), start, end)
            return
        # Coordinates are counted up: rows may be short, and divisions by extents that are known at run time only are
        # slow.
        begin = index.delinearize(first, [index.maximum(e, 1) for e in outer])  # there may be no rows at all
        with self.kernel.loop(first, last, carried=[index.value(c) for c in begin]) as row:
            where = [0 if isinstance(c, int) else v for c, v in zip(begin, row.carried, strict=True)]
            self._row(where, start, end)
            row.yield_(*(index.value(c) for c in index.successor(where, outer)))

    def _row(self, where: list[Index], start: Index, end: Index) -> None:
        if not self.group.type.rank:
            store_point(Evaluator(self.kernel), self.group, [])
        elif self.plan.joined is None:
            self._run(where, start, end, None)
        else:
            bounds = parts(self.kernel, self.plan.joined, self._joined_axis())
            for number, (low, high) in enumerate(itertools.pairwise(bounds)):
                if isinstance(low, int) and isinstance(high, int) and low == high:
                    continue
                low = index.maximum(start, low)
                self._run(where, low, index.maximum(low, index.minimum(end, high)), number)

    def _joined_axis(self) -> int:
        assert self.plan.joined is not None
        return ir.RankedTensorType(self.plan.joined.results[0].type).rank - 1

    def _read_ahead(self, where: list[Index], first: Index, elements: int) -> None:
        for number in self.plan.ahead:
            type_ = self.kernel.function.arguments[number].type.element_type
            distance = _AHEAD_BYTES // storage_bytes(type_)
            read_ahead.fetch(self.kernel, number, where, index.add(first, distance), elements)

    def _run(self, where: list[Index], start: Index, end: Index, part: int | None) -> None:
        """The elements of a row from ``start`` to ``end``, which lie within one part of the pad or concatenation that
        makes the row."""

        def emit(c: Coordinate, lanes: int, mask: ir.Value | None) -> None:
            evaluator = Evaluator(self.kernel, lanes, mask)
            if isinstance(c, Lane) and mask is None:
                self._read_ahead(where, c.base, lanes)
            if part is not None and self.plan.joined is not None:
                evaluator.within(self.plan.joined, part, self._joined_axis())
            store_point(evaluator, self.group, [*where, c])

        known = isinstance(start, int) and isinstance(end, int)
        vector_loop(
            self.kernel, start, end, self.plan.shape.limited(max(1, end - start)) if known else self.plan.shape, emit
        )
