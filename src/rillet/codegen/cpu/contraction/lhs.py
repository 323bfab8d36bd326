"""The lhs of a contraction: where its rows lie, its padding, and copies of a row tile in scratch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, memref

from rillet.codegen import index
from rillet.codegen.coordinates import Lane
from rillet.codegen.cpu.contraction.axes import Axis, axis_size, element
from rillet.codegen.cpu.contraction.packing import each_step
from rillet.codegen.cpu.contraction.plan import ContractionPlan, whole_groups
from rillet.codegen.cpu.dot_products import pairs as pair_products
from rillet.codegen.emit import memory
from rillet.codegen.emit.addresses import Bound
from rillet.codegen.emit.blocks import Segment
from rillet.codegen.emit.factors import factor, widen
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.padding import Condition, Padded, any_of
from rillet.codegen.emit.values import broadcast, constant
from rillet.codegen.index import Index
from rillet.ir.linear import Linear
from rillet.ir.structured import DYNAMIC

Batch = dict[int, Index]  # loop -> coordinate


class LhsRows:
    """Reads the rows of tiles: ``count`` rows from flat row position ``m``.

    ``panel``: where ``copy`` puts a row tile; None where rows are read in place.
    """

    def __init__(self, kernel: KernelBuilder, plan: ContractionPlan, lhs: Bound, sizes: Sequence[Index]):
        """``sizes``: the extent of each root loop. Create it at the start of the kernel's body."""
        self.kernel = kernel
        self.plan = plan
        self.c = plan.contraction
        self.operand = lhs
        self.lanes = plan.tile.lanes
        self.row_sizes = [axis_size(a, sizes) for a in plan.axes.m]
        self.reduction_sizes = [axis_size(a, sizes) for a in plan.axes.k]
        self.padded = self._padded()
        self.panel: memory.Buffer | None = None
        if plan.lhs.spread:
            self.panel = self._scratch(plan.steps * self.pitch, self.c.product.accumulator_type)
        elif plan.integers.pairs:
            self.panel = self._scratch(plan.tile.rows * self.pitch, ir.IntegerType.get_signless(16))
        elif plan.integers.groups and plan.copies_lhs:
            self.panel = self._scratch(
                plan.tile.rows * self.pitch, ir.IntegerType.get_signless(plan.integers.groups.lhs_bits)
            )

    def _scratch(self, size: int, element: ir.Type) -> memory.Buffer:
        return memory.Buffer.whole(self.kernel.local([size], element), element)

    def _padded(self) -> Padded | None:
        which = self.c.lhs
        if which.padding is None:
            return None
        innermost = self.plan.axes.k[-1].extent
        return Padded(self.kernel, which, self.operand.memref, innermost)

    # --- where rows are -------------------------------------------------------------------------------------------

    def rows_at(self, m: Index, count: int) -> list[dict[int, Index]]:
        """The ``m`` loop coordinates of ``count`` rows from ``m`` on."""
        return [coordinates(self.plan.axes.m, p) for p in self._row_positions(m, count)]

    def starts(self, batch: Batch, where: Sequence[dict[int, Index]], m: Index) -> list[Index]:
        """The offset of each of the tile's rows in the lhs, or in the panel that it was copied to."""
        if self.panel is None:
            return self._source_rows(batch, where, m)
        return [r * (self.lanes if self.plan.lhs.spread else self.pitch) for r in range(len(where))]

    @property
    def pitch(self) -> int:
        """Elements of the lhs panel from one step to the next; for pairs and groups, from one row to the next."""
        if self.plan.integers.groups:
            return self.plan.grouped_steps
        return pair_products.pitch(self.plan.steps) if self.plan.integers.pairs else self.plan.tile.rows * self.lanes

    def _source_rows(self, batch: Batch, where: Sequence[dict[int, Index]], m: Index) -> list[Index]:
        """The offset of each of the tile's rows in the lhs."""
        if not self.plan.axes.lhs_is_flat:
            return [self.operand.offset(batch | w) for w in where]
        stride = self.operand.strides[self.plan.axes.m[-1].inner]
        start = index.add(self.operand.offset(batch), index.mul(m, stride))
        return [index.add(start, index.mul(r, stride)) for r in range(len(where))]

    def _row_positions(self, m: Index, count: int) -> list[list[Index]]:
        """The position on each row axis of each of the tile's rows."""
        if not self.plan.axes.m:
            return [[]] * count
        first = index.delinearize(m, self.row_sizes)
        inner = self.plan.axes.m[-1].extent
        if len(first) == 1 or (not self.plan.in_parts and inner != DYNAMIC and inner % self.plan.tile.rows == 0):
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
            size = index.value(self.row_sizes[axis])
            wraps = arith.CmpIOp(arith.CmpIPredicate.eq, index.value(moved), size).result
            following.append(arith.SelectOp(wraps, index.value(0), index.value(moved)).result)
            carry = arith.SelectOp(wraps, index.value(1), index.value(0)).result
        following.append(index.add(position[0], carry))
        return following[::-1]

    @property
    def skips(self) -> bool:
        """Whether the reduction is skipped where all rows of a tile read padding."""
        padding = self.c.lhs.padding
        return padding is not None and padding.adds_nothing

    @staticmethod
    def positions(within: Sequence[Index], segment: Segment) -> list[Index]:
        """Positions on the outer reduction axes, from the positions within a segment of the first one."""
        return [index.add(within[0], segment.start), *within[1:]] if within else []

    def existing(self, batch: Batch, where: Sequence[dict[int, Index]], positions: Sequence[Index]) -> list[Condition]:
        """For each row, whether the elements at these positions of the outer reduction axes lie in the tensor, not in
        padding."""
        padded = self.padded
        if padded is None:
            return [True] * len(where)
        around = dict(zip((a.inner for a in self.plan.axes.k), positions, strict=False))
        axes = self.c.lhs.axes
        return [padded.exists({n: _coordinate(axes[n], batch | row | around) for n in padded.axes}) for row in where]

    def places(self, existing: Sequence[Condition], offsets: Sequence[Index]) -> list[tuple[ir.Value, Index]]:
        """The place to read each row from: the tensor at the row's offset, or the padding."""
        if self.padded is None:
            return [(self.operand.memref, offset) for offset in offsets]
        return [self.padded.choose(exists, offset) for exists, offset in zip(existing, offsets, strict=True)]

    def load(self, flat: ir.Value, offset: Index) -> ir.Value:
        """The factor of one element."""
        stored = memref.LoadOp(flat, [index.value(offset)]).result
        value = memory.from_storage(stored, element(self.c, self.c.roles.lhs))
        return factor(self.kernel, self.c.root, self.c.product.lhs.value, value, self.lanes)

    # --- copies ---------------------------------------------------------------------------------------------------

    def copy(self, batch: Batch, m: Index, count: int, segment: Segment) -> None:
        """Copy a segment of a row tile to the panel; pairs and groups are copied over the whole reduction."""
        where = self.rows_at(m, count)
        sources = self._source_rows(batch, where, m)
        if self.plan.lhs.spread:
            self._spread(batch, where, sources, segment)
        elif self.plan.integers.groups:
            self._copy_groups(batch, where, sources)
        else:
            self._copy_pairs(batch, where, sources)

    def _spread(
        self, batch: Batch, where: Sequence[dict[int, Index]], sources: Sequence[Index], segment: Segment
    ) -> None:
        """Copies each element into all lanes of a vector: step by step, and row by row within a step."""
        sizes = [segment.length, *self.reduction_sizes[1:]][: len(self.plan.axes.k)]
        strides = [self.operand.strides[a.inner] for a in self.plan.axes.k]
        if strides:
            sources = [index.add(r, index.mul(segment.start, strides[0])) for r in sources]

        def copy(positions: list[Index]) -> None:
            target: Index = 0
            offsets = list(sources)
            for size, stride, position in zip(sizes, strides, positions, strict=False):
                target = index.add(index.mul(target, size), position)
                offsets = [index.add(o, index.mul(position, stride)) for o in offsets]
            inner = list(zip(sizes, strides, strict=True))[-1:]
            target = index.mul(target, index.mul(index.product([size for size, _ in inner]), self.pitch))
            existing = self.existing(batch, where, self.positions(positions, segment))
            places = self.places(existing, offsets)
            counts = any_of(existing) if self.skips else True

            def store(offsets: Sequence[Index], target: Index) -> None:
                assert self.panel is not None
                for r, ((flat, _), offset) in enumerate(zip(places, offsets, strict=True)):
                    value = broadcast(self.load(flat, offset), self.lanes)
                    spot = index.add(target, r * self.lanes)
                    memory.store(self.panel, [Lane(spot) if self.lanes > 1 else spot], value, self.lanes)

            def spread() -> list[ir.Value]:
                each_step(self.kernel, inner, [offset for _, offset in places], target, self.pitch, store)
                return []

            self.kernel.select(counts, spread, [])

        self._over_axes(sizes[:-1], [], copy)

    def _copy_pairs(self, batch: Batch, where: Sequence[dict[int, Index]], sources: Sequence[Index]) -> None:
        """Copies rows as 16-bit factors."""
        assert self.panel is not None and self.plan.integers.pairs is not None
        panel, steps = self.panel, self.plan.steps
        widened = functools.partial(widen, self.plan.integers.pairs[0])
        run = self.plan.axes.k[-1].extent

        def copy(source: memory.Buffer, offset: Index, stride: Index, there: Index) -> None:
            pair_products.copy_run(self.kernel, source, offset, stride, widened, panel, there, run)

        self._copy_runs(batch, where, sources, run, copy)
        if steps % 2:
            for r in range(len(where)):
                memory.store(panel, [r * self.pitch + steps], constant(0, panel.element))

    def _copy_groups(self, batch: Batch, where: Sequence[dict[int, Index]], sources: Sequence[Index]) -> None:
        """Copies rows in the form in which groups are multiplied, whole groups for each run. Elements that fill up a
        group meet zeros."""
        assert self.panel is not None and self.plan.integers.groups is not None
        panel, groups = self.panel, self.plan.integers.groups
        run = self.plan.axes.k[-1].extent

        def copy(source: memory.Buffer, offset: Index, stride: Index, there: Index) -> None:
            groups.copy_run(self.kernel, source, offset, stride, panel, there, run)

        self._copy_runs(batch, where, sources, whole_groups(run, groups.steps) * groups.steps, copy)

    def _copy_runs(
        self,
        batch: Batch,
        where: Sequence[dict[int, Index]],
        sources: Sequence[Index],
        room: int,
        body: Callable[[memory.Buffer, Index, Index, Index], None],
    ) -> None:
        """Calls ``body(source, offset, stride, place in the panel)`` for each run along the innermost reduction axis; a
        run takes ``room`` elements of the panel."""
        *outer, run = self.plan.axes.k
        stride = self.operand.strides[run.inner]

        def copy(positions: list[Index]) -> None:
            target: Index = 0
            offsets = list(sources)
            for axis, position in zip(outer, positions, strict=True):
                target = index.add(index.mul(target, axis.extent), position)
                offsets = [index.add(o, index.mul(position, self.operand.strides[axis.inner])) for o in offsets]
            places = self.places(self.existing(batch, where, positions), offsets)
            for r, (flat, offset) in enumerate(places):
                there = index.add(r * self.pitch, index.mul(target, room))
                body(memory.Buffer.whole(flat, element(self.c, self.c.roles.lhs)), offset, stride, there)

        self._over_axes([axis.extent for axis in outer], [], copy)

    def _over_axes(self, extents: Sequence[Index], positions: list[Index], body: Callable[[list[Index]], None]) -> None:
        if not extents:
            body(positions)
            return
        with self.kernel.loop(0, extents[0]) as loop:
            self._over_axes(extents[1:], [*positions, loop.iv], body)


def coordinates(axes: Sequence[Axis], positions: Sequence[Index]) -> dict[int, Index]:
    """The positions by loop."""
    return {a.inner: p for a, p in zip(axes, positions, strict=True)}


def _coordinate(form: Linear, at: dict[int, Index]) -> Index:
    """A tensor coordinate at these loop positions; absent loops are at 0."""
    total: Index = form.constant
    for loop, position in at.items():
        if form.coefficients[loop]:
            total = index.add(total, index.mul(position, form.coefficients[loop]))
    return total
