"""Strategy: contractions (matrix products, convolutions as implicit matrix products) as register-tiled loops.

Register tiles cover the rows x columns of the result; a workgroup owns a block of rows, a block of columns and some
batches. The reduction runs innermost with the tile in registers, and the epilogue is applied to the registers before
they are stored. Rows that lie in memory like one long row are walked as one. Otherwise each row of a tile has an
address of its own, so that a tile may cross the end of an image line. With few columns lanes go along the reduction
(``narrow``).
"""

from __future__ import annotations

from collections.abc import Callable

from torch_mlir.dialects import arith

from rillet.codegen import index
from rillet.codegen.cpu.contraction.axes import axis_size
from rillet.codegen.cpu.contraction.lhs import coordinates
from rillet.codegen.cpu.contraction.narrow import NarrowPlan, NarrowWorkgroup, narrow_plan
from rillet.codegen.cpu.contraction.plan import ContractionPlan, choice, grid
from rillet.codegen.cpu.contraction.planner import make_plan
from rillet.codegen.cpu.contraction.tile import TileEmitter
from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.emit.blocks import (
    Segment,
    Span,
    Tile,
    each,
    each_column_tile,
    each_row_part,
    each_row_tile,
    workgroup_span,
)
from rillet.codegen.emit.extents import loop_sizes
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.index import Index
from rillet.codegen.recognize.kernel_function import KernelFunction


class ContractionStrategy:
    """See the module's docstring."""

    name = "contraction"
    vectorize_loops = False
    collapses = False

    def plan(self, function: KernelFunction, target: CpuTarget) -> ContractionPlan | NarrowPlan | None:
        """A plan for one contraction of two arguments with a point-wise epilogue."""
        plan = make_plan(function, target)
        return None if plan is None else narrow_plan(plan, target) or plan

    def emit(self, plan: ContractionPlan | NarrowPlan, kernel: KernelBuilder) -> None:
        """Emit the kernel as planned."""
        if isinstance(plan, NarrowPlan):
            kernel.grid(lambda: grid(kernel, plan.tiling))
            with kernel.body():
                NarrowWorkgroup(kernel, plan.tiling).emit()
            return
        kernel.choice = choice(plan, kernel.function.knobs)
        kernel.grid(lambda: grid(kernel, plan))
        with kernel.body():
            if plan.direct is None:
                Workgroup(kernel, plan).emit()
                return
            most, direct = plan.direct
            sizes = loop_sizes(kernel, plan.contraction.root)
            rows = index.product([axis_size(a, sizes) for a in plan.axes.m])
            for predicate, variant in ((arith.CmpIPredicate.ule, direct), (arith.CmpIPredicate.ugt, plan)):
                with kernel.when(arith.CmpIOp(predicate, index.value(rows), index.value(most)).result):
                    Workgroup(kernel, variant).emit()


