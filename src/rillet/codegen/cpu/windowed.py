"""Strategy: reductions that leave the vectorized axis alone: depthwise convolutions, pooling, sums over leading axes.

Vectors run along the last axis of the result (the channels). A register tile holds the results at a few neighbouring
positions of the next axis (an image line) for a few vectors of channels. The window's inner loops are unrolled and
walked in the order of the input's addresses, so that an input vector is loaded once and used for every result it takes
part in.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rillet.codegen.cpu import access, blocks, contraction_form, epilogue, index, memory, tiles
from rillet.codegen.cpu.access import DYNAMIC, Access, argument_of
from rillet.codegen.cpu.blocks import Span, column_masks, workgroup_span
from rillet.codegen.cpu.body import broadcast, inline_body, is_vectorizable
from rillet.codegen.cpu.combiners import combiners_of, sum_in_parts
from rillet.codegen.cpu.contraction_form import Product
from rillet.codegen.cpu.coordinates import Coordinate, Lane
from rillet.codegen.cpu.dispatch import Dispatch, Generic
from rillet.codegen.cpu.epilogue import Epilogue, Writer
from rillet.codegen.cpu.evaluate import Evaluator, undefined
from rillet.codegen.cpu.index import Index
from rillet.codegen.cpu.kernel import Kernel, reshape_memref
from rillet.codegen.cpu.lanes import lanes_for
from rillet.codegen.cpu.memory import Buffer
from rillet.codegen.cpu.microkernel import multiply_add
from rillet.codegen.cpu.padding import Padded
from rillet.codegen.cpu.tiles import Tile, WindowBlocks
from rillet.codegen.knobs import Choice, Knobs
from rillet.targets import Target

# Strides along the vectorized axis beyond this make every lane a cache line of its own.
_MAX_LANE_STRIDE = 4


@dataclass(frozen=True)
class _Plan:
    root: Generic
    epilogue: Epilogue
    product: tuple[list[ir.Value], Product] | None  # factors by operand number, when the body is a sum of products
    accesses: tuple[Access | None, ...]  # None for an operand that is not read from memory: ignored, or a splat
    column_loop: int
    row_loop: int | None
    outer_loops: tuple[int, ...]
    tile: Tile
    unrolled: tuple[int, ...]  # reduction loops, outermost first, that are unrolled; the others stay loops
    blocks: WindowBlocks


class WindowedStrategy:
    """See the module's docstring."""

    name = "windowed"

    def matches(self, dispatch: Dispatch, target: Target) -> bool:
        """True for one reduction of arguments along loops that move no operand along its vectorized axis only."""
        return _plan(dispatch, target) is not None

    def emit(self, dispatch: Dispatch, kernel: Kernel, target: Target) -> None:
        """Emit the kernel."""
        plan = _plan(dispatch, target)
        assert plan is not None

        def grid() -> list[Index]:
            sizes = _sizes(kernel, plan.root)
            outer = index.product([sizes[n] for n in plan.outer_loops])
            return [
                index.ceildiv(sizes[plan.column_loop], plan.blocks.columns),
                index.ceildiv(outer, plan.blocks.outer),
            ]

        kernel.choice = _choice(plan)
        kernel.grid(grid)
        with kernel.body():
            _Emitter(kernel, plan).emit()


STRATEGY = WindowedStrategy()


def _plan(dispatch: Dispatch, target: Target) -> _Plan | None:
    if len(dispatch.reductions) != 1:
        return None
    root = dispatch.reductions[0]
    axes = [e.position for e in root.output_maps[0].results if isinstance(e, ir.AffineDimExpr)]
    same = all(m == root.output_maps[0] for m in root.output_maps)
    if not axes or not same or sorted(axes) != list(root.parallel_loops) or not is_vectorizable(root):
        return None
    product = contraction_form.product_of(root) if len(root.inputs) == 2 and len(root.inits) == 1 else None
    if product is None and combiners_of(root) is None:
        return None  # the window is walked in the order of addresses, which such a body may tell
    after = epilogue.plan(dispatch, root)
    if after is None:
        return None
    accesses = _accesses(dispatch, root, axes[-1])
    if accesses is None:
        return None
    extents = root.loop_extents
    *outer, column = axes
    row = outer.pop() if outer and extents[outer[-1]] != 1 else None
    window = [tiles.DYNAMIC_EXTENT if extents[n] == DYNAMIC else extents[n] for n in root.reduction_loops]
    guess = [tiles.DYNAMIC_EXTENT if e == DYNAMIC else e for e in extents]
    lanes = lanes_for(dispatch, target)
    rows = guess[row] if row is not None else 1
    knobs = dispatch.knobs
    chosen = tiles.choose_window_tile(target, rows, guess[column], math.prod(window), lanes)
    tile = Tile(knobs.tile_rows or chosen.rows, knobs.tile_vectors or chosen.vectors, lanes)
    unrolled = _unrolled(root, tile)
    split = tiles.choose_window_blocks(
        target,
        tile,
        outer=math.prod(guess[n] for n in outer),
        rows=rows,
        columns=guess[column],
        window=math.prod(window),
    ).overruled(tile, knobs)
    return _Plan(root, after, product, accesses, column, row, tuple(outer), tile, unrolled, split)


