"""Point-wise results that are transpositions of an argument: square tiles in registers, or a few planes interleaved."""

from __future__ import annotations

from rillet.codegen import index
from rillet.codegen.coordinates import Coordinate, Lane
from rillet.codegen.cpu.pointwise.plan import TilesPlan
from rillet.codegen.cpu.pointwise.points import store_point
from rillet.codegen.emit import memory
from rillet.codegen.emit.elements import Evaluator
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.memory import reshape_memref
from rillet.codegen.emit.transpose import interleave
from rillet.codegen.emit.views import PAD_INTERIOR, parts
from rillet.codegen.index import Index

_TILE_BLOCK = 64  # elements of a side of the square that a workgroup transposes
_PLANE_BLOCK = 2048  # elements of each plane that a workgroup interleaves


class Tiles:
    """Emits the blocks of a group that is cut into tiles."""

    def __init__(self, kernel: KernelBuilder, plan: TilesPlan):
        self.kernel = kernel
        self.plan = plan
        self.group = plan.group
        # A cache line of each row of results at a time, since memory moves whole lines.
        self.side_by_side = max(1, 16 // plan.lanes)

    def _space(self) -> tuple[list[Index], list[int], Index, Index]:
        """Outer extents and their axes, the extent across and the last one."""
        extents = self.kernel.extents(self.group.values[0])
        axes = [a for a in range(len(extents) - 1) if a != self.plan.across]
        return [extents[a] for a in axes], axes, extents[self.plan.across], extents[-1]

    def blocks(self) -> tuple[Index, Index]:
        """The numbers of blocks over the outer axes and across, and over the last axis."""
        outer, _, across, last = self._space()
        if self.plan.planes:
            pieces = index.mul(index.product(outer), index.ceildiv(across, _PLANE_BLOCK))
            return index.ceildiv(pieces, self._pieces(across)), 1
        return index.mul(index.product(outer), index.ceildiv(across, _TILE_BLOCK)), index.ceildiv(last, _TILE_BLOCK)

    def _pieces(self, across: Index) -> Index:
        """How many short runs across a workgroup interleaves."""
        return index.maximum(1, index.floordiv(_PLANE_BLOCK, index.maximum(across, 1)))

    def emit(self, row_block: Index, column_block: Index) -> None:
        """Emit the block at these positions."""
        outer, _, across, last = self._space()
        if self.plan.planes:
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
        lanes, several = self.plan.lanes, self.plan.lanes * self.side_by_side
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
        evaluator = Evaluator(self.kernel, self.plan.lanes)
        for row in evaluator.tile_rows(top):
            store_point(evaluator, self.group, _at(where, self.plan.across, row, Lane(left)))

    def _points(self, where: list[Coordinate], start: Index, end: Index, left: Index, right: Index) -> None:
        """The elements beside the tiles, one by one."""
        with self.kernel.loop(start, end) as row, self.kernel.loop(left, right) as column:
            store_point(Evaluator(self.kernel), self.group, _at(where, self.plan.across, row.iv, column.iv))

    def _interleaved(self, where: list[Coordinate], start: Index, end: Index) -> None:
        if self.plan.padded is not None:
            _, low, high, _ = parts(self.kernel, self.plan.padded, self.plan.across)
            inner_start, inner_end = (index.minimum(index.maximum(start, bound), end) for bound in (low, high))
            self._points(where, start, inner_start, 0, self.plan.planes)
            self._points(where, inner_end, end, 0, self.plan.planes)
            start, end = inner_start, inner_end
        whole = index.add(start, index.mul(index.floordiv(index.sub(end, start), self.plan.lanes), self.plan.lanes))
        with self.kernel.loop(start, whole, self.plan.lanes) as run:
            for number, value in zip(self.group.numbers, self.group.values, strict=True):
                evaluator = Evaluator(self.kernel, self.plan.lanes)
                if self.plan.padded is not None:
                    evaluator.within(self.plan.padded, PAD_INTERIOR, self.plan.across)
                planes = [
                    memory.to_storage(evaluator.vector_at(value, _at(where, self.plan.across, Lane(run.iv), n)))
                    for n in range(self.plan.planes)
                ]
                extents = self.kernel.extents(value)
                flat = reshape_memref(self.kernel.result(number), [index.product(extents)])
                first = index.linearize(
                    [c for c in _at(where, self.plan.across, run.iv, 0) if not isinstance(c, Lane)], extents
                )
                for n, part in enumerate(interleave(planes)):
                    memory.store_raw(flat, index.add(first, n * self.plan.lanes), part)
        self._points(where, whole, end, 0, self.plan.planes)


def _at(where: list[Coordinate], across: int, row: Coordinate, column: Coordinate) -> list[Coordinate]:
    point = list(where)
    point[across], point[-1] = row, column
    return point
