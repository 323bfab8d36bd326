"""Lanes across long columns: stages run over bands of a few matrix rows, with accumulators of all lanes in scratch.

A column of a large matrix has each element in another cache line, and these lines often share one set of the cache.
Walking down one vector of columns at a time (as ``rowwise`` does with short columns) then waits for every line, in
every stage. Bands are read along memory instead, which the hardware prefetches. Within a band each vector of columns is
done at once: its accumulators, and values that are the same down the column, stay in registers.
"""

from __future__ import annotations

from collections.abc import Callable

from torch_mlir import ir

from rillet.codegen import coordinates as coords
from rillet.codegen import index
from rillet.codegen.coordinates import Coordinate, Lane
from rillet.codegen.cpu.rowwise.plan import RowwisePlan
from rillet.codegen.cpu.rowwise.reduction import Reduction, Row, Scratch, with_coordinate
from rillet.codegen.emit import memory
from rillet.codegen.emit.accumulators import combiners_of
from rillet.codegen.emit.elements import Evaluator
from rillet.codegen.emit.extents import loop_sizes
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.memory import Buffer
from rillet.codegen.emit.vector_loop import tail_mask
from rillet.codegen.index import Index
from rillet.codegen.recognize.shared_dimensions import Dimension
from rillet.ir.structured import Structured

_BAND = 8  # rows of a band: streams that are read side by side


class Columns:
    """The columns ``start`` to ``end`` of a workgroup, at a point of the outer dimensions.

    ``width``: the most columns there are; ``kept``: the buffers of costly values that several stages read.
    """

    def __init__(
        self,
        kernel: KernelBuilder,
        plan: RowwisePlan,
        fixed: dict[Dimension, Coordinate],
        span: tuple[Index, Index],
        width: int,
        kept: dict[ir.Value, Buffer],
    ):
        self._kernel = kernel
        self._plan = plan
        self._fixed = fixed
        self._start, self._end = span
        self._width = width
        self._kept = kept
        self._known: dict[ir.Value, Buffer] = {}  # values that have been computed, and their buffers
        self._scratch = Scratch(kernel)
        self._reduced = {r for g in plan.function.reductions for r in g.results}

    def emit(self) -> None:
        """All stages, one after the other."""
        for number, generic in enumerate(self._plan.function.reductions):
            self._reduce(generic, number)
            self._known.update({v: self._kept[v] for v in self._plan.stages.kept_by(number) if v in self._kept})
        for number in range(len(self._plan.function.results)):
            self._store_result(number)

    def _reduce(self, generic: Structured, number: int) -> None:
        buffers = [self._accumulators(value) for value in generic.results]
        combiners = combiners_of(generic)
        (loop,) = [n for n in generic.reduction_loops if not index.is_one(loop_sizes(self._kernel, generic)[n])]

        def start(row: Row) -> None:
            reduction = Reduction(self._kernel, self._plan, row, generic, number)
            self._store(row, generic, buffers, reduction.where, reduction.inits(reduction.where, row.evaluator))

        def accumulate(row: Row, first: Index, last: Index) -> None:
            reduction = Reduction(self._kernel, self._plan, row, generic, number)
            before = self._load(row, generic, buffers, reduction.where)
            # Sums of parts: see ``accumulators.sum_in_parts``.
            begin = (
                before if combiners is None else [c.identity_of(b.type) for c, b in zip(combiners, before, strict=True)]
            )
            with self._kernel.loop(first, last, carried=begin) as it:
                inside = row.evaluator.fork(mask=row.evaluator.mask)
                it.yield_(*reduction.body(with_coordinate(reduction.where, loop, it.iv), it.carried, inside))
            after = it.results
            if combiners is not None:
                after = [c.apply(b, a) for c, b, a in zip(combiners, before, after, strict=True)]
            self._store(row, generic, buffers, reduction.where, after)

        self._over_vectors(start)
        self._over_bands(loop_sizes(self._kernel, generic)[loop], accumulate)
        self._known.update(zip(generic.results, buffers, strict=True))

    def _store_result(self, number: int) -> None:
        value = self._plan.function.results[number].value
        axes = self._plan.dimensions.axes(value)
        down = [a for a, d in enumerate(axes) if d not in self._fixed and d != self._plan.across]

        def point(row: Row, position: Index | None) -> None:
            where: list[Coordinate] = [row.fixed.get(d, 0) for d in axes]
            if position is not None:
                where[down[0]] = position
            evaluator = row.evaluator.fork(mask=row.evaluator.mask)
            evaluator.store(evaluator.result(number), where, evaluator.at(value, where))

        def band(row: Row, first: Index, last: Index) -> None:
            with self._kernel.loop(first, last) as it:
                point(row, it.iv)

        if value in self._reduced:
            self._over_vectors(lambda row: point(row, None))
        else:
            self._over_bands(self._kernel.extents(value)[down[0]], band)

    # --- loops and memory

    def _over_bands(self, extent: Index, body: Callable[[Row, Index, Index], None]) -> None:
        """``body`` for every vector of columns within every band of rows."""
        with self._kernel.loop(0, extent, _BAND) as band:
            last = index.add(band.iv, _BAND)
            if not isinstance(extent, int) or extent % _BAND != 0:
                last = index.minimum(last, extent)
            self._over_vectors(lambda row: body(row, band.iv, last))

    def _over_vectors(self, body: Callable[[Row], None]) -> None:
        lanes = self._plan.lanes
        whole = index.sub(self._end, index.mod(index.sub(self._end, self._start), lanes))
        with self._kernel.loop(self._start, whole, lanes) as block:
            body(self._row(block.iv, None))
        with self._kernel.loop(whole, self._end, lanes) as block:
            body(self._row(block.iv, tail_mask(lanes, index.sub(self._end, block.iv))))

    def _row(self, column: Index, mask: ir.Value | None) -> Row:
        assert self._plan.across is not None
        evaluator = Evaluator(self._kernel, self._plan.lanes, mask)
        for value, buffer in self._known.items():
            evaluator.keep(value, buffer)
        return Row(evaluator, {**self._fixed, self._plan.across: Lane(column)}, self._kept, self._scratch)

    def _accumulators(self, value: ir.Value) -> Buffer:
        element = ir.RankedTensorType(value.type).element_type
        assert self._plan.across is not None
        axis = self._plan.dimensions.axes(value).index(self._plan.across)
        return Buffer(self._kernel.local([self._width], element), element, (axis,), (self._start,))

    def _load(self, row: Row, generic: Structured, buffers: list[Buffer], where: list[Coordinate]) -> list[ir.Value]:
        evaluator = row.evaluator
        places = [coords.apply(map_, where, evaluator.lanes) for map_ in generic.init_maps]
        return [memory.load(b, p, evaluator.lanes, evaluator.mask) for b, p in zip(buffers, places, strict=True)]

    def _store(
        self, row: Row, generic: Structured, buffers: list[Buffer], where: list[Coordinate], values: list[ir.Value]
    ) -> None:
        for map_, buffer, value in zip(generic.init_maps, buffers, values, strict=True):
            row.evaluator.store(buffer, coords.apply(map_, where, row.evaluator.lanes), value)