def _choice(plan: _Plan) -> Choice:
    extents = [tiles.DYNAMIC_EXTENT if e == DYNAMIC else e for e in plan.root.loop_extents]
    problem = {
        "outer": math.prod(extents[n] for n in plan.outer_loops),
        "rows": 1 if plan.row_loop is None else extents[plan.row_loop],
        "columns": extents[plan.column_loop],
        "window": math.prod(extents[n] for n in plan.root.reduction_loops),
        "lanes": plan.tile.lanes,
    }
    knobs = Knobs(
        tile_rows=plan.tile.rows,
        tile_vectors=plan.tile.vectors,
        row_tiles=plan.blocks.outer,
        column_tiles=plan.blocks.columns // plan.tile.columns,
    )
    return Choice(problem, knobs)


def _accesses(dispatch: Dispatch, root: Generic, column: int) -> tuple[Access | None, ...] | None:
    """How each input is read; None when one is no linear access of an argument that moves little along the columns."""
    found: list[Access | None] = []
    moves = False
    for number, (value, map_) in enumerate(zip(root.inputs, root.input_maps, strict=True)):
        if not list(root.body.arguments[number].uses) or _is_splat(value):
            found.append(None)
            continue
        linear = access.padded_access_of(dispatch, value, map_, len(root.iterators))
        if linear is None or linear.panel or argument_of(dispatch, linear.value) is None or linear.checks(column):
            return None
        stride = linear.static_stride(column)
        if stride is None or abs(stride) > _MAX_LANE_STRIDE:
            return None
        moves |= stride != 0
        found.append(linear)
    extract = any(op.operation.name == "tensor.extract" for op in root.body.operations)
    return tuple(found) if moves and not extract else None


def _is_splat(value: ir.Value) -> bool:
    """Every element is the same constant."""
    return not isinstance(value.owner, ir.Block) and value.owner.operation.name == "arith.constant"


def _unrolled(root: Generic, tile: Tile) -> tuple[int, ...]:
    """The innermost reduction loops that are small enough to unroll together."""
    chosen: list[int] = []
    steps = 1
    for loop in reversed(root.reduction_loops):
        extent = root.loop_extents[loop]
        steps *= extent
        if extent == DYNAMIC or steps * tile.rows * tile.vectors > tiles.UNROLLED_OPERATIONS:
            break
        chosen.append(loop)
    return tuple(reversed(chosen))


def _sizes(kernel: Kernel, root: Generic) -> dict[int, Index]:
    sizes: dict[int, Index] = {n: e for n, e in enumerate(root.loop_extents) if e != DYNAMIC}
    for operand, map_ in zip((*root.inputs, *root.inits), root.maps, strict=True):
        for axis, expr in enumerate(map_.results):
            if isinstance(expr, ir.AffineDimExpr) and expr.position not in sizes:
                sizes[expr.position] = kernel.extents(operand)[axis]
    return sizes


@dataclass(frozen=True)
class Base:
    """A tensor element: its flat offset, and its coordinates."""

    offset: Index
    coordinates: tuple[Index, ...]


