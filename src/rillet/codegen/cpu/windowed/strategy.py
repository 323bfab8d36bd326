"""Strategy: reductions that leave the vectorized axis alone: depthwise convolutions, pooling, sums over leading axes.

Vectors run along the last axis of the result (the channels). A register tile holds the results at a few neighbouring
positions of the next axis (an image line), on one line or a few, for a few vectors of channels. The window's inner
loops are unrolled and walked in the order of the input's addresses, so that an input vector is loaded once and used for
every result it takes part in.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.codegen import index
from rillet.codegen.coordinates import Coordinate, Lane
from rillet.codegen.cpu.contraction.microkernel import multiply_add
from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.cpu.windowed import pairs as window_pairs
from rillet.codegen.cpu.windowed.inputs import Input, Loaded
from rillet.codegen.cpu.windowed.padding import Base, Range, borders
from rillet.codegen.cpu.windowed.plan import WindowedPlan, choice, make_plan
from rillet.codegen.emit import blocks, epilogue, memory
from rillet.codegen.emit.accumulators import sum_in_parts
from rillet.codegen.emit.blocks import Span, column_masks, workgroup_span
from rillet.codegen.emit.body import inline_body
from rillet.codegen.emit.element_ops import undefined
from rillet.codegen.emit.elements import Evaluator
from rillet.codegen.emit.epilogue import Writer
from rillet.codegen.emit.extents import loop_sizes
from rillet.codegen.emit.factors import convert, factor
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.memory import Buffer
from rillet.codegen.emit.values import broadcast
from rillet.codegen.index import Index
from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.ir.linear import identity, substitute_all

Spot = tuple[int, int, int]  # line, row and vector within a tile
RowTile = Callable[[Index, int, Range | None], None]


class WindowedStrategy:
    """See the module's docstring."""

    name = "windowed"
    vectorize_loops = False
    collapses = False

    def plan(self, function: KernelFunction, target: CpuTarget) -> WindowedPlan | None:
        """A plan for one reduction of arguments whose loops move no operand along its vectorized axis."""
        return make_plan(function, target)

    def emit(self, plan: WindowedPlan, kernel: KernelBuilder) -> None:
        """Emit the kernel as planned."""

        def grid() -> list[Index]:
            sizes = loop_sizes(kernel, plan.root)
            return [
                index.ceildiv(sizes[plan.column_loop], plan.blocks.columns),
                index.ceildiv(index.product(_positions(plan, sizes)), plan.blocks.outer),
            ]

        kernel.choice = choice(plan)
        kernel.grid(grid)
        with kernel.body():
            _Emitter(kernel, plan).emit()


def _positions(plan: WindowedPlan, sizes: Sequence[Index]) -> list[Index]:
    """Extents of the space that workgroups divide: the outer loops, then tiles of lines."""
    lines = 1 if plan.line_loop is None else index.ceildiv(sizes[plan.line_loop], plan.tile.lines)
    return [*(sizes[n] for n in plan.outer_loops), lines]


