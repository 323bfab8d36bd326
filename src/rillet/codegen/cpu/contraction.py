"""Strategy: contractions (matrix products, convolutions as implicit matrix products) as register-tiled loops.

Rows x columns of the result are covered by register tiles; a workgroup owns a block of rows, a block of columns and
some batches. The reduction runs innermost with the tile in registers, and the epilogue is applied to the registers
before they are stored. Rows that lie in memory like one long row are walked as one; otherwise each row of a tile has an
address of its own (so a tile may cross the end of an image line).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, vector

from rillet.codegen.cpu import access, epilogue, index, memory, microkernel, tiles
from rillet.codegen.cpu.access import DYNAMIC, Bound
from rillet.codegen.cpu.body import broadcast
from rillet.codegen.cpu.contraction_form import Contraction, factor, recognize
from rillet.codegen.cpu.coordinates import Coordinate, Lane
from rillet.codegen.cpu.dispatch import Dispatch
from rillet.codegen.cpu.epilogue import Epilogue, Writer
from rillet.codegen.cpu.evaluate import Evaluator
from rillet.codegen.cpu.index import Index
from rillet.codegen.cpu.kernel import Kernel, storage_bytes, storage_type
from rillet.codegen.cpu.packing import pack_panel
from rillet.codegen.cpu.tiles import Blocks, Tile
from rillet.targets import Target

# Above this many instructions in all of a tile's epilogues they are put in a loop over the tile's rows.
_INLINE_EPILOGUE = 160
_MAX_PANEL_BYTES = 1 << 20


@dataclass(frozen=True)
class Axis:
    """Neighbouring root loops walked as one: the innermost carries the position, the others stay at 0."""

    loops: tuple[int, ...]
    extent: int  # DYNAMIC when not known at compile time

    @property
    def inner(self) -> int:
        return self.loops[-1]


@dataclass(frozen=True)
class Plan:
    """Everything decided before emitting."""

    contraction: Contraction
    epilogue: Epilogue
    batches: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    reductions: tuple[Axis, ...]
    tile: Tile
    blocks: Blocks
    pack: bool  # copy the right-hand side's panel to scratch first


class ContractionStrategy:
    """See the module's docstring."""

    name = "contraction"

    def matches(self, dispatch: Dispatch, target: Target) -> bool:
        """True for one contraction of two arguments with a point-wise epilogue and results that are contiguous along
        columns.
        """
        return _plan(dispatch, target) is not None

    def emit(self, dispatch: Dispatch, kernel: Kernel, target: Target) -> None:
        """Emit the kernel."""
        plan = _plan(dispatch, target)
        assert plan is not None
        kernel.grid(lambda: _grid(kernel, plan))
        with kernel.body():
            _Emitter(kernel, plan).emit()


STRATEGY = ContractionStrategy()


# --- planning ---------------------------------------------------------------------------------------------------------


