"""The reduction of a contraction whose packed rhs holds groups of steps: see ``dot_products``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, vector

from rillet.codegen import index
from rillet.codegen.coordinates import Coordinate, Lane
from rillet.codegen.cpu.contraction.axes import element
from rillet.codegen.cpu.contraction.lhs import LhsRows
from rillet.codegen.cpu.contraction.microkernel import ReductionAxis
from rillet.codegen.cpu.contraction.plan import ContractionPlan
from rillet.codegen.cpu.dot_products import DotProducts
from rillet.codegen.emit import memory
from rillet.codegen.emit.addresses import Bound
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.values import constant
from rillet.codegen.index import Index

ReadLhs = Callable[[Index, int], list[list[ir.Value]]]  # (offset in a row, number of groups) -> operands by group


class GroupReducer:
    """Reduces tiles of one kernel. Create it at the start of the kernel's body."""

    def __init__(self, kernel: KernelBuilder, plan: ContractionPlan, products: DotProducts, lhs: LhsRows, rhs: Bound):
        c = plan.contraction
        self.kernel = kernel
        self.plan = plan
        self.products = products
        self.lhs = lhs
        self.lanes = plan.tile.lanes
        self.together = c.rhs.together
        self.sum_type = c.product.accumulator_type
        panel = lhs.panel or memory.Buffer.whole(lhs.operand.memref, element(c, c.roles.lhs))
        self.weights = memory.Buffer.whole(rhs.memref, element(c, c.roles.rhs))
        self.read: ReadLhs = lambda offset, count: products.lhs(panel, offset, count)
        self.axes = self._axes(rhs)
        self.shifts: memory.Buffer | None = None  # the addend for each sum of a block's columns, in scratch
        if plan.shift:
            self.shifts = memory.Buffer.whole(kernel.local([plan.blocks.columns], self.sum_type), self.sum_type)

    def _axes(self, rhs: Bound) -> list[ReductionAxis]:
        """The reduction, group by group; in copied lhs rows the groups are contiguous."""
        steps, panel = self.products.steps, self.plan.contraction.rhs.panel
        if self.lhs.panel is not None:
            return [ReductionAxis(self.plan.grouped_steps // steps, steps, steps * panel)]
        *outer, inner = self.plan.axes.k
        strides = self.lhs.operand.strides
        axes = [ReductionAxis(a.extent, strides[a.inner], rhs.strides[a.inner]) for a in outer]
        return [*axes, ReductionAxis(inner.extent // steps, steps, steps * panel)]

    def reduce(self, rows: Sequence[Index], columns: Sequence[Index], sums: Sequence[ir.Value]) -> list[ir.Value]:
        """The sums (row by row) plus the whole reduction. ``rows`` and ``columns``: the offset of each row and of each
        vector of columns."""
        return self._reduce(self.read, self.axes, rows, columns, sums)

    def begin_columns(self, n: Index, origin: Index, columns: Sequence[Index]) -> None:
        """Put in scratch the term that each sum lacks because lhs factors are shifted: the sum of the column's factors
        times the shift. The vectors of columns begin at ``n``, in a block that begins at column ``origin``."""
        assert self.shifts is not None
        ones = self.products.ones()
        type_ = ir.VectorType.get([self.lanes], self.sum_type)
        nothing = [constant(0, type_)] * len(columns)
        sums = self._reduce(lambda _, count: [[ones]] * count, self.axes, [0], columns, nothing)
        for j, value in enumerate(sums):
            shifted = arith.MulIOp(value, constant(self.products.shift, type_)).result
            memory.store(self.shifts, self._shift_at(n, origin, j), shifted, self.lanes)

    def shifted(self, sums: list[ir.Value], n: Index, origin: Index, vectors: int) -> list[ir.Value]:
        """A tile's initial sums (row by row) plus the addends from ``begin_columns``."""
        if self.shifts is None:
            return sums
        shifts = [memory.load(self.shifts, self._shift_at(n, origin, j), self.lanes) for j in range(vectors)]
        return [arith.AddIOp(value, shifts[k % vectors]).result for k, value in enumerate(sums)]

    def _shift_at(self, n: Index, origin: Index, number: int) -> list[Coordinate]:
        return [Lane(index.add(index.sub(n, origin), number * self.lanes))]

    def _reduce(
        self,
        read: ReadLhs,
        axes: Sequence[ReductionAxis],
        rows: Sequence[Index],
        columns: Sequence[Index],
        sums: Sequence[ir.Value],
    ) -> list[ir.Value]:
        """Reduces with one register for each sum of a vector, where the target keeps sums apart."""
        if not self.products.sums_apart:
            return self._nest(read, axes, rows, columns, list(sums))
        lanes = range(self.lanes)
        single = [index.add(column, lane * self.together) for column in columns for lane in lanes]
        type_ = ir.VectorType.get([self.lanes], self.sum_type)
        if self.products.sum_lanes > 1:
            parts = constant(0, ir.VectorType.get([self.products.sum_lanes], self.sum_type))
            done = self._nest(read, axes, rows, single, [parts] * len(sums) * self.lanes)
            totals = [_totals(done[n : n + self.lanes]) for n in range(0, len(done), self.lanes)]
            return [arith.AddIOp(value, total).result for value, total in zip(sums, totals, strict=True)]
        apart = [vector.ExtractOp(value, [], [lane]).result for value in sums for lane in lanes]
        done = self._nest(read, axes, rows, single, apart)
        return [vector.FromElementsOp(type_, done[n : n + self.lanes]).result for n in range(0, len(done), self.lanes)]

    def _nest(
        self,
        read: ReadLhs,
        axes: Sequence[ReductionAxis],
        rows: Sequence[Index],
        columns: Sequence[Index],
        sums: list[ir.Value],
    ) -> list[ir.Value]:
        """Emits a loop for each axis; the innermost does a few groups at a time, then the remaining ones."""
        axis, *inner = axes
        assert isinstance(axis.extent, int)
        unroll = 1 if inner else self.products.unroll
        whole = axis.extent - axis.extent % unroll

        def step(position: Index, count: int, sums: list[ir.Value]) -> list[ir.Value]:
            rows_here = [index.add(row, index.mul(position, axis.lhs_stride)) for row in rows]
            columns_here = [index.add(column, index.mul(position, axis.rhs_stride)) for column in columns]
            if inner:
                return self._nest(read, inner, rows_here, columns_here, sums)
            return self._steps(read, axis, count, rows_here, columns_here, sums)

        if whole == unroll:
            sums = step(0, unroll, sums)
        elif whole:
            with self.kernel.loop(0, whole, unroll, sums) as loop:
                loop.yield_(*step(loop.iv, unroll, loop.carried))
            sums = loop.results
        return step(whole, axis.extent - whole, sums) if whole < axis.extent else sums

    def _steps(
        self,
        read: ReadLhs,
        axis: ReductionAxis,
        count: int,
        rows: Sequence[Index],
        columns: Sequence[Index],
        sums: list[ir.Value],
    ) -> list[ir.Value]:
        """Does ``count`` groups; a row's groups are read ``run`` at a time."""
        run = self.products.run
        sums = list(sums)
        ready: list[list[list[ir.Value]]] = [[] for _ in rows]
        for n in range(count):
            reads = not ready[0]
            lhs, rhs = index.mul(n, axis.lhs_stride), index.mul(n, axis.rhs_stride)
            factors = [self.products.rhs(self.weights, index.add(column, rhs)) for column in columns]
            for r, row in enumerate(rows):
                if reads:
                    ready[r] = read(index.add(row, lhs), run if count - n >= run else 1)
                for part, factor in enumerate(ready[r].pop(0)):
                    for m, vector_ in enumerate(factors):
                        spot = r * len(columns) + m
                        sums[spot] = self.products.multiply_add(factor, vector_[part], sums[spot])
        return sums


def _totals(parts: list[ir.Value]) -> ir.Value:
    """Combines vectors, one for each of their lanes, into one vector of their sums: neighbours are added until one is
    left."""
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [_add_neighbours(first, second) for first, second in pairs]
    return parts[0]


def _add_neighbours(first: ir.Value, second: ir.Value) -> ir.Value:
    """The sums of neighbouring lanes of one vector, then those of another."""
    (lanes,) = ir.VectorType(first.type).shape
    even, odd = (vector.ShuffleOp(first, second, list(range(n, 2 * lanes, 2))).result for n in (0, 1))
    return arith.AddIOp(even, odd).result
