"""Emits one register tile of a contraction: addresses, initial values, the reduction, the epilogue."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from torch_mlir import ir
from torch_mlir.dialects import vector

from rillet.codegen import index
from rillet.codegen.coordinates import Coordinate, Lane
from rillet.codegen.cpu import cost_model
from rillet.codegen.cpu.caches.prefetch import fetch_tile
from rillet.codegen.cpu.contraction import microkernel
from rillet.codegen.cpu.contraction.axes import element
from rillet.codegen.cpu.contraction.computed_rhs import Weights
from rillet.codegen.cpu.contraction.groups import GroupReducer
from rillet.codegen.cpu.contraction.lhs import Batch, LhsRows, coordinates
from rillet.codegen.cpu.contraction.plan import ContractionPlan
from rillet.codegen.cpu.contraction.rhs import RhsColumns, vector_at
from rillet.codegen.cpu.dot_products import pairs as pair_products
from rillet.codegen.emit import epilogue, memory
from rillet.codegen.emit.accumulators import sum_of
from rillet.codegen.emit.addresses import bind_argument
from rillet.codegen.emit.blocks import Segment, Span, Tile, column_masks
from rillet.codegen.emit.elements import Evaluator
from rillet.codegen.emit.epilogue import Writer
from rillet.codegen.emit.extents import loop_sizes
from rillet.codegen.emit.factors import convert, factor
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.padding import any_of
from rillet.codegen.emit.values import broadcast
from rillet.codegen.index import Index
from rillet.ir.linear import identity, substitute_all


class TileEmitter:
    """Emits tiles of one kernel. A tile is ``count`` rows from flat row position ``m`` by ``vectors`` vectors from
    column ``n`` (``width`` columns exist).
    """

    def __init__(self, kernel: KernelBuilder, plan: ContractionPlan):
        """Bind the operands; call it at the start of the kernel's body."""
        c = plan.contraction
        self.kernel = kernel
        self.plan = plan
        self.c = c
        self.lanes = plan.tile.lanes
        self.sizes = loop_sizes(kernel, c.root)
        rhs = bind_argument(kernel, c.rhs)
        self.lhs = LhsRows(kernel, plan, bind_argument(kernel, c.lhs), self.sizes)
        self.rhs = RhsColumns(kernel, plan, rhs, self.sizes[c.n])
        self.residuals = [bind_argument(kernel, a) for a in plan.residuals]
        self.writer = Writer(kernel, plan.epilogue)
        self.evaluator = Evaluator(kernel)
        self.sum_type = c.product.accumulator_type
        self._sum = sum_of(self.sum_type)
        self._scratch: memory.Buffer | None = None
        self._pitch = plan.blocks.columns if plan.reduction_block and not plan.rhs.pack else plan.tile.columns
        if plan.reduction_block:
            self._scratch = self._sums(plan.blocks.rows)
        elif self._is_costly(plan.tile.rows, plan.tile.vectors):
            self._scratch = self._sums(plan.tile.rows)
        self.groups = GroupReducer(kernel, plan, plan.integers.groups, self.lhs, rhs) if plan.integers.groups else None

    def _sums(self, rows: int) -> memory.Buffer:
        local = self.kernel.local([rows * self._pitch], self.sum_type)
        return memory.Buffer.whole(local, self.sum_type)

    def _is_costly(self, rows: int, vectors: int) -> bool:
        """Whether the epilogue of a tile is too long to be emitted once for each of its vectors."""
        return rows > 1 and self.plan.epilogue.is_long(rows * vectors)

    # --- tiles ----------------------------------------------------------------------------------------------------

    def tile(
        self,
        batch: Batch,
        rows: Span,
        columns: Span,
        m: Index,
        count: int,
        n: Index,
        vectors: int,
        width: Index,
    ) -> None:
        """Compute a tile of a block of rows and columns and store its results."""
        where = self.lhs.rows_at(m, count)
        fetch_tile(self.residuals, [batch | w for w in where], self.c.n, n, vectors * self.lanes)
        masks = column_masks(self.lanes, width, vectors)
        sums = [self.initial(self.at(batch, w, n, j), masks[j]) for w in where for j in range(vectors)]
        if self.groups is not None:
            sums = self.groups.shifted(sums, n, columns[0], vectors)
        lhs = self.lhs.starts(batch, where, m)
        number = index.floordiv(index.sub(m, rows[0]), self.plan.tile.rows)
        ahead = self.rhs.ahead(batch, number, n, vectors)
        whole = Segment.whole(self.lhs.reduction_sizes)
        sums = self._reduce(batch, where, lhs, n, vectors, masks, sums, whole, ahead)
        if self._is_costly(count, vectors):
            self._store_in_loop(sums, batch, m, count, n, masks)
            return
        for r, w in enumerate(where):
            row = sums[r * vectors : (r + 1) * vectors]
            self.store_row(row, batch, w, n, masks)

    def begin_columns(self, batch: Batch, columns: Span, n: Index, vectors: int) -> None:
        """Prepare a block's column tile once, before its row tiles."""
        assert self.groups is not None
        self.groups.begin_columns(n, columns[0], self.rhs.offsets(batch, n, vectors))

    def begin_sums(
        self, batch: Batch, rows: Span, n: Index, vectors: int, width: Index, origin: Index | None = None
    ) -> None:
        """Put the initial values of a block of rows in scratch. The sums in scratch begin with column ``origin``, by
        default ``n``."""
        shift = self._shift(n, origin)
        masks = column_masks(self.lanes, width, vectors)
        with self.kernel.loop(rows[0], rows[1]) as loop:
            row = coordinates(self.plan.axes.m, index.delinearize(loop.iv, self.lhs.row_sizes))
            for j in range(vectors):
                value = self.initial(self.at(batch, row, n, j), masks[j])
                self._store_sum(index.sub(loop.iv, rows[0]), j, value, shift)

    def add_to_sums(
        self,
        batch: Batch,
        rows: Span,
        m: Index,
        count: int,
        n: Index,
        vectors: int,
        width: Index,
        segment: Segment,
        origin: Index | None = None,
    ) -> None:
        """Add one segment of the reduction to a tile's sums in scratch."""
        first, shift = index.sub(m, rows[0]), self._shift(n, origin)
        spots = [(index.add(first, r), j, shift) for r in range(count) for j in range(vectors)]
        where = self.lhs.rows_at(m, count)
        lhs = self.lhs.starts(batch, where, m)
        masks = column_masks(self.lanes, width, vectors)
        type_ = ir.VectorType.get([self.lanes], self.sum_type) if self.lanes > 1 else self.sum_type
        nothing = [self._sum.identity_of(type_)] * len(spots)
        parts = self._reduce(batch, where, lhs, n, vectors, masks, nothing, segment)
        for spot, part in zip(spots, parts, strict=True):
            row, j, _ = spot
            self._store_sum(row, j, self._sum.apply(self._load_sum(*spot), part), shift)

    def finish_sums(
        self, batch: Batch, rows: Span, n: Index, vectors: int, width: Index, origin: Index | None = None
    ) -> None:
        """Apply the epilogue to the sums in scratch and store the results."""
        shift = self._shift(n, origin)
        masks = column_masks(self.lanes, width, vectors)
        with self.kernel.loop(rows[0], rows[1]) as loop:
            row = coordinates(self.plan.axes.m, index.delinearize(loop.iv, self.lhs.row_sizes))
            spot = index.sub(loop.iv, rows[0])
            self.store_row([self._load_sum(spot, j, shift) for j in range(vectors)], batch, row, n, masks)

    @staticmethod
    def _shift(n: Index, origin: Index | None) -> Index:
        return 0 if origin is None else index.sub(n, origin)

    def pack(self, batch: Batch, n: Index, vectors: int, width: Index, segment: Segment) -> None:
        """Copy a column tile's panel of the rhs to scratch."""
        self.rhs.pack(batch, n, vectors, width, segment, self.lhs.reduction_sizes)

    # --- the reduction --------------------------------------------------------------------------------------------

    def _reduce(
        self,
        batch: Batch,
        where: Sequence[dict[int, Index]],
        rows: Sequence[Index],
        n: Index,
        vectors: int,
        masks: Sequence[ir.Value | None],
        sums: Sequence[ir.Value],
        segment: Segment,
        ahead: Callable[[Index, int], None] | None = None,
    ) -> list[ir.Value]:
        """Add a segment of the reduction to ``sums``; ``rows``: the offset in the lhs of each row of ``where``."""
        tile = Tile(len(rows), vectors, self.lanes)
        columns = self.rhs.offsets(batch, n, vectors)
        if self.groups is not None:
            return self.groups.reduce(rows, columns, sums)
        axes = self._reduction_axes(segment)
        if axes:
            if self.lhs.panel is None:
                rows = [index.add(r, index.mul(segment.start, axes[0].lhs_stride)) for r in rows]
            if self.rhs.panel is None:
                columns = [index.add(c, index.mul(segment.start, axes[0].rhs_stride)) for c in columns]
        operands = dataclasses.replace(self._operands(masks, len(rows)), ahead=ahead)
        if self.lhs.padded is not None and not self.plan.integers.pairs:
            enter = self._entering(batch, where, segment, operands)
            operands = dataclasses.replace(operands, enter=enter)
        if self.rhs.weights is not None and self.rhs.panel is None:
            operands = dataclasses.replace(
                operands, enter=self._weighing(self.rhs.weights, batch, n, vectors, operands)
            )
        return microkernel.reduce_tile(self.kernel, tile, axes, operands, rows, columns, sums)

    @staticmethod
    def _weighing(
        weights: Weights, batch: Batch, n: Index, vectors: int, operands: microkernel.Operands
    ) -> Callable[[list[Index], list[Index]], microkernel.Run]:
        """Wraps the entry of the innermost loop so that it also reads the operands that rhs factors are computed
        from."""

        def enter(positions: list[Index], rows: list[Index]) -> microkernel.Run:
            block = weights.entering(batch, n, vectors, positions)
            run = microkernel.Run(operands, rows, True) if operands.enter is None else operands.enter(positions, rows)
            inside = dataclasses.replace(run.operands, rhs=block.factor, enter=None)
            chains = cost_model.choose_chains(weights.kernel.target, len(rows) * vectors)
            return dataclasses.replace(run, operands=inside, finish=block.finish, chains=chains)

        return enter

    def _entering(
        self, batch: Batch, where: Sequence[dict[int, Index]], segment: Segment, operands: microkernel.Operands
    ) -> Callable[[list[Index], list[Index]], microkernel.Run]:
        """Chooses between the tensor and its padding, for each row, before the innermost loop. The loop is skipped
        where all rows read padding that adds nothing."""

        def enter(within: list[Index], rows: list[Index]) -> microkernel.Run:
            existing = self.lhs.existing(batch, where, self.lhs.positions(within, segment))
            counts = any_of(existing) if self.lhs.skips else True
            if self.lhs.panel is not None:
                return microkernel.Run(dataclasses.replace(operands, enter=None), rows, counts)
            places = self.lhs.places(existing, rows)
            lhs, lhs_run = self._lhs_reads([flat for flat, _ in places])
            inside = dataclasses.replace(operands, lhs=lhs, lhs_run=lhs_run, enter=None)
            return microkernel.Run(inside, [offset for _, offset in places], counts)

        return enter

    def _reduction_axes(self, segment: Segment) -> list[microkernel.ReductionAxis]:
        if self.plan.integers.pairs:
            return [microkernel.ReductionAxis(self.plan.steps, 1, self.rhs.operand.strides[self.plan.axes.k[-1].inner])]
        axes = []
        for number, axis in enumerate(self.plan.axes.k):
            lhs, rhs = self.lhs.operand.strides[axis.inner], self.rhs.operand.strides[axis.inner]
            inside = index.product(self.lhs.reduction_sizes[number + 1 :])
            if self.rhs.panel is not None:
                rhs = index.mul(inside, self.plan.tile.columns)
            if self.lhs.panel is not None:
                lhs = index.mul(inside, self.lhs.pitch)
            size = self.lhs.reduction_sizes[number] if number else segment.length
            axes.append(microkernel.ReductionAxis(size, lhs, rhs))
        return axes

    def _operands(self, masks: Sequence[ir.Value | None], rows: int) -> microkernel.Operands:
        lhs, lhs_run = self._lhs_reads([self.lhs.operand.memref] * rows)
        pairs = self._pairs(masks) if self.plan.integers.pairs else None
        return microkernel.Operands(
            lhs,
            self.rhs.reads(masks),
            run=self.plan.lhs.run,
            lhs_run=lhs_run,
            pairs=pairs,
            extends=self.plan.extends,
        )

    def _lhs_reads(
        self, flats: Sequence[ir.Value]
    ) -> tuple[Callable[[Index, int], ir.Value], Callable[[Index, int], list[ir.Value]] | None]:
        """Readers of one lhs factor and, where neighbours are read together, of several; ``flats``: the memory that
        holds each row."""

        def one(offset: Index, number: int) -> ir.Value:
            if self.lhs.panel is not None:
                return memory.load(self.lhs.panel, vector_at(offset, self.lanes), self.lanes)
            return self.lhs.load(flats[number], offset)

        def several(offset: Index, number: int) -> list[ir.Value]:
            buffer = memory.Buffer.whole(flats[number], element(self.c, self.c.roles.lhs))
            loaded = memory.load(buffer, vector_at(offset, self.lanes), self.lanes)
            value = factor(self.kernel, self.c.root, self.c.product.lhs.value, loaded, self.lanes)
            return [vector.ExtractOp(value, [], [n]).result for n in range(self.lanes)]

        return one, several if self.plan.lhs.run else None

    def _pairs(self, masks: Sequence[ir.Value | None]) -> microkernel.Pairs:
        assert self.plan.integers.pairs is not None and self.lhs.panel is not None
        panel = self.lhs.panel

        def lhs(offset: Index, number: int) -> ir.Value:
            return pair_products.load_lhs(panel, offset, self.lanes)

        rhs = self.rhs.pair_reads(self.plan.integers.pairs[1], masks)
        return microkernel.Pairs(lhs, rhs, pair_products.multiply_add)

    # --- in and out of the accumulators ---------------------------------------------------------------------------

    def at(self, batch: Batch, row: dict[int, Index], n: Index, number: int) -> list[Coordinate]:
        """The root's loop coordinates of a vector of the tile."""
        at: list[Coordinate] = [0] * len(self.c.extents)
        for loop, position in (batch | row).items():
            at[loop] = position
        start = index.add(n, number * self.lanes)
        at[self.c.n] = Lane(start) if self.lanes > 1 else start
        return at

    def initial(self, at: list[Coordinate], mask: ir.Value | None) -> ir.Value:
        """The initial sums at these loop coordinates: the init's elements, as ``vector<lanes>`` of the sums' type."""
        root = self.c.root
        forms = substitute_all(root.init_maps[0], identity(len(at)))
        assert forms is not None
        value = self.evaluator.fork(self.lanes, mask).at(root.inits[0], epilogue.place(forms, at, self.lanes))
        if self.c.product.widen is not None:
            value = convert(self.c.product.widen, value, self.sum_type)
        return broadcast(value, self.lanes)

    def store_row(
        self,
        sums: Sequence[ir.Value],
        batch: Batch,
        row: dict[int, Index],
        n: Index,
        masks: Sequence[ir.Value | None],
    ) -> None:
        """Runs the epilogue on one row of sums (a vector for each ``lanes`` columns from ``n`` on) and stores its
        results."""
        root = self.c.root
        result_element = ir.RankedTensorType(root.results[0].type).element_type
        for j, value in enumerate(sums):
            if self.c.product.narrow is not None:
                value = convert(self.c.product.narrow, value, result_element)
            evaluator = self.evaluator.fork(self.lanes, masks[j])
            evaluator.bind(root.results[0], value)
            self.writer.store(evaluator, self.at(batch, row, n, j))

    def _store_in_loop(
        self,
        sums: Sequence[ir.Value],
        batch: Batch,
        m: Index,
        count: int,
        n: Index,
        masks: Sequence[ir.Value | None],
    ) -> None:
        """Spill the tile to scratch and run the epilogue row by row, so that its code exists once."""
        for number, value in enumerate(sums):
            self._store_sum(*divmod(number, len(masks)), value)
        with self.kernel.loop(0, count) as loop:
            row = coordinates(self.plan.axes.m, index.delinearize(index.add(m, loop.iv), self.lhs.row_sizes))
            self.store_row([self._load_sum(loop.iv, j) for j in range(len(masks))], batch, row, n, masks)

    def _sum_at(self, row: Index, number: int, shift: Index) -> list[Coordinate]:
        return vector_at(index.add(index.add(index.mul(row, self._pitch), shift), number * self.lanes), self.lanes)

    def _load_sum(self, row: Index, number: int, shift: Index = 0) -> ir.Value:
        assert self._scratch is not None
        return memory.load(self._scratch, self._sum_at(row, number, shift), self.lanes)

    def _store_sum(self, row: Index, number: int, value: ir.Value, shift: Index = 0) -> None:
        assert self._scratch is not None
        memory.store(self._scratch, self._sum_at(row, number, shift), value, self.lanes)