def _plan(dispatch: Dispatch, target: Target) -> Plan | None:
    contraction = recognize(dispatch)
    if contraction is None:
        return None
    after = epilogue.plan(dispatch, contraction.root)
    if after is None:
        return None
    extents = contraction.extents
    left, right = contraction.left_access, contraction.right_access

    def rows_merge(outer: int, inner: int) -> bool:
        return left.merges(outer, inner, extents[inner]) and after.merges(outer, inner, extents[inner])

    def reductions_merge(outer: int, inner: int) -> bool:
        return left.merges(outer, inner, extents[inner]) and right.merges(outer, inner, extents[inner])

    def batches_merge(outer: int, inner: int) -> bool:
        return rows_merge(outer, inner) and right.merges(outer, inner, extents[inner])

    batches = merge(contraction.batch_loops, extents, batches_merge)
    rows = merge(contraction.row_loops, extents, rows_merge)
    reductions = merge(contraction.reduction_loops, extents, reductions_merge)
    pack = not right.panel and right.static_stride(contraction.column_loop) != 1
    m, n, k = guess(rows), guess_extent(extents[contraction.column_loop]), guess(reductions)
    right_bytes = storage_bytes(storage_type(_element(contraction, contraction.right)))
    left_bytes = storage_bytes(storage_type(_element(contraction, contraction.left)))
    accumulator_bytes = storage_bytes(storage_type(contraction.product.accumulator_type))
    tile = tiles.choose_tile(
        target, m, n, k, element_bytes=right_bytes, accumulator_bytes=accumulator_bytes, gather=len(rows) > 1
    )
    if pack and (
        any(a.extent == DYNAMIC for a in reductions) or k * tile.columns * accumulator_bytes > _MAX_PANEL_BYTES
    ):
        return None
    blocks = tiles.choose_blocks(
        target,
        tile,
        batches=guess(batches),
        m=m,
        n=n,
        k=k,
        left_bytes=left_bytes * _footprint(left.shape) // (guess(batches) if batches else 1),
        right_bytes=right_bytes * n * k,
        element_bytes=right_bytes,
    )
    return Plan(contraction, after, batches, rows, reductions, tile, blocks, pack)


def merge(loops: Sequence[int], extents: Sequence[int], merges: Callable[[int, int], bool]) -> tuple[Axis, ...]:
    """Join neighbouring loops (outermost first) that ``merges`` allows."""
    groups: list[list[int]] = []
    for loop in loops:
        if groups and merges(groups[-1][-1], loop):
            groups[-1].append(loop)
        else:
            groups.append([loop])
    axes = []
    for group in groups:
        sizes = [extents[n] for n in group]
        axes.append(Axis(tuple(group), DYNAMIC if DYNAMIC in sizes else math.prod(sizes)))
    return tuple(axes)


def guess_extent(extent: int) -> int:
    """The extent, or what the cost model takes an unknown one for."""
    return tiles.DYNAMIC_EXTENT if extent == DYNAMIC else extent


def guess(axes: Sequence[Axis]) -> int:
    """The number of iterations of all axes, unknown extents guessed."""
    return math.prod(guess_extent(a.extent) for a in axes)


def _footprint(shape: Sequence[int]) -> int:
    return math.prod(guess_extent(e) for e in shape)


def _element(contraction: Contraction, number: int) -> ir.Type:
    return ir.RankedTensorType(contraction.root.inputs[number].type).element_type


def _grid(kernel: Kernel, plan: Plan) -> list[Index]:
    sizes = loop_sizes(kernel, plan.contraction)
    batches = index.product([axis_size(a, sizes) for a in plan.batches])
    rows = index.product([axis_size(a, sizes) for a in plan.rows])
    columns = sizes[plan.contraction.column_loop]
    blocks = plan.blocks
    return [
        index.ceildiv(columns, blocks.columns),
        index.ceildiv(rows, blocks.rows),
        index.ceildiv(batches, blocks.batches),
    ]


def loop_sizes(kernel: Kernel, contraction: Contraction) -> dict[int, Index]:
    """The extent of each root loop as an ``Index`` at the current insertion point."""
    root = contraction.root
    sizes: dict[int, Index] = {n: e for n, e in enumerate(root.loop_extents) if e != DYNAMIC}
    for operand, map_ in zip((*root.inputs, *root.inits), root.maps, strict=True):
        for axis, expr in enumerate(map_.results):
            if isinstance(expr, ir.AffineDimExpr) and expr.position not in sizes:
                sizes[expr.position] = kernel.extents(operand)[axis]
    return sizes


def axis_size(axis: Axis, sizes: dict[int, Index]) -> Index:
    """The number of iterations of an axis."""
    return index.product([sizes[n] for n in axis.loops])


# --- emitting ---------------------------------------------------------------------------------------------------------


