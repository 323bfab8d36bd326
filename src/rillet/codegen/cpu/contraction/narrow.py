"""Contractions with so few columns that vectors would be mostly empty. Lanes go along the reduction instead, whose
innermost loop is contiguous in both operands.

A register tile holds rows x columns of vectors of partial sums, one for each lane. At its end the lanes of each vector
are added up, several rows together, which gives vectors along the rows. A block's sums wait in scratch for the
epilogue, which takes one vector of rows at a time.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import vector

from rillet.codegen import index
from rillet.codegen.coordinates import Coordinate, Lane
from rillet.codegen.cpu import cost_model
from rillet.codegen.cpu.contraction import microkernel
from rillet.codegen.cpu.contraction.axes import Axes, Axis, axis_size, element, guess, merge
from rillet.codegen.cpu.contraction.lhs import Batch, LhsRows, coordinates
from rillet.codegen.cpu.contraction.plan import ContractionPlan, LhsSupply
from rillet.codegen.cpu.cost_model import Blocks
from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.emit import epilogue, memory
from rillet.codegen.emit.accumulators import Combiner, sum_of
from rillet.codegen.emit.addresses import bind_argument
from rillet.codegen.emit.blocks import Span, Tile, column_masks, each, each_column_tile, each_row_tile, workgroup_span
from rillet.codegen.emit.elements import Evaluator
from rillet.codegen.emit.epilogue import Writer
from rillet.codegen.emit.extents import loop_sizes
from rillet.codegen.emit.factors import convert, factor
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.values import broadcast
from rillet.codegen.index import Index
from rillet.codegen.recognize.contraction import LinearContraction
from rillet.codegen.recognize.epilogue import Epilogue
from rillet.ir.linear import identity, substitute_all
from rillet.ir.structured import DYNAMIC

_MOST_ROWS = 8  # of a register tile: the sums that two units with a latency of four cycles need
_MOST_SUMS = 2048  # of a block, in scratch: a quarter of L1
_FEWEST_ROWS = 256  # of a block
_SUM_CYCLES = 1.5  # to add up the lanes of one sum


@dataclass(frozen=True)
class NarrowPlan:
    """A contraction whose lanes go along the reduction: a register tile has a vector for each of its columns."""

    tiling: ContractionPlan


def narrow_plan(plan: ContractionPlan, target: CpuTarget) -> NarrowPlan | None:
    """The plan for lanes along the reduction; None where it is no better. Loops of rows that are neighbours in the
    results become one row axis; the other loops of rows join the batches."""
    c = plan.contraction
    columns, steps = c.extents[c.n], _inner_steps(plan)
    types = [element(c, c.roles.lhs), element(c, c.roles.rhs), c.product.accumulator_type]
    if not all(isinstance(t, ir.FloatType) for t in types) or c.companions or c.lhs.padding is not None:
        return None
    lanes = target.machine.lanes(max(ir.FloatType(t).width for t in types))
    if not steps or not 0 < columns < lanes or 2 * steps < lanes:
        return None
    inner = _last_rows(c, plan.epilogue)
    outer = c.roles.m[: len(c.roles.m) - len(inner)]
    split = c.over(batch=(*c.roles.batch, *outer), m=inner)
    batches = tuple(Axis((loop,), c.extents[loop]) for loop in split.roles.batch)
    kept = [axis for axis in plan.axes.m if set(axis.loops) <= set(inner)]
    m = guess(kept)
    tile = Tile(_tile_rows(target, columns, m), columns, lanes)
    flat = merge(inner, c.extents, lambda a, b: c.lhs.merges(a, b, c.extents[b]))
    tiling = dataclasses.replace(
        plan,
        contraction=split,
        axes=Axes(batch=batches, m=tuple(kept), k=plan.axes.k, lhs_is_flat=len(flat) == 1),
        tile=tile,
        blocks=_blocks(target, tile, guess(batches), m, _vector_steps(plan, lanes)),
        reduction_block=0,
        lhs=LhsSupply(),
        rhs=dataclasses.replace(plan.rhs, pack=False, prefetch=False),
        residuals=(),
        in_parts=DYNAMIC in [c.extents[n] for n in inner],
        fewer=(),
        together=0,
        direct=None,
    )
    return NarrowPlan(tiling)


def _inner_steps(plan: ContractionPlan) -> int:
    """The steps of the innermost reduction axis, if both operands have them contiguous and the extent is known; else
    0."""
    c = plan.contraction
    if not plan.axes.k or c.rhs.panel:
        return 0
    inner = plan.axes.k[-1]
    is_run = all(a.static_stride(inner.inner) == 1 for a in (c.lhs, c.rhs))
    return inner.extent if is_run and inner.extent != DYNAMIC else 0


def _last_rows(c: LinearContraction, after: Epilogue) -> tuple[int, ...]:
    """The innermost loops of rows, as far as the epilogue sees them as one."""
    groups = merge(c.roles.m, c.extents, lambda a, b: after.merges(a, b, c.extents[b]))
    return groups[-1].loops if groups else ()


def _vector_steps(plan: ContractionPlan, lanes: int) -> int:
    *outer, inner = plan.axes.k
    return guess(outer) * math.ceil(inner.extent / lanes)


def _tile_rows(target: CpuTarget, columns: int, m: int) -> int:
    """Rows of a register tile, a power of two: rhs vectors stay in registers, lhs vectors are used as they are
    loaded."""
    rows = _MOST_ROWS
    product = 1 if target.machine.fma else 2
    while rows > 1 and (rows * columns + columns + product > target.machine.tile_registers or rows >= 2 * m):
        rows //= 2
    return rows


def _blocks(target: CpuTarget, tile: Tile, batches: int, m: int, steps: int) -> Blocks:
    """Blocks with whole vectors of rows."""
    cycles = m * tile.vectors * (steps / target.machine.fma_ports + _SUM_CYCLES)
    wanted = cost_model.workgroups(target, batches * cycles)
    batch_blocks = min(batches, wanted)
    rows = max(_FEWEST_ROWS, math.ceil(m * batch_blocks / wanted))
    unit = max(tile.lanes, tile.rows)
    rows = math.ceil(min(rows, _MOST_SUMS // tile.vectors, m) / unit) * unit
    return Blocks(math.ceil(batches / batch_blocks), rows, tile.vectors, True)


class NarrowWorkgroup:
    """Emits the work of one workgroup of a `narrow_plan`. Create it at the start of the kernel's body."""

    def __init__(self, kernel: KernelBuilder, plan: ContractionPlan):
        c = plan.contraction
        self.kernel = kernel
        self.plan = plan
        self.c = c
        self.lanes = plan.tile.lanes
        self.columns = plan.tile.vectors
        self.sizes = loop_sizes(kernel, c.root)
        self.rhs = bind_argument(kernel, c.rhs)
        self.lhs = LhsRows(kernel, plan, bind_argument(kernel, c.lhs), self.sizes)
        self.writer = Writer(kernel, plan.epilogue)
        self.evaluator = Evaluator(kernel)
        self.sum_type = c.product.accumulator_type
        self.sum = sum_of(self.sum_type)
        self.pitch = plan.blocks.rows + plan.tile.rows
        self.scratch = memory.Buffer.whole(kernel.local([self.columns * self.pitch], self.sum_type), self.sum_type)

    def emit(self) -> None:
        """Emits the workgroup: its batches, the row tiles of each, then the epilogue on the sums."""
        plan, kernel = self.plan, self.kernel
        self.writer.fill_borders()
        batch_sizes = [axis_size(a, self.sizes) for a in plan.axes.batch]
        total = index.product(self.lhs.row_sizes)
        rows = workgroup_span(kernel, 1, plan.blocks.rows, total)
        batches = workgroup_span(kernel, 2, plan.blocks.batches, index.product(batch_sizes))

        def batch(position: Index) -> None:
            at = coordinates(plan.axes.batch, index.delinearize(position, batch_sizes))
            each_row_tile(kernel, rows, total, plan.tile.rows, lambda m, count: self._tile(at, rows, m, count))
            vectors = Tile(1, 1, self.lanes if self.c.roles.m else 1)
            each_column_tile(kernel, rows, total, vectors, lambda m, _, width: self._store(at, rows, m, width))

        each(kernel, batches, 1, batch)

    def _tile(self, batch: Batch, rows: Span, m: Index, count: int) -> None:
        """Put the sums of ``count`` rows from ``m`` on in scratch."""
        where = self.lhs.rows_at(m, count)
        lhs = self.lhs.starts(batch, where, m)
        stride = self.rhs.strides[self.c.n]
        base = self.rhs.offset(batch)
        rhs = [index.add(base, index.mul(n, stride)) for n in range(self.columns)]
        type_ = ir.VectorType.get([self.lanes], self.sum_type)
        sums = [self.sum.identity_of(type_)] * (count * self.columns)
        *outer, inner = self._axes()
        assert isinstance(inner.extent, int)
        tile = Tile(count, self.columns, self.lanes)
        whole, rest = divmod(inner.extent, self.lanes)
        if whole:
            axes = [*outer, microkernel.ReductionAxis(whole, self.lanes, self.lanes)]
            sums = microkernel.reduce_tile(self.kernel, tile, axes, self._operands(None), lhs, rhs, sums)
        if rest:
            last = whole * self.lanes
            lhs, rhs = ([index.add(start, last) for start in starts] for starts in (lhs, rhs))
            (mask,) = column_masks(self.lanes, rest, 1)
            axes = [*outer, microkernel.ReductionAxis(1, 0, 0)]
            sums = microkernel.reduce_tile(self.kernel, tile, axes, self._operands(mask), lhs, rhs, sums)
        for n in range(self.columns):
            self._keep(index.add(index.sub(m, rows[0]), n * self.pitch), sums[n :: self.columns])

    def _axes(self) -> list[microkernel.ReductionAxis]:
        strides = [(self.lhs.operand.strides[a.inner], self.rhs.strides[a.inner]) for a in self.plan.axes.k]
        sizes = self.lhs.reduction_sizes
        return [microkernel.ReductionAxis(size, *both) for size, both in zip(sizes, strides, strict=True)]

    def _operands(self, mask: ir.Value | None) -> microkernel.Operands:
        def reader(flat: ir.Value, number: int, value: ir.Value):  # type: ignore[no-untyped-def]
            buffer = memory.Buffer.whole(flat, element(self.c, number))

            def read(offset: Index, _: int) -> ir.Value:
                loaded = memory.load(buffer, [Lane(offset)], self.lanes, mask)
                return factor(self.kernel, self.c.root, value, loaded, self.lanes)

            return read

        product = self.c.product
        lhs = reader(self.lhs.operand.memref, self.c.roles.lhs, product.lhs.value)
        return microkernel.Operands(lhs, reader(self.rhs.memref, self.c.roles.rhs, product.rhs.value))

    def _keep(self, spot: Index, rows: Sequence[ir.Value]) -> None:
        for first in range(0, len(rows), self.lanes):
            part = list(rows[first : first + self.lanes])
            part += [part[-1]] * ((1 << (len(part) - 1).bit_length()) - len(part))
            value = across_rows(part, self.sum)
            memory.store(self.scratch, [Lane(index.add(spot, first))], value, len(part))

    def _store(self, batch: Batch, rows: Span, m: Index, width: Index) -> None:
        """Apply the epilogue to a vector of rows from ``m`` on and store the results; ``width`` of the rows exist."""
        root = self.c.root
        lanes = self.lanes if self.c.roles.m else 1
        (mask,) = column_masks(lanes, width, 1)
        forms = substitute_all(root.init_maps[0], identity(len(self.c.extents)))
        assert forms is not None
        for n in range(self.columns):
            at: list[Coordinate] = [0] * len(self.c.extents)
            for loop, position in batch.items():
                at[loop] = position
            for loop in self.c.roles.m[-1:]:
                at[loop] = Lane(m)
            at[self.c.n] = n
            initial = self.evaluator.fork(lanes, mask).at(root.inits[0], epilogue.place(forms, at, lanes))
            if self.c.product.widen is not None:
                initial = convert(self.c.product.widen, initial, self.sum_type)
            spot = index.add(index.sub(m, rows[0]), n * self.pitch)
            value = memory.load(self.scratch, [Lane(spot) if lanes > 1 else spot], lanes)
            value = self.sum.apply(broadcast(initial, lanes), value)
            if self.c.product.narrow is not None:
                result = ir.RankedTensorType(root.results[0].type).element_type
                value = convert(self.c.product.narrow, value, result)
            evaluator = self.evaluator.fork(lanes, mask)
            evaluator.bind(root.results[0], value)
            self.writer.store(evaluator, at)


def across_rows(rows: list[ir.Value], combiner: Combiner) -> ir.Value:
    """A vector with the lanes of each of ``rows`` combined. ``rows`` is a power of two of vectors, at most one for each
    lane.

    Two vectors become one at a time: the halves of each row's elements are combined, and the rows put side by side.
    """
    width = ir.VectorType(rows[0].type).shape[0]
    segments = 1  # rows whose elements each vector holds
    while len(rows) > 1:
        half, size = len(rows) // 2, width // segments
        low = [
            source + segment * size + n
            for segment in range(segments)
            for source in (0, width)
            for n in range(size // 2)
        ]
        high = [n + size // 2 for n in low]
        rows = [
            combiner.apply(vector.shuffle(a, b, low), vector.shuffle(a, b, high))
            for a, b in zip(rows[:half], rows[half:], strict=True)
        ]
        segments *= 2
    (value,) = rows
    while width > segments:
        size = width // segments
        low = [segment * size + n for segment in range(segments) for n in range(size // 2)]
        high = [n + size // 2 for n in low]
        value = combiner.apply(vector.shuffle(value, value, low), vector.shuffle(value, value, high))
        width //= 2
    return value