class _Input:
    """One operand as flat memory. What is constant within a tile is kept apart, per tensor axis, so that equal
    addresses are recognized.
    """

    def __init__(self, kernel: Kernel, which: Access, column: int, lanes: int):
        port = argument_of(kernel.dispatch, which.value)
        assert port is not None
        extents = kernel.extents(which.value)
        self.forms = which.axes
        self.strides: list[Index] = [index.product(extents[n + 1 :]) for n in range(len(extents))]
        flat = reshape_memref(kernel.argument(port.binding), [index.product(extents)])
        self.buffer = Buffer.whole(flat, port.type.element_type)
        step = which.static_stride(column)
        assert step is not None
        self.step = step
        self.lanes = lanes
        self.padded = None if which.padding is None else Padded(kernel, which, flat, lanes * max(step, 1))

    def at(self, position: dict[int, Index]) -> Base:
        """The element at these loop coordinates."""
        total: Index = 0
        coordinates: list[Index] = []
        for form, stride in zip(self.forms, self.strides, strict=True):
            coordinate: Index = form.constant
            for loop, value in position.items():
                if form.coefficients[loop]:
                    coordinate = index.add(coordinate, index.mul(value, form.coefficients[loop]))
            coordinates.append(coordinate)
            total = index.add(total, index.mul(coordinate, stride))
        return Base(total, tuple(coordinates))

    def shift(self, steps: dict[int, int]) -> tuple[int, ...]:
        """How far each axis moves when loops move by these steps."""
        return tuple(sum(form.coefficients[loop] * n for loop, n in steps.items()) for form in self.forms)

    def load(self, base: Base, shift: tuple[int, ...], mask: ir.Value | None) -> ir.Value:
        """The element, or vector along the columns, ``shift`` away from ``base``."""
        offset = base.offset
        for n, stride in zip(shift, self.strides, strict=True):
            offset = index.add(offset, index.mul(stride, n))
        buffer = self.buffer
        if self.padded is not None:
            moved = {n: index.add(base.coordinates[n], shift[n]) for n in self.padded.axes}
            flat, offset = self.padded.choose(moved, offset)
            buffer = Buffer.whole(flat, buffer.element)
        where: Coordinate = Lane(offset, self.step) if self.step and self.lanes > 1 else offset
        return memory.load(buffer, [where], self.lanes, mask)