class Workgroup:
    """Emits the loops over the tiles that one workgroup owns."""

    def __init__(self, kernel: KernelBuilder, plan: ContractionPlan):
        self.kernel = kernel
        self.plan = plan
        self.tiles = TileEmitter(kernel, plan)
        self.fewer = [TileEmitter(kernel, variant) for variant in plan.fewer]

    def emit(self) -> None:
        """Emits the workgroup: padding of the results, then each batch's block of rows and columns."""
        kernel, plan, tiles = self.kernel, self.plan, self.tiles
        tiles.writer.fill_borders()
        batch_sizes = [axis_size(a, tiles.sizes) for a in plan.axes.batch]
        columns = workgroup_span(kernel, 0, plan.blocks.columns, tiles.sizes[plan.contraction.n])
        rows = workgroup_span(kernel, 1, plan.blocks.rows, index.product(tiles.lhs.row_sizes))
        batches = workgroup_span(kernel, 2, plan.blocks.batches, index.product(batch_sizes))

        def batch(position: Index) -> None:
            self.block(coordinates(plan.axes.batch, index.delinearize(position, batch_sizes)), rows, columns)

        each(kernel, batches, 1, batch)

    def block(self, batch: dict[int, Index], rows: Span, columns: Span) -> None:
        """The tiles of a block of rows and columns of one batch (loop → coordinate)."""
        plan, tiles = self.plan, self.tiles
        if plan.reduction_block and not plan.rhs.pack:
            self._blocked(batch, rows, columns)
            return

        def column_tile(n: Index, vectors: int, width: Index) -> None:
            if plan.reduction_block:
                self._blocked_column_tile(batch, rows, n, vectors, width)
                return
            if plan.rhs.pack:
                tiles.pack(batch, n, vectors, width, Segment.whole(tiles.lhs.reduction_sizes))
            self._over_rows(rows, lambda m, count: tiles.tile(batch, rows, columns, m, count, n, vectors, width))

        def pass_rows(span: Span) -> None:
            def row_tile(m: Index, count: int) -> None:
                one = self._tiles_of(count)
                if plan.copies_lhs:
                    one.lhs.copy(batch, m, count, Segment.whole(tiles.lhs.reduction_sizes))
                self._over_columns(
                    span, lambda n, *width: one.tile(batch, rows, columns, m, count, n, *width), one.plan.tile
                )

            self._over_rows(rows, row_tile)

        if plan.shift:
            self._over_columns(columns, lambda n, vectors, width: tiles.begin_columns(batch, columns, n, vectors))
        if plan.copies_lhs or (plan.blocks.rows_outer and not plan.rhs.pack and not plan.reduction_block):
            pass_rows(columns)
        elif plan.together:
            end = columns[1]
            each(
                self.kernel,
                columns,
                plan.together,
                lambda n: pass_rows((n, index.minimum(index.add(n, plan.together), end))),
            )
        else:
            self._over_columns(columns, column_tile)

    def _tiles_of(self, count: int) -> TileEmitter:
        """The emitter for parts of ``count`` rows."""
        return next((tiles for tiles in self.fewer if count <= tiles.plan.tile.rows), self.tiles)

    def _blocked_column_tile(self, batch: dict[int, Index], rows: Span, n: Index, vectors: int, width: Index) -> None:
        """One column tile, a packed block of the reduction at a time, partial sums in scratch."""
        tiles = self.tiles
        tiles.begin_sums(batch, rows, n, vectors, width)

        def segment(part: Segment) -> None:
            tiles.pack(batch, n, vectors, width, part)
            self._over_rows(
                rows,
                lambda m, count: tiles.add_to_sums(batch, rows, m, count, n, vectors, width, part),
            )

        self._over_segments(segment)
        tiles.finish_sums(batch, rows, n, vectors, width)

    def _blocked(self, batch: dict[int, Index], rows: Span, columns: Span) -> None:
        """All tiles, one block of the reduction at a time, so that both operands stay in the caches; sums in
        scratch."""
        tiles = self.tiles

        def begin(n: Index, vectors: int, width: Index) -> None:
            tiles.begin_sums(batch, rows, n, vectors, width, columns[0])

        def segment(part: Segment) -> None:
            def add(m: Index, count: int, n: Index, vectors: int, width: Index) -> None:
                tiles.add_to_sums(batch, rows, m, count, n, vectors, width, part, columns[0])

            def row_tile(m: Index, count: int) -> None:
                tiles.lhs.copy(batch, m, count, part)
                self._over_columns(columns, lambda n, *column: add(m, count, n, *column))

            if self.plan.lhs.spread:
                self._over_rows(rows, row_tile)
            else:
                self._over_columns(columns, lambda *column: self._over_rows(rows, lambda *row: add(*row, *column)))

        def finish(n: Index, vectors: int, width: Index) -> None:
            tiles.finish_sums(batch, rows, n, vectors, width, columns[0])

        self._over_columns(columns, begin)
        self._over_segments(segment)
        self._over_columns(columns, finish)

    def _over_segments(self, body: Callable[[Segment], None]) -> None:
        total, block = self.tiles.lhs.reduction_sizes[0], self.plan.reduction_block
        exact = isinstance(total, int) and total % block == 0

        def segment(start: Index) -> None:
            body(Segment(start, block if exact else index.minimum(block, index.sub(total, start))))

        each(self.kernel, (0, total), block, segment)

    def _over_rows(self, span: Span, body: Callable[[Index, int], None]) -> None:
        rows, total = self.plan.tile.rows, index.product(self.tiles.lhs.row_sizes)
        if self.plan.in_parts:
            each_row_part(self.kernel, span, rows, body)
        elif isinstance(total, int):
            each_row_tile(self.kernel, span, total, rows, body)
        else:
            each(self.kernel, span, rows, lambda m: body(m, rows))

    def _over_columns(self, span: Span, body: Callable[[Index, int, Index], None], tile: Tile | None = None) -> None:
        each_column_tile(self.kernel, span, self.tiles.sizes[self.plan.contraction.n], tile or self.plan.tile, body)