class _Emitter:
    """Emits one kernel's body. Positions on a group of axes are flat."""

    def __init__(self, kernel: Kernel, plan: Plan):
        c = plan.contraction
        self.kernel = kernel
        self.plan = plan
        self.c = c
        self.lanes = plan.tile.lanes
        self.sizes = loop_sizes(kernel, c)
        self.left = self._bind(c.left)
        self.right = self._bind(c.right)
        self.writer = Writer(kernel, plan.epilogue)
        self.evaluator = Evaluator(kernel)
        self.accumulator = c.product.accumulator_type
        self.vector = ir.VectorType.get([self.lanes], self.accumulator) if self.lanes > 1 else self.accumulator
        self.row_sizes = [axis_size(a, self.sizes) for a in plan.rows]
        self.panel: ir.Value | None = None
        self.tile_scratch: ir.Value | None = None

    def _bind(self, number: int) -> Bound:
        which = self.c.left_access if number == self.c.left else self.c.right_access
        port = access.argument_of(self.kernel.dispatch, which.value)
        assert port is not None
        return access.bind(self.kernel, which, self.kernel.argument(port.binding))

    def emit(self) -> None:
        plan, kernel = self.plan, self.kernel
        self.writer.fill_borders()
        batch_sizes = [axis_size(a, self.sizes) for a in plan.batches]
        columns = self._span(0, plan.blocks.columns, self.sizes[self.c.column_loop])
        rows = self._span(1, plan.blocks.rows, index.product(self.row_sizes))
        first, last = self._span(2, plan.blocks.batches, index.product(batch_sizes))
        if plan.pack:
            shape = [guess(plan.reductions) * plan.tile.columns]
            self.panel = kernel.local(shape, _element(self.c, self.c.right))
        if isinstance(first, int) and last == first + 1:
            self._batch(self._coordinates(plan.batches, index.delinearize(first, batch_sizes)), rows, columns)
            return
        with kernel.loop(first, last) as loop:
            self._batch(self._coordinates(plan.batches, index.delinearize(loop.iv, batch_sizes)), rows, columns)

    def _span(self, axis: int, block: int, total: Index) -> tuple[Index, Index]:
        """The part of ``total`` that this workgroup owns on a grid axis."""
        if isinstance(total, int) and total <= block:
            return 0, total
        start = index.mul(self.kernel.workgroup(axis), block)
        end = index.add(start, block)
        return start, end if isinstance(total, int) and total % block == 0 else index.minimum(end, total)

    @staticmethod
    def _coordinates(axes: Sequence[Axis], positions: Sequence[Index]) -> dict[int, Index]:
        return {a.inner: p for a, p in zip(axes, positions, strict=True)}

    def _batch(self, batch: dict[int, Index], rows: tuple[Index, Index], columns: tuple[Index, Index]) -> None:
        if self.plan.blocks.rows_outer and not self.plan.pack:
            self._over_rows(
                rows,
                lambda m, count, valid: self._over_columns(
                    columns, lambda n, vectors, width: self._tile(batch, m, count, valid, n, vectors, width)
                ),
            )
            return

        def column_tile(n: Index, vectors: int, width: Index) -> None:
            if self.panel is not None:
                self._pack(batch, n, vectors, width)
            self._over_rows(rows, lambda m, count, valid: self._tile(batch, m, count, valid, n, vectors, width))

        self._over_columns(columns, column_tile)

    def _over_rows(self, span: tuple[Index, Index], body: Callable[[Index, int, Index], None]) -> None:
        """``body(first row, rows of the tile, valid rows)`` for each row tile; the last may be smaller, or partly
        valid.
        """
        start, end = span
        rows = self.plan.tile.rows
        total = index.product(self.row_sizes)
        if isinstance(total, int):
            tail = total % rows
            whole = index.sub(total, tail)
            main_end = whole if end == total else index.minimum(end, whole)
            self._each(start, main_end, rows, lambda m: body(m, rows, rows))
            if tail:
                self._each(main_end, end, rows, lambda m: body(m, tail, tail))
            return
        main_end = index.add(start, index.mul(index.floordiv(index.sub(end, start), rows), rows))
        self._each(start, main_end, rows, lambda m: body(m, rows, rows))
        if rows > 1:
            self._each(main_end, end, rows, lambda m: body(m, rows, index.sub(end, m)))

    def _over_columns(self, span: tuple[Index, Index], body: Callable[[Index, int, Index], None]) -> None:
        """``body(first column, vectors of the tile, valid columns)`` for each column tile."""
        start, end = span
        width = self.plan.tile.columns
        total = self.sizes[self.c.column_loop]
        if isinstance(total, int):
            tail = total % width
            whole = total - tail
            main_end = whole if end == total else index.minimum(end, whole)
            self._each(start, main_end, width, lambda n: body(n, self.plan.tile.vectors, width))
            if tail:
                self._each(main_end, end, width, lambda n: body(n, math.ceil(tail / self.lanes), tail))
            return
        main_end = index.add(start, index.mul(index.floordiv(index.sub(end, start), width), width))
        self._each(start, main_end, width, lambda n: body(n, self.plan.tile.vectors, width))
        self._each(main_end, end, self.lanes, lambda n: body(n, 1, index.minimum(index.sub(end, n), self.lanes)))

    def _each(self, start: Index, end: Index, step: int, body: Callable[[Index], None]) -> None:
        if isinstance(start, int) and isinstance(end, int):
            if start >= end:
                return
            if start + step >= end:
                body(start)
                return
        with self.kernel.loop(start, end, step) as loop:
            body(loop.iv)

    # --- one tile -----------------------------------------------------------------------------------------------------

    def _tile(
        self, batch: dict[int, Index], m: Index, count: int, valid: Index, n: Index, vectors: int, width: Index
    ) -> None:
        tile = Tile(count, vectors, self.lanes)
        where = [self._coordinates(self.plan.rows, c) for c in self._row_positions(m, count, valid)]
        rows = [self.left.offset(batch | w) for w in where]
        columns = self._column_offsets(batch, n, vectors)
        masks = [self._mask(width, j) for j in range(vectors)]
        initial = [self._initial(self._at(batch, w, n, j), masks[j]) for w in where for j in range(vectors)]
        accumulators = microkernel.reduce_tile(
            self.kernel, tile, self._reduction_axes(vectors), self._operands(masks), rows, columns, initial
        )
        if self.plan.epilogue.cost * count * vectors > _INLINE_EPILOGUE and count > 1:
            self._store_in_loop(accumulators, batch, m, count, valid, n, vectors, masks)
            return
        for r, w in enumerate(where):
            if isinstance(valid, int):
                self._store_row(accumulators[r * vectors : (r + 1) * vectors], batch, w, n, masks)
                continue
            exists = arith.CmpIOp(arith.CmpIPredicate.slt, index.value(r), index.value(valid)).result
            with self.kernel.when(exists):
                self._store_row(accumulators[r * vectors : (r + 1) * vectors], batch, w, n, masks)

    def _row_positions(self, m: Index, count: int, valid: Index) -> list[list[Index]]:
        """The position on each row axis of each of the tile's rows. Rows that are not valid repeat the last one that
        is.
        """
        if not self.plan.rows:
            return [[]] * count
        if not isinstance(valid, int):
            last = index.sub(valid, 1)
            return [index.delinearize(index.add(m, index.minimum(r, last)), self.row_sizes) for r in range(count)]
        first = index.delinearize(m, self.row_sizes)
        inner = self.plan.rows[-1].extent
        if len(first) == 1 or (inner != DYNAMIC and inner % self.plan.tile.rows == 0):
            return [[*first[:-1], index.add(first[-1], r)] for r in range(count)]
        positions = [first]
        for _ in range(count - 1):
            positions.append(self._next_row(positions[-1]))
        return positions

    def _next_row(self, position: list[Index]) -> list[Index]:
        """The position after ``position``, carrying from each axis into the one outside it."""
        following: list[Index] = []
        carry: Index = 1
        for axis in range(len(position) - 1, 0, -1):
            moved = index.add(position[axis], carry)
            wraps = arith.CmpIOp(arith.CmpIPredicate.eq, index.value(moved), index.value(self.row_sizes[axis])).result
            following.append(arith.SelectOp(wraps, index.value(0), index.value(moved)).result)
            carry = arith.SelectOp(wraps, index.value(1), index.value(0)).result
        following.append(index.add(position[0], carry))
        return following[::-1]

    def _column_offsets(self, batch: dict[int, Index], n: Index, vectors: int) -> list[Index]:
        if self.panel is not None:
            return [j * self.lanes for j in range(vectors)]
        base = self.right.offset(batch)
        panel = self.c.right_access.panel
        if not panel:
            return [index.add(base, index.add(n, j * self.lanes)) for j in range(vectors)]
        width = self.plan.tile.columns
        start = index.mul(index.floordiv(n, panel), self.right.panel_stride)
        if width % panel and panel % width:  # a tile may begin anywhere in a panel
            return [self._packed_offset(base, index.add(n, j * self.lanes), panel) for j in range(vectors)]
        within = 0 if width % panel == 0 else index.mod(n, panel)
        offsets = []
        for j in range(vectors):
            panels, lane = divmod(j * self.lanes, panel)
            offset = index.add(base, index.add(start, index.mul(self.right.panel_stride, panels)))
            offsets.append(index.add(index.add(offset, within), lane))
        return offsets

    def _packed_offset(self, base: Index, n: Index, panel: int) -> Index:
        start = index.mul(index.floordiv(n, panel), self.right.panel_stride)
        return index.add(index.add(base, start), index.mod(n, panel))

    def _reduction_axes(self, vectors: int) -> list[microkernel.ReductionAxis]:
        sizes = [axis_size(a, self.sizes) for a in self.plan.reductions]
        axes = []
        for number, axis in enumerate(self.plan.reductions):
            right = self.right.strides[axis.inner]
            if self.panel is not None:
                right = index.mul(index.product(sizes[number + 1 :]), self.plan.tile.columns)
            axes.append(microkernel.ReductionAxis(sizes[number], self.left.strides[axis.inner], right))
        return axes

    def _operands(self, masks: Sequence[ir.Value | None]) -> microkernel.Operands:
        kernel, root, product = self.kernel, self.c.root, self.c.product
        left_element, right_element = _element(self.c, self.c.left), _element(self.c, self.c.right)
        flat = self.right.memref if self.panel is None else self.panel
        # Packed panels are padded, so only a right-hand side read in place has columns that must not be touched.
        guarded = self.panel is None and not self.c.right_access.panel

        def left(offset: Index) -> ir.Value:
            stored = memref.LoadOp(self.left.memref, [index.value(offset)]).result
            return factor(kernel, root, product.left, memory.from_storage(stored, left_element), self.lanes)

        def right(offset: Index, number: int) -> ir.Value:
            buffer = memory.Buffer.whole(flat, right_element)
            position: Coordinate = Lane(offset) if self.lanes > 1 else offset
            loaded = memory.load(buffer, [position], self.lanes, masks[number] if guarded else None)
            return factor(kernel, root, product.right, loaded, self.lanes)

        return microkernel.Operands(left, right)

    def _pack(self, batch: dict[int, Index], n: Index, vectors: int, width: Index) -> None:
        assert self.panel is not None
        base = self.right.offset(batch | {self.c.column_loop: n})
        axes = [(axis_size(a, self.sizes), self.right.strides[a.inner]) for a in self.plan.reductions]
        pack_panel(
            self.kernel,
            self.right.memref,
            base,
            self.right.strides[self.c.column_loop],
            axes,
            self.panel,
            columns=vectors * self.lanes,
            pitch=self.plan.tile.columns,
            valid=width,
        )

    def _mask(self, width: Index, number: int) -> ir.Value | None:
        """Which lanes of column vector ``number`` exist when ``width`` columns do; None for all."""
        if self.lanes == 1:
            return None
        type_ = ir.VectorType.get([self.lanes], ir.IntegerType.get_signless(1))
        if isinstance(width, int):
            present = min(self.lanes, width - number * self.lanes)
            if present == self.lanes:
                return None
            bits = [ir.IntegerAttr.get(type_.element_type, n < present) for n in range(self.lanes)]
            return arith.ConstantOp(type_, ir.DenseElementsAttr.get(bits, type=type_)).result
        return vector.CreateMaskOp(type_, [index.value(index.sub(width, number * self.lanes))]).result

    # --- in and out of the accumulators -------------------------------------------------------------------------------

    def _at(self, batch: dict[int, Index], row: dict[int, Index], n: Index, number: int) -> list[Coordinate]:
        """The root's loop coordinates of a vector of the tile."""
        at: list[Coordinate] = [0] * len(self.c.extents)
        for loop, position in (batch | row).items():
            at[loop] = position
        start = index.add(n, number * self.lanes)
        at[self.c.column_loop] = Lane(start) if self.lanes > 1 else start
        return at

    def _initial(self, at: list[Coordinate], mask: ir.Value | None) -> ir.Value:
        root = self.c.root
        where = epilogue.place(access.substitute_all(root.output_maps[0], access.loops(len(at))) or (), at, self.lanes)
        value = self.evaluator.fork(self.lanes, mask).at(root.inits[0], where)
        if self.c.product.widen is not None:
            value = _convert(self.c.product.widen, value, self.accumulator)
        return broadcast(value, self.lanes)

    def _store_row(
        self,
        accumulators: Sequence[ir.Value],
        batch: dict[int, Index],
        row: dict[int, Index],
        n: Index,
        masks: Sequence[ir.Value | None],
    ) -> None:
        root = self.c.root
        element = ir.RankedTensorType(root.results[0].type).element_type
        for j, value in enumerate(accumulators):
            if self.c.product.narrow is not None:
                value = _convert(self.c.product.narrow, value, element)
            evaluator = self.evaluator.fork(self.lanes, masks[j])
            evaluator.bind(root.results[0], value)
            self.writer.store(evaluator, self._at(batch, row, n, j))

    def _store_in_loop(
        self,
        accumulators: Sequence[ir.Value],
        batch: dict[int, Index],
        m: Index,
        count: int,
        valid: Index,
        n: Index,
        vectors: int,
        masks: Sequence[ir.Value | None],
    ) -> None:
        """Spill the tile to scratch and run the epilogue row by row, so that its code exists once."""
        kernel, tile = self.kernel, self.plan.tile
        if self.tile_scratch is None:
            self.tile_scratch = kernel.local([tile.rows * tile.columns], self.accumulator)
        buffer = memory.Buffer.whole(self.tile_scratch, self.accumulator)

        def spot(position: Index) -> list[Coordinate]:
            return [Lane(position) if self.lanes > 1 else position]

        for number, value in enumerate(accumulators):
            r, j = divmod(number, vectors)
            memory.store(buffer, spot(r * tile.columns + j * self.lanes), value, self.lanes)
        with kernel.loop(0, valid if not isinstance(valid, int) else count) as loop:
            row = self._coordinates(self.plan.rows, index.delinearize(index.add(m, loop.iv), self.row_sizes))
            start = index.mul(loop.iv, tile.columns)
            loaded = [memory.load(buffer, spot(index.add(start, j * self.lanes)), self.lanes) for j in range(vectors)]
            self._store_row(loaded, batch, row, n, masks)


def _convert(name: str, value: ir.Value, element: ir.Type) -> ir.Value:
    is_vector = isinstance(value.type, ir.VectorType)
    type_ = ir.VectorType.get(ir.VectorType(value.type).shape, element) if is_vector else element
    return ir.Operation.create(name, results=[type_], operands=[value]).results[0]


__all__ = ["STRATEGY", "Axis", "merge"]