class _Emitter:
    def __init__(self, kernel: Kernel, plan: _Plan):
        self.kernel = kernel
        self.plan = plan
        self.root = plan.root
        self.lanes = plan.tile.lanes
        self.sizes = _sizes(kernel, plan.root)
        self.inputs = [None if a is None else _Input(kernel, a, plan.column_loop, self.lanes) for a in plan.accesses]
        self.writer = Writer(kernel, plan.epilogue)
        self.evaluator = Evaluator(kernel)

    def emit(self) -> None:
        plan = self.plan
        self.writer.fill_borders()
        outer_sizes = [self.sizes[n] for n in plan.outer_loops]
        columns = workgroup_span(self.kernel, 0, plan.blocks.columns, self.sizes[plan.column_loop])
        outer = workgroup_span(self.kernel, 1, plan.blocks.outer, index.product(outer_sizes))

        def one(position: Index) -> None:
            at = dict(zip(plan.outer_loops, index.delinearize(position, outer_sizes), strict=True))
            self._over_rows(
                lambda m, rows: self._over_columns(
                    columns, lambda n, vectors, width: self._tile(at, m, rows, n, vectors, width)
                )
            )

        blocks.each(self.kernel, outer, 1, one)

    def _over_rows(self, body: Callable[[Index, int], None]) -> None:
        if self.plan.row_loop is None:
            body(0, 1)
            return
        total, rows = self.sizes[self.plan.row_loop], self.plan.tile.rows
        if isinstance(total, int):
            blocks.each_row_tile(self.kernel, (0, total), total, rows, lambda m, count, _: body(m, count))
            return
        whole = index.mul(index.floordiv(total, rows), rows)
        blocks.each(self.kernel, (0, whole), rows, lambda m: body(m, rows))
        if rows > 1:
            blocks.each(self.kernel, (whole, total), 1, lambda m: body(m, 1))

    def _over_columns(self, span: Span, body: Callable[[Index, int, Index], None]) -> None:
        blocks.each_column_tile(self.kernel, span, self.sizes[self.plan.column_loop], self.plan.tile, body)

    # --- one tile -----------------------------------------------------------------------------------------------------

    def _tile(self, outer: dict[int, Index], m: Index, rows: int, n: Index, vectors: int, width: Index) -> None:
        plan = self.plan
        here = outer | {plan.column_loop: n} | ({} if plan.row_loop is None else {plan.row_loop: m})
        masks = column_masks(self.lanes, width, vectors)
        spots = [(r, j) for r in range(rows) for j in range(vectors)]
        at = {spot: self._coordinates(here, *spot) for spot in spots}
        sums = [value for spot in spots for value in self._initial(at[spot], masks[spot[1]])]
        loops = [x for x in self.root.reduction_loops if x not in plan.unrolled]
        sums = self._reduce(loops, here, {}, spots, at, masks, sums)
        count = len(self.root.results)
        for number, spot in enumerate(spots):
            evaluator = self.evaluator.fork(self.lanes, masks[spot[1]])
            for result, value in zip(self.root.results, sums[number * count : (number + 1) * count], strict=True):
                evaluator.bind(result, self._finished(value))
            self.writer.store(evaluator, at[spot])

    def _coordinates(self, here: dict[int, Index], row: int, number: int) -> list[Coordinate]:
        """The root's loop coordinates of a vector of the tile, reduction loops at 0."""
        plan = self.plan
        at: list[Coordinate] = [here.get(n, 0) for n in range(len(self.root.iterators))]
        if plan.row_loop is not None:
            at[plan.row_loop] = index.add(here[plan.row_loop], row)
        start = index.add(here[plan.column_loop], number * self.lanes)
        at[plan.column_loop] = Lane(start) if self.lanes > 1 else start
        return at

    def _initial(self, at: list[Coordinate], mask: ir.Value | None) -> list[ir.Value]:
        values = []
        for init, map_ in zip(self.root.inits, self.root.output_maps, strict=True):
            forms = access.substitute_all(map_, access.loops(len(at)))
            assert forms is not None
            value = self.evaluator.fork(self.lanes, mask).at(init, epilogue.place(forms, at, self.lanes))
            product = self.plan.product
            if product is not None and product[1].widen is not None:
                value = contraction_form.convert(product[1].widen, value, product[1].accumulator_type)
            values.append(broadcast(value, self.lanes))
        return values

    def _finished(self, value: ir.Value) -> ir.Value:
        product = self.plan.product
        if product is None or product[1].narrow is None:
            return value
        element = ir.RankedTensorType(self.root.results[0].type).element_type
        return contraction_form.convert(product[1].narrow, value, element)

    def _reduce(
        self,
        loops: Sequence[int],
        here: dict[int, Index],
        inside: dict[int, Index],
        spots: Sequence[tuple[int, int]],
        at: dict[tuple[int, int], list[Coordinate]],
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
        spots: Sequence[tuple[int, int]],
        at: dict[tuple[int, int], list[Coordinate]],
        masks: Sequence[ir.Value | None],
        sums: list[ir.Value],
    ) -> list[ir.Value]:
        """The unrolled part: every (window position, row, vector), in the order of the first input's addresses."""
        plan = self.plan
        bases = [None if i is None else i.at(position) for i in self.inputs]
        lead = next(i for i in self.inputs if i is not None)
        window = itertools.product(*(range(self.root.loop_extents[n]) for n in plan.unrolled))
        steps = []
        for k in window:
            for number, (r, j) in enumerate(spots):
                moved = dict(zip(plan.unrolled, k, strict=True)) | {plan.column_loop: j * self.lanes}
                if plan.row_loop is not None:
                    moved[plan.row_loop] = r
                steps.append((j, lead.shift(moved), k, number, moved))
        steps.sort(key=lambda s: (s[2][:-1], s[1], s[2], s[0], s[3]))
        loaded: dict[tuple[int, tuple[int, ...], ir.Value | None], ir.Value] = {}
        count = len(self.root.results)
        for j, _, k, number, moved in steps:
            operands = []
            for which, (source, base) in enumerate(zip(self.inputs, bases, strict=True)):
                if source is None or base is None:
                    operands.append(self._not_loaded(which))
                    continue
                key = (which, source.shift(moved), masks[j])
                if key not in loaded:
                    loaded[key] = source.load(base, key[1], masks[j])
                operands.append(loaded[key])
            where = list(at[spots[number]])
            for loop, step in zip(plan.unrolled, k, strict=True):
                where[loop] = step
            for loop, value in inside.items():
                where[loop] = value
            chosen = slice(number * count, (number + 1) * count)
            sums[chosen] = self._combine(operands, sums[chosen], where)
        return sums

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
            broadcast(contraction_form.factor(self.kernel, self.root, f, o, self.lanes), self.lanes)
            for f, o in zip(self.plan.product[0], operands, strict=True)
        ]
        return [multiply_add(self.kernel, factors[0], factors[1], sums[0])]
