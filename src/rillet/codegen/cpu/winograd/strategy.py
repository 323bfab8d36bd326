"""Strategy: convolutions by windows of three, in tiles of two results along each image axis (Winograd, Arithmetic
Complexity of Computations, 1980; Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016).

A workgroup transforms the image's part under a block of tiles. Each element of the transforms gives a matrix of tiles
by channels, which is multiplied with the weights' matrix for that element. The products are transformed back. F(2x2,
3x3) takes 16 products where the definition takes 36. All transforms are sums and differences.

A tile's results depend on all elements of its part of the image and on all products. One that is not finite, in the
image or because a sum overflowed, makes results that are not finite. Blocks with such results are computed by
definition instead.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, vector

from rillet.codegen import index
from rillet.codegen.coordinates import Coordinate, Lane
from rillet.codegen.cpu.caches.prefetch import fetch_ahead
from rillet.codegen.cpu.contraction import microkernel
from rillet.codegen.cpu.contraction.strategy import Workgroup
from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.cpu.winograd.plan import WinogradPlan, choice, make_plan
from rillet.codegen.emit import memory
from rillet.codegen.emit.blocks import Span, Tile, column_masks, each_column_tile, each_row_tile, workgroup_span
from rillet.codegen.emit.extents import loop_sizes
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.memory import reshape_memref
from rillet.codegen.emit.values import constant
from rillet.codegen.index import Index
from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.dialects.flow import WINOGRAD_INPUTS, WINOGRAD_OUTPUTS

_LINE_ELEMENTS = 16  # of a cache line: keeps equal places of all matrices in different sets of a cache
_SUM_STEPS = 128  # sums have shorter parts: the transforms' differences have errors of their own
_Point = tuple[int, ...]


class WinogradStrategy:
    """See the module's docstring."""

    name = "winograd"
    vectorize_loops = False
    collapses = False

    def plan(self, function: KernelFunction, target: CpuTarget) -> WinogradPlan | None:
        """A plan for a convolution that has its weights' transforms."""
        return make_plan(function, target)

    def emit(self, plan: WinogradPlan, kernel: KernelBuilder) -> None:
        """Emit the kernel as planned."""
        kernel.choice = choice(plan, kernel.function.knobs, kernel.target)

        def grid() -> list[Index]:
            sizes = loop_sizes(kernel, plan.direct.contraction.root)
            total = index.product(_counts(plan, sizes))
            return [
                index.ceildiv(sizes[plan.direct.contraction.n], plan.columns),
                index.ceildiv(total, plan.block),
                plan.groups,
            ]

        kernel.grid(grid)
        with kernel.body():
            _Block(kernel, plan).emit()


def _counts(plan: WinogradPlan, sizes: Sequence[Index]) -> list[Index]:
    """The number of tiles along each of the loops over which they are counted."""
    return [*(sizes[n] for n in plan.others), *(index.ceildiv(sizes[n], WINOGRAD_OUTPUTS) for n in plan.lines)]