class _Emitter:
    """Emits the tiles that one workgroup owns."""

    def __init__(self, kernel: KernelBuilder, plan: WindowedPlan):
        self.kernel = kernel
        self.plan = plan
        self.root = plan.root
        self.lanes = plan.tile.lanes
        self.sizes = loop_sizes(kernel, plan.root)
        self.inputs = [None if a is None else Input(kernel, plan, a) for a in plan.accesses]
        self.writer = Writer(kernel, plan.epilogue)
        self.evaluator = Evaluator(kernel)
        self.ranges: dict[int, Range] = {}  # the known ranges of the tile's coordinates
        self.scratch = self._scratch() if plan.epilogue.is_long(plan.tile.accumulators) else []

    def _scratch(self) -> list[Buffer]:
        """Memory for a tile's sums, one buffer for each result of the root."""
        product = self.plan.product
        elements = [ir.RankedTensorType(result.type).element_type for result in self.root.results]
        elements = elements if product is None else [product.accumulator_type]
        size = self.plan.tile.accumulators * self.lanes
        return [Buffer.whole(self.kernel.local([size], element), element) for element in elements]

    def emit(self) -> None:
        plan = self.plan
        self.writer.fill_borders()
        positions = _positions(plan, self.sizes)
        columns = workgroup_span(self.kernel, 0, plan.blocks.columns, self.sizes[plan.column_loop])
        outer = workgroup_span(self.kernel, 1, plan.blocks.outer, index.product(positions))

        def one(position: Index) -> None:
            *outside, number = index.delinearize(position, positions)
            at = dict(zip(plan.outer_loops, outside, strict=True))
            self._at_lines(number, lambda at_lines, lines: lines_tile(at | at_lines, lines))

        def lines_tile(at: dict[int, Index], lines: int) -> None:
            def row_tile(m: Index, rows: int, known: Range | None) -> None:
                self.ranges = {} if plan.row_loop is None or known is None else {plan.row_loop: known}
                self._over_columns(columns, lambda n, vectors, width: self._tile(at, lines, m, rows, n, vectors, width))

            self._over_rows(row_tile)

        blocks.each(self.kernel, outer, 1, one)

    def _at_lines(self, number: Index, body: Callable[[dict[int, Index], int], None]) -> None:
        """Calls ``body(where the lines start, how many)`` for the given tile of lines. The last tile may have fewer;
        where only run time tells how many, they come one by one."""
        loop, lines = self.plan.line_loop, self.plan.tile.lines
        if loop is None:
            body({}, 1)
            return
        total, first = self.sizes[loop], index.mul(number, lines)
        if lines == 1:
            body({loop: first}, 1)
            return
        if not isinstance(total, int):
            end = index.add(first, lines)
            fits = arith.CmpIOp(arith.CmpIPredicate.ule, index.value(end), index.value(total)).result
            with self.kernel.when(fits):
                body({loop: first}, lines)
            single = arith.SelectOp(fits, index.value(end), index.value(first)).result
            blocks.each(self.kernel, (single, index.minimum(end, total)), 1, lambda line: body({loop: line}, 1))
            return
        whole, tail = divmod(total, lines)
        if tail == 0:
            body({loop: first}, lines)
            return
        if isinstance(number, int):
            body({loop: first}, lines if number < whole else tail)
            return
        for predicate, count in ((arith.CmpIPredicate.ult, lines), (arith.CmpIPredicate.eq, tail)):
            with self.kernel.when(arith.CmpIOp(predicate, number, index.value(whole)).result):
                body({loop: first}, count)

    def _over_rows(self, body: RowTile) -> None:
        """Calls ``body(first row, how many, range of the first row)`` for each tile of a line. Tiles whose windows
        reach into padding come apart, so that the other ones check nothing."""
        if self.plan.row_loop is None:
            body(0, 1, None)
            return
        total, rows = self.sizes[self.plan.row_loop], self.plan.tile.rows
        if isinstance(total, int):
            whole = total - total % rows
            for part in itertools.pairwise(borders(self.plan)):
                self._each_row_tile(part, rows, body)
            if whole < total:
                body(whole, total - whole, None)
            return
        blocks.each_row_part(self.kernel, (0, total), rows, lambda m, count: body(m, count, None))

    def _each_row_tile(self, part: Range, rows: int, body: RowTile) -> None:
        known = part[0], part[1] - rows
        blocks.each(self.kernel, part, rows, lambda m: body(m, rows, known))

    def _over_columns(self, span: Span, body: Callable[[Index, int, Index], None]) -> None:
        blocks.each_column_tile(self.kernel, span, self.sizes[self.plan.column_loop], self.plan.tile, body)

    # --- one tile -----------------------------------------------------------------------------------------------------

    def _tile(
        self, outer: dict[int, Index], lines: int, m: Index, rows: int, n: Index, vectors: int, width: Index
    ) -> None:
        plan = self.plan
        here = outer | {plan.column_loop: n} | ({} if plan.row_loop is None else {plan.row_loop: m})
        masks = column_masks(self.lanes, width, vectors)
        spots = [(i, r, j) for i in range(lines) for r in range(rows) for j in range(vectors)]
        at = {spot: self._coordinates(here, *spot) for spot in spots}
        sums = [value for spot in spots for value in self._initial(at[spot], masks[spot[2]])]
        loops = [x for x in self.root.reduction_loops if x not in plan.unrolled]
        sums = self._reduce(loops, here, {}, spots, at, masks, sums)
        if self.scratch and not loops:
            self._store_in_loops(here, lines, rows, masks, sums)
            return
        count = len(self.root.results)
        for number, spot in enumerate(spots):
            self._store(here, spot, masks, sums[number * count : (number + 1) * count])

    def _store(
        self,
        here: dict[int, Index],
        spot: tuple[Index, Index, int],
        masks: Sequence[ir.Value | None],
        values: Sequence[ir.Value],
    ) -> None:
        """Apply the epilogue to the results at one spot and store them."""
        evaluator = self.evaluator.fork(self.lanes, masks[spot[2]])
        for result, value in zip(self.root.results, values, strict=True):
            evaluator.bind(result, self._finished(value))
        self.writer.store(evaluator, self._coordinates(here, *spot))

    def _store_in_loops(
        self, here: dict[int, Index], lines: int, rows: int, masks: Sequence[ir.Value | None], sums: list[ir.Value]
    ) -> None:
        """Runs ``_store`` for all spots by way of scratch. The sums of a window without loops would otherwise be
        computed spot by spot, each before its epilogue: a chain as long as the window."""
        vectors, count = len(masks), len(self.scratch)
        for number, value in enumerate(sums):
            where = self._in_scratch(number // count)
            memory.store(self.scratch[number % count], where, value, self.lanes)
        for j in range(vectors):
            with self.kernel.loop(0, lines * rows) as loop:
                i, r = index.delinearize(loop.iv, [lines, rows])
                where = self._in_scratch(index.add(index.mul(loop.iv, vectors), j))
                values = [memory.load(buffer, where, self.lanes) for buffer in self.scratch]
                self._store(here, (i, r, j), masks, values)

    def _in_scratch(self, number: Index) -> list[Coordinate]:
        offset = index.mul(number, self.lanes)
        return [Lane(offset) if self.lanes > 1 else offset]

    def _coordinates(self, here: dict[int, Index], line: Index, row: Index, number: int) -> list[Coordinate]:
        """The root's loop coordinates of a vector of the tile, reduction loops at 0."""
        plan = self.plan
        at: list[Coordinate] = [here.get(n, 0) for n in range(self.root.loops)]
        if plan.line_loop is not None:
            at[plan.line_loop] = index.add(here[plan.line_loop], line)
        if plan.row_loop is not None:
            at[plan.row_loop] = index.add(here[plan.row_loop], row)
        start = index.add(here[plan.column_loop], number * self.lanes)
        at[plan.column_loop] = Lane(start) if self.lanes > 1 else start
        return at

    def _initial(self, at: list[Coordinate], mask: ir.Value | None) -> list[ir.Value]:
        values = []
        for init, map_ in zip(self.root.inits, self.root.init_maps, strict=True):
            forms = substitute_all(map_, identity(len(at)))
            assert forms is not None
            value = self.evaluator.fork(self.lanes, mask).at(init, epilogue.place(forms, at, self.lanes))
            product = self.plan.product
            if product is not None and product.widen is not None:
                value = convert(product.widen, value, product.accumulator_type)
            values.append(broadcast(value, self.lanes))
        return values

    def _finished(self, value: ir.Value) -> ir.Value:
        product = self.plan.product
        if product is None or product.narrow is None:
            return value
        element = ir.RankedTensorType(self.root.results[0].type).element_type
        return convert(product.narrow, value, element)

    def _reduce(
        self,
        loops: Sequence[int],
        here: dict[int, Index],
        inside: dict[int, Index],
        spots: Sequence[Spot],
        at: dict[Spot, list[Coordinate]],
        masks: Sequence[ir.Value | None],
        sums: list[ir.Value],
    ) -> list[ir.Value]:
        """Run the reduction loops that are not unrolled, then the unrolled part."""
        if not loops:
            return self._steps(here | inside, inside, spots, at, masks, list(sums))

        def span(start: Index, end: Index, carried: list[ir.Value]) -> list[ir.Value]:
            with self.kernel.loop(start, end, 1, carried) as loop:
                further = inside | {loops[0]: loop.iv}
                loop.yield_(*self._reduce(loops[1:], here, further, spots, at, masks, loop.carried))
            return loop.results

        return sum_in_parts(self.kernel, self.root, self.sizes[loops[0]], sums, span)

    def _steps(
        self,
        position: dict[int, Index],
        inside: dict[int, Index],
        spots: Sequence[Spot],
        at: dict[Spot, list[Coordinate]],
        masks: Sequence[ir.Value | None],
        sums: list[ir.Value],
    ) -> list[ir.Value]:
        """The unrolled part: every (window position, row, vector), in the order of the first input's addresses."""
        plan = self.plan
        bases = [None if i is None else i.at(position, self.ranges) for i in self.inputs]
        lead = next(i for i in self.inputs if i is not None)
        across = window_pairs.loop_across(plan.accesses, plan.unrolled, plan.row_loop) if plan.pairs else None
        window = window_pairs.groups([self.root.extents[n] for n in plan.unrolled], across)
        steps = []
        for group in window:
            for number, spot in enumerate(spots):
                moved = [self._step(position, spot) for position in group]
                steps.append((spot[2], lead.shift(moved[0]), group, number, moved))
        steps.sort(key=lambda s: (s[1], s[2], s[0], s[3]))
        loaded = Loaded()
        count = len(self.root.results)
        for j, _, group, number, moved in steps:
            if self._is_skipped(bases, moved):
                continue
            chosen = slice(number * count, (number + 1) * count)
            operands = [
                [self._operand(which, base, steps_, masks[j], loaded) for which, base in enumerate(bases)]
                for steps_ in moved
            ]
            if len(group) > 1:
                sums[chosen] = [self._multiply_pairs(moved, operands, sums[number], loaded)]
                continue
            where = list(at[spots[number]])
            for loop, step in zip(plan.unrolled, group[0], strict=True):
                where[loop] = step
            for loop, value in inside.items():
                where[loop] = value
            sums[chosen] = self._combine(operands[0], sums[chosen], where)
        return sums

    def _is_skipped(self, bases: Sequence[Base | None], moved: Sequence[dict[int, int]]) -> bool:
        """Whether these positions of the window add nothing."""
        return any(
            source is not None
            and base is not None
            and source.padded is not None
            and all(source.padded.is_skipped(base, source.shift(steps)) for steps in moved)
            for source, base in zip(self.inputs, bases, strict=True)
        )

    def _step(self, position: window_pairs.Position, spot: Spot) -> dict[int, int]:
        """The distance that the loops move to a position of the window, at one spot of the tile."""
        plan = self.plan
        i, r, j = spot
        moved = dict(zip(plan.unrolled, position, strict=True)) | {plan.column_loop: j * self.lanes}
        if plan.line_loop is not None:
            moved[plan.line_loop] = i
        if plan.row_loop is not None:
            moved[plan.row_loop] = r
        return moved

    def _operand(
        self, which: int, base: Base | None, moved: dict[int, int], mask: ir.Value | None, loaded: Loaded
    ) -> ir.Value:
        source = self.inputs[which]
        if source is None or base is None:
            return self._not_loaded(which)
        return source.load(base, source.shift(moved), mask, loaded)

    def _multiply_pairs(
        self, moved: Sequence[dict[int, int]], operands: Sequence[Sequence[ir.Value]], total: ir.Value, loaded: Loaded
    ) -> ir.Value:
        """``total`` plus the products of two positions of the window; each pair is made once."""
        pairs = []
        for which, narrow in enumerate(self.plan.pairs):
            source = self.inputs[which]
            first, second = (elements[which] for elements in operands)
            key = (source, tuple(n for steps in moved for n in source.shift(steps)) if source else (), None)
            if key not in loaded.values:
                loaded.values[key] = window_pairs.pair(first, second, narrow)
            pairs.append(loaded.values[key])
        return window_pairs.multiply_add(pairs[0], pairs[1], total)

    def _not_loaded(self, number: int) -> ir.Value:
        """An operand that is not read from memory."""
        argument, value = self.root.body.arguments[number], self.root.inputs[number]
        if not list(argument.uses):
            return undefined(argument.type)
        element = self.evaluator.fork(self.lanes, None).at(value, [0] * ir.RankedTensorType(value.type).rank)
        return broadcast(element, self.lanes)

    def _combine(self, operands: list[ir.Value], sums: list[ir.Value], at: list[Coordinate]) -> list[ir.Value]:
        if self.plan.product is None:
            results = inline_body(self.root, [*operands, *sums], self.kernel, coordinates=at, lanes=self.lanes)
            return [broadcast(r, self.lanes) for r in results]
        factors = [
            broadcast(factor(self.kernel, self.root, f.value, o, self.lanes), self.lanes)
            for f, o in zip(self.plan.product.factors, operands, strict=True)
        ]
        return [multiply_add(self.kernel, factors[0], factors[1], sums[0])]