class _Block:
    """Emits the work of one workgroup."""

    def __init__(self, kernel: KernelBuilder, plan: WinogradPlan):
        self.kernel = kernel
        self.plan = plan
        self.c = plan.direct.contraction
        self.direct = Workgroup(kernel, plan.direct)
        self.sizes = self.direct.tiles.sizes
        self.counts = _counts(plan, self.sizes)
        self.group: Index = kernel.workgroup(2) if plan.groups > 1 else 0
        self.batch = dict.fromkeys(self.c.roles.batch, self.group)
        self.lanes = plan.register_tile.lanes
        self.type = self.direct.tiles.sum_type
        self.image_pitch = plan.block * plan.depth + _LINE_ELEMENTS
        self.product_pitch = plan.block * plan.columns + _LINE_ELEMENTS
        self.image = self._scratch(plan.points * self.image_pitch)
        self.products = self._scratch(plan.points * self.product_pitch)
        self.grid = list(itertools.product(range(WINOGRAD_INPUTS), repeat=len(plan.lines)))

    def _scratch(self, size: int) -> memory.Buffer:
        return memory.Buffer.whole(self.kernel.local([size], self.type), self.type)

    def emit(self) -> None:
        plan = self.plan
        self.direct.tiles.writer.fill_borders()
        columns = workgroup_span(self.kernel, 0, plan.columns, self.sizes[self.c.n])
        tiles = workgroup_span(self.kernel, 1, plan.block, index.product(self.counts))
        self._transform_image(tiles)
        self._multiply(tiles, columns)
        finite = self._transform_products(tiles, columns)
        with self.kernel.when(finite):
            self._store(tiles, columns)
        true = arith.ConstantOp(ir.IntegerType.get_signless(1), 1).result
        with self.kernel.when(arith.XOrIOp(finite, true).result):
            self._by_definition(tiles, columns)

    # --- tiles of the image ---------------------------------------------------------------------------------------

    def _place(self, tile: Index) -> tuple[dict[int, Index], list[Index]]:
        """The loop coordinates of a tile's first result, and separately its positions on the lines."""
        position = index.delinearize(tile, self.counts)
        count = len(self.plan.others)
        at = dict(zip(self.plan.others, position[:count], strict=True))
        return at, [index.mul(n, WINOGRAD_OUTPUTS) for n in position[count:]]

    def _transform_image(self, tiles: Span) -> None:
        plan, lanes = self.plan, self.lanes
        operand = self.direct.tiles.lhs.operand
        source = memory.Buffer.whole(operand.memref, self.type)
        with self.kernel.loop(*tiles) as loop:
            at, starts = self._place(loop.iv)
            along = [self._positions(n, start) for n, start in zip(plan.lines, starts, strict=True)]
            base = operand.offset(self.batch | at)
            offsets: dict[_Point, Index] = {}
            for point in self.grid:
                offset = base
                for line, positions, n in zip(plan.lines, along, point, strict=True):
                    offset = index.add(offset, index.mul(positions[n], operand.strides[line]))
                offsets[point] = offset
            target = index.mul(index.sub(loop.iv, tiles[0]), plan.depth)

            def transform(depth: Index, mask: ir.Value | None) -> None:
                values = {
                    p: memory.load(source, self._at(index.add(o, depth)), lanes, mask) for p, o in offsets.items()
                }
                for number, value in enumerate(self._along_lines(values, _of_image).values()):
                    spot = index.add(index.add(target, depth), number * self.image_pitch)
                    memory.store(self.image, self._at(spot), value, lanes, mask)

            whole = plan.depth // lanes * lanes
            if whole:
                with self.kernel.loop(0, whole, lanes) as vectors:
                    transform(vectors.iv, None)
            if whole < plan.depth:
                transform(whole, column_masks(lanes, plan.depth - whole, 1)[0])

    def _positions(self, line: int, start: Index) -> list[Index]:
        """The positions that a tile reads along an image axis. Positions beyond the end are read at the end; they only
        enter results that do not exist."""
        size = self.sizes[line]
        positions = [index.add(start, n) for n in range(WINOGRAD_INPUTS)]
        if isinstance(size, int) and size % WINOGRAD_OUTPUTS == 0:
            return positions
        return [*positions[:-1], index.minimum(positions[-1], index.add(size, WINOGRAD_OUTPUTS - 1))]

    def _along_lines(
        self, values: dict[_Point, ir.Value], transform: Callable[[Sequence[ir.Value]], list[ir.Value]]
    ) -> dict[_Point, ir.Value]:
        """Transform a tile along one image axis after the other."""
        for axis in range(len(self.plan.lines)):
            rows: dict[_Point, list[ir.Value]] = {}
            for point, value in values.items():
                rows.setdefault((*point[:axis], *point[axis + 1 :]), []).append(value)
            values = {
                (*rest[:axis], n, *rest[axis:]): value
                for rest, row in rows.items()
                for n, value in enumerate(transform(row))
            }
        return dict(sorted(values.items()))

    # --- products -------------------------------------------------------------------------------------------------

    def _multiply(self, tiles: Span, columns: Span) -> None:
        plan, kernel = self.plan, self.kernel
        weights = reshape_memref(kernel.buffer(plan.transforms).memref, [math.prod(plan.transforms.type.shape)])
        rhs = memory.Buffer.whole(weights, self.type)
        run = self.lanes if kernel.target.machine.fma_by_element else 0
        operands = microkernel.Operands(
            lhs=lambda offset, _: memory.load(self.image, [offset]),
            rhs=lambda offset, _: memory.load(rhs, self._at(offset), self.lanes),
            run=run,
            lhs_run=(lambda offset, _: self._neighbours(offset)) if run else None,
            sum_steps=_SUM_STEPS,
        )
        size = plan.depth * plan.panel
        own = index.mul(self.group, plan.panels * size)
        axes = [microkernel.ReductionAxis(plan.depth, 1, plan.panel)]
        nothing, total = self._nothing(), index.product(self.counts)

        def matrix(number: Index) -> None:
            image, products = (index.mul(number, pitch) for pitch in (self.image_pitch, self.product_pitch))
            first = index.add(own, index.mul(number, plan.groups * plan.panels * size))

            def column_tile(n: Index, vectors: int, _: Index) -> None:
                starts = [self._weights_at(first, index.add(n, j * self.lanes)) for j in range(vectors)]
                ahead = self._ahead(weights, first, n, columns)

                def row_tile(m: Index, count: int) -> None:
                    spots = [index.add(index.sub(m, tiles[0]), r) for r in range(count)]
                    rows = [index.add(image, index.mul(spot, plan.depth)) for spot in spots]
                    sums = [nothing] * (count * vectors)
                    tile = Tile(count, vectors, self.lanes)
                    factors = dataclasses.replace(operands, ahead=ahead and ahead(spots[0]))
                    sums = microkernel.reduce_tile(kernel, tile, axes, factors, rows, starts, sums)
                    for (spot, j), value in zip(itertools.product(spots, range(vectors)), sums, strict=True):
                        column = index.add(index.sub(n, columns[0]), j * self.lanes)
                        place = index.add(index.add(products, index.mul(spot, plan.columns)), column)
                        memory.store(self.products, self._at(place), value, self.lanes)

                each_row_tile(kernel, tiles, total, plan.register_tile.rows, row_tile)

            each_column_tile(kernel, columns, self.sizes[self.c.n], plan.register_tile, column_tile)

        with kernel.loop(0, plan.points) as loop:
            matrix(loop.iv)

    def _ahead(
        self, weights: ir.Value, first: Index, n: Index, columns: Span
    ) -> Callable[[Index], Callable[[Index, int], None]] | None:
        """For a tile of the block, a function that fetches a part of the next panels while its row of register tiles
        uses those of column ``n``. The first panels of the next matrix follow the last columns."""
        plan, parts = self.plan, self.plan.prefetch_parts
        if not parts:
            return None
        size = plan.depth * plan.panel
        matrix = plan.groups * plan.panels * size
        following = index.add(n, plan.register_tile.columns)
        ends = arith.CmpIOp(arith.CmpIPredicate.sge, index.value(following), index.value(columns[1])).result
        here, there = self._weights_at(first, following), self._weights_at(index.add(first, matrix), columns[0])
        start = arith.SelectOp(ends, index.value(there), index.value(here)).result
        panels = [index.add(start, p * size) for p in range(max(1, plan.register_tile.columns // plan.panel))]
        return lambda spot: fetch_ahead(
            weights, panels, size, index.floordiv(spot, plan.register_tile.rows), parts, plan.panel
        )

    def _neighbours(self, offset: Index) -> list[ir.Value]:
        loaded = memory.load(self.image, self._at(offset), self.lanes)
        return [vector.ExtractOp(loaded, [], [n]).result for n in range(self.lanes)]

    def _weights_at(self, first: Index, n: Index) -> Index:
        panel, depth = self.plan.panel, self.plan.depth
        start = index.mul(index.floordiv(n, panel), depth * panel)
        return index.add(index.add(first, start), index.mod(n, panel))

    # --- results --------------------------------------------------------------------------------------------------

    def _transform_products(self, tiles: Span, columns: Span) -> ir.Value:
        """Transforms sums of products to results in place of the first ones; returns whether all of them are finite."""
        lanes = self.lanes
        zero = self._nothing()
        width = index.sub(columns[1], columns[0])
        with self.kernel.loop(*tiles, 1, [zero]) as loop:
            row = index.mul(index.sub(loop.iv, tiles[0]), self.plan.columns)
            with self.kernel.loop(0, width, lanes, loop.carried) as vectors:
                spots = [index.add(index.add(row, vectors.iv), n * self.product_pitch) for n in range(self.plan.points)]
                loaded = [memory.load(self.products, self._at(spot), lanes) for spot in spots]
                results = self._along_lines(dict(zip(self.grid, loaded, strict=True)), _of_products)
                (nothing,) = vectors.carried
                for spot, value in zip(spots, results.values(), strict=False):
                    memory.store(self.products, self._at(spot), value, lanes)
                    nothing = microkernel.multiply_add(self.kernel, zero, value, nothing)  # NaN unless it is finite
                vectors.yield_(nothing)
            loop.yield_(*vectors.results)
        (nothing,) = loop.results
        if lanes > 1:
            nothing = vector.ReductionOp(self.type, vector.CombiningKind.ADD, nothing).result
        return arith.CmpFOp(arith.CmpFPredicate.OEQ, nothing, constant(0.0, self.type)).result

    def _store(self, tiles: Span, columns: Span) -> None:
        """Apply the epilogue to the results in scratch and store them."""
        emitter, total = self.direct.tiles, self.sizes[self.c.n]

        def body(number: Index, spot: Index, at: dict[int, Index]) -> None:
            row = index.add(index.mul(number, self.product_pitch), index.mul(spot, self.plan.columns))

            def column_tile(n: Index, vectors: int, width: Index) -> None:
                masks = column_masks(self.lanes, width, vectors)
                sums = []
                for j in range(vectors):
                    place = index.add(row, index.add(index.sub(n, columns[0]), j * self.lanes))
                    value = memory.load(self.products, self._at(place), self.lanes)
                    initial = emitter.initial(emitter.at(self.batch, at, n, j), masks[j])
                    sums.append(arith.AddFOp(initial, value).result)
                emitter.store_row(sums, self.batch, at, n, masks)

            each_column_tile(self.kernel, columns, total, Tile(1, 1, self.lanes), column_tile)

        self._each_result(tiles, body)

    def _by_definition(self, tiles: Span, columns: Span) -> None:
        def body(number: Index, spot: Index, at: dict[int, Index]) -> None:
            loops = self.c.roles.m
            row = index.linearize([at[n] for n in loops], [self.sizes[n] for n in loops])
            self.direct.block(self.batch, (row, index.add(row, 1)), columns)

        self._each_result(tiles, body)

    def _each_result(self, tiles: Span, body: Callable[[Index, Index, dict[int, Index]], None]) -> None:
        """``body(number in the tile, tile of the block, loop coordinates)`` for each result of each tile."""
        with self.kernel.loop(*tiles) as loop:
            others, starts = self._place(loop.iv)
            spot = index.sub(loop.iv, tiles[0])
            self._along(list(zip(self.plan.lines, starts, strict=True)), 0, others, lambda n, at: body(n, spot, at))

    def _along(
        self,
        lines: list[tuple[int, Index]],
        number: Index,
        at: dict[int, Index],
        body: Callable[[Index, dict[int, Index]], None],
    ) -> None:
        if not lines:
            body(number, at)
            return
        (line, start), *rest = lines
        size = self.sizes[line]
        exact = isinstance(size, int) and size % WINOGRAD_OUTPUTS == 0
        count = WINOGRAD_OUTPUTS if exact else index.minimum(WINOGRAD_OUTPUTS, index.sub(size, start))
        with self.kernel.loop(0, count) as loop:
            further = index.add(index.mul(number, WINOGRAD_OUTPUTS), loop.iv)
            self._along(rest, further, at | {line: index.add(start, loop.iv)}, body)

    def _nothing(self) -> ir.Value:
        return constant(0.0, ir.VectorType.get([self.lanes], self.type) if self.lanes > 1 else self.type)

    def _at(self, offset: Index) -> list[Coordinate]:
        return [Lane(offset) if self.lanes > 1 else offset]


def _of_image(d: Sequence[ir.Value]) -> list[ir.Value]:
    """``B^T d`` in Lavin and Gray's notation."""
    return [_sub(d[0], d[2]), _add(d[1], d[2]), _sub(d[2], d[1]), _sub(d[1], d[3])]


def _of_products(m: Sequence[ir.Value]) -> list[ir.Value]:
    """``A^T m``."""
    return [_add(_add(m[0], m[1]), m[2]), _sub(_sub(m[1], m[2]), m[3])]


def _add(a: ir.Value, b: ir.Value) -> ir.Value:
    return arith.AddFOp(a, b).result


def _sub(a: ir.Value, b: ir.Value) -> ir.Value:
    return arith.SubFOp(a, b).result
