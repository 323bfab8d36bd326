"""One reduction of a row, or of several rows together: its loops, its accumulators and where its results go."""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, vector

from rillet.codegen import coordinates as coords
from rillet.codegen import index
from rillet.codegen.coordinates import Coordinate, Lane
from rillet.codegen.cpu.caches import read_ahead
from rillet.codegen.cpu.rowwise.plan import RowwisePlan
from rillet.codegen.emit.accumulators import Combiner, combiners_of, fast_extremum, sum_in_parts
from rillet.codegen.emit.elements import Evaluator
from rillet.codegen.emit.extents import loop_sizes
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.memory import Buffer
from rillet.codegen.emit.vector_loop import Shape, reduction_loop, vector_loop
from rillet.codegen.index import Index
from rillet.codegen.recognize.shared_dimensions import Dimension
from rillet.errors import CompileError
from rillet.ir.structured import Structured


class Scratch:
    """Scratch buffers by the value they hold, so that a main loop and its tail share them."""

    def __init__(self, kernel: KernelBuilder):
        self._kernel = kernel
        self._buffers: dict[ir.Value, tuple[int, list[int], ir.Type]] = {}

    def buffer(self, value: ir.Value, shape: list[int], element: ir.Type) -> ir.Value:
        """The memory for a value in this worker's scratch, reserved at the first call."""
        if value not in self._buffers:
            self._buffers[value] = (self._kernel.reserve(shape, element), shape, element)
        return self._kernel.local_at(*self._buffers[value])


@dataclass
class Row:
    """One row (or one vector of rows) being emitted."""

    evaluator: Evaluator
    fixed: dict[Dimension, Coordinate]
    kept: dict[ir.Value, Buffer]  # buffers of costly values that several stages read
    scratch: Scratch
    ahead: dict[Dimension, Coordinate] | None = None  # where the next row is, if it is to be fetched during this one


def reduce(kernel: KernelBuilder, plan: RowwisePlan, rows: list[Row], generic: Structured, number: int) -> None:
    """One reduction of these rows: its results end up in registers, in scratch, or in the function's results."""
    emitters = [Reduction(kernel, plan, row, generic, number) for row in rows]
    if all(e.is_one_run for e in emitters):
        evaluators = [row.evaluator for row in rows]
        for emitter, values in zip(emitters, _along(emitters, [e.where for e in emitters], evaluators), strict=True):
            emitter.put(emitter.where, emitter.row.evaluator, values)
        return
    for emitter in emitters:
        emitter.emit()


def _target(
    kernel: KernelBuilder,
    plan: RowwisePlan,
    row: Row,
    generic: Structured,
    number: int,
    extents: list[Index],
    inner: list[int],
) -> Buffer | None:
    """Where a reduction's result goes: the function's result, scratch, or a register (None)."""
    value = generic.results[number]
    for position, port in enumerate(plan.function.results):
        if port.value == value:
            return row.evaluator.result(position)
    if not inner:
        return None
    axes, shape, origin = [], [], []
    lane_axis: int | None = None
    for axis, expr in enumerate(generic.init_maps[number]):
        if not isinstance(expr, int) or expr not in inner:
            d = plan.dimensions.axis(value, axis)
            if d == plan.across:
                lane_axis = axis
            continue
        extent = extents[expr]
        if not isinstance(extent, int):
            raise CompileError(
                f"kernel @{plan.function.name}: an intermediate whose size is only known at run time "
                "must be a kernel of its own"
            )
        axes.append(axis)
        shape.append(extent)
        origin.append(0)
    if lane_axis is not None:
        assert plan.across is not None
        lane = row.fixed[plan.across]
        assert isinstance(lane, Lane)
        axes.append(lane_axis)
        shape.append(plan.lanes)
        origin.append(lane.base)
    element = ir.RankedTensorType(value.type).element_type
    return Buffer(row.scratch.buffer(value, shape, element), element, tuple(axes), tuple(origin))


class Reduction:
    """Emits the loops of one reduction of one row."""

    def __init__(self, kernel: KernelBuilder, plan: RowwisePlan, row: Row, generic: Structured, number: int):
        self.kernel = kernel
        self.plan = plan
        self.row = row
        self.generic = generic
        self.number = number
        self.extents = loop_sizes(kernel, generic)
        dims = [plan.dimensions.loop(generic, n) for n in range(generic.loops)]
        self.where: list[Coordinate] = [row.fixed.get(d, 0) for d in dims]
        self.inner = [
            n for n in generic.parallel_loops if dims[n] not in row.fixed and not index.is_one(self.extents[n])
        ]
        self.reduction = [n for n in generic.reduction_loops if not index.is_one(self.extents[n])]
        results = range(len(generic.results))
        self.targets = [_target(kernel, plan, row, generic, n, self.extents, self.inner) for n in results]
        self.combiners: list[Combiner] | None = None
        self.along: int | None = None  # the reduction loop that lanes run along
        self.vectors: int | None = None  # the parallel loop that they run along
        contiguous = next((n for n in (*self.reduction, *self.inner) if dims[n] == plan.along), None)
        if contiguous in self.inner:
            self.vectors = contiguous
        elif contiguous is not None:
            self.combiners = combiners_of(generic)
            self.along = contiguous if self.combiners is not None else None

    @property
    def is_one_run(self) -> bool:
        """Whether each result has one element for each row, which lanes accumulate along the row."""
        return self.along is not None and not self.inner

    def emit(self) -> None:
        """Emits the loops over the result's elements in a row, each with its reduction inside."""
        if self.vectors is None:
            self.over_parallel(self.inner, self.where, self.row.evaluator)
        else:
            self.over_parallel_vectors([n for n in self.inner if n != self.vectors], self.vectors, self.where)

    def over_parallel(self, loops: list[int], where: list[Coordinate], evaluator: Evaluator) -> None:
        """Loop over the remaining parallel loops, one element (or vector of rows) at a time."""
        if not loops:
            self._element(where, evaluator)
            return
        loop, *rest = loops
        with self.kernel.loop(0, self.extents[loop]) as it:
            self.over_parallel(rest, with_coordinate(where, loop, it.iv), evaluator.fork(mask=evaluator.mask))

    def over_parallel_vectors(self, loops: list[int], along: int, where: list[Coordinate]) -> None:
        """As ``over_parallel``, with loop ``along`` innermost and vectorized."""
        if loops:
            loop, *rest = loops
            with self.kernel.loop(0, self.extents[loop]) as it:
                self.over_parallel_vectors(rest, along, with_coordinate(where, loop, it.iv))
            return

        def emit(c: Coordinate, lanes: int, mask: ir.Value | None) -> None:
            self._element(with_coordinate(where, along, c), self.row.evaluator.fork(lanes, mask))

        vector_loop(self.kernel, 0, self.extents[along], self._shape(along), emit)

    def _element(self, where: list[Coordinate], evaluator: Evaluator) -> None:
        """Compute one element (or one vector of elements) of every result and store it."""
        if self.along is not None:
            (values,) = _along([self], [where], [evaluator])
        else:
            values = self._nest(self.reduction, where, self.inits(where, evaluator), evaluator)
        self.put(where, evaluator, values)

    def put(self, where: list[Coordinate], evaluator: Evaluator, values: list[ir.Value]) -> None:
        """Store one element (or one vector of elements) of every result, or keep it in registers."""
        for n, (value, target) in enumerate(zip(values, self.targets, strict=True)):
            result = self.generic.results[n]
            if target is None:
                self.row.evaluator.bind(result, value)
                continue
            place = coords.apply(self.generic.init_maps[n], where, evaluator.lanes)
            evaluator.store(target, place, value)
            if not self.generic.init_maps[n] or self._is_whole_row(where):
                self.row.evaluator.bind(result, value)
        for n, target in enumerate(self.targets):
            if target is not None:
                self.row.evaluator.keep(self.generic.results[n], target)

    def _is_whole_row(self, where: list[Coordinate]) -> bool:
        dims = [self.plan.dimensions.loop(self.generic, n) for n in self.generic.parallel_loops]
        return all(
            d in self.row.fixed or index.is_one(self.extents[n])
            for d, n in zip(dims, self.generic.parallel_loops, strict=True)
        )

    def inits(self, where: list[Coordinate], evaluator: Evaluator) -> list[ir.Value]:
        """The accumulators' initial values at these loop coordinates, vectors when the evaluator has lanes."""
        first = len(self.generic.inputs)
        inits = []
        for n, init in enumerate(self.generic.inits):
            place = coords.apply(self.generic.maps[first + n], where, evaluator.lanes)
            varies = evaluator.lanes > 1
            inits.append(evaluator.vector_at(init, place) if varies else evaluator.at(init, place))
        return inits

    def _nest(
        self, loops: list[int], where: list[Coordinate], accumulators: list[ir.Value], evaluator: Evaluator
    ) -> list[ir.Value]:
        """Reduction loops around the body, accumulators carried."""
        if not loops:
            return self.body(where, accumulators, evaluator.fork(mask=evaluator.mask))
        loop, *rest = loops

        def span(start: Index, end: Index, carried: list[ir.Value]) -> list[ir.Value]:
            with self.kernel.loop(start, end, carried=carried) as it:
                it.yield_(*self._nest(rest, with_coordinate(where, loop, it.iv), it.carried, evaluator))
            return it.results

        return sum_in_parts(self.kernel, self.generic, self.extents[loop], accumulators, span)

    def body(self, where: list[Coordinate], accumulators: list[ir.Value], evaluator: Evaluator) -> list[ir.Value]:
        """The accumulators after one step at these loop coordinates; stores the values that later stages read again."""
        operands = [evaluator.operand(self.generic, n, where) for n in range(len(self.generic.inputs))]
        results = evaluator.inline(self.generic, [*operands, *accumulators], where)
        results = [fast_extremum(r, a) for r, a in zip(results, accumulators, strict=True)]
        for value in self.plan.stages.kept_by(self.number):
            if value in self.row.kept:
                place = self.plan.stages.place(value, self.generic, where)
                evaluator.store(self.row.kept[value], place, evaluator.at(value, place))
        if evaluator.lanes > 1:
            return [r if isinstance(r.type, ir.VectorType) else _splat(r, evaluator.lanes) for r in results]
        return results

    def _shape(self, loop: int) -> Shape:
        extent = self.extents[loop]
        return self.plan.shape.limited(extent) if isinstance(extent, int) else self.plan.shape

    def run_shape(self) -> Shape:
        """How a run along the row is vectorized."""
        assert self.along is not None
        return self._shape(self.along)


def _along(
    emitters: list[Reduction], wheres: list[list[Coordinate]], evaluators: list[Evaluator]
) -> list[list[ir.Value]]:
    """Reduce elements of several rows in one loop along the contiguous dimension: lanes accumulate apart and are
    combined at its end. One vector of each row is in flight; with a single row, several vectors of it."""
    first = emitters[0]
    combiners, shape = first.combiners, first.run_shape()
    assert combiners is not None
    chosen = combiners * len(emitters)
    shape = Shape(max(shape.lanes, shape.wide // len(emitters)), shape.lanes, shape.masked)
    outer = [n for n in first.reduction if n != first.along]
    inits = [i for e, w, v in zip(emitters, wheres, evaluators, strict=True) for i in e.inits(w, v)]
    start = [c.identity_of(ir.VectorType.get([shape.wide], i.type)) for c, i in zip(chosen, inits, strict=True)]
    if outer:  # the accumulators of all runs are as narrow as those at the end of a run
        start = [c.narrow(v, shape.lanes) for c, v in zip(chosen, start, strict=True)]
        shape = Shape(shape.lanes, shape.lanes, shape.masked)
    final = _runs(emitters, chosen, outer, wheres, start, shape)
    values = [c.apply(i, c.across_lanes(v)) for c, i, v in zip(chosen, inits, final, strict=True)]
    count = len(combiners)
    return [values[n : n + count] for n in range(0, len(values), count)]


def _runs(
    emitters: list[Reduction],
    combiners: list[Combiner],
    loops: list[int],
    wheres: list[list[Coordinate]],
    carried: list[ir.Value],
    shape: Shape,
) -> list[ir.Value]:
    first = emitters[0]
    kernel, along = first.kernel, first.along
    assert along is not None
    if loops:
        loop, *rest = loops

        def span(start: Index, end: Index, carried: list[ir.Value]) -> list[ir.Value]:
            with kernel.loop(start, end, carried=carried) as it:
                inside = [with_coordinate(w, loop, it.iv) for w in wheres]
                it.yield_(*_runs(emitters, combiners, rest, inside, it.carried, shape))
            return it.results

        return sum_in_parts(kernel, first.generic, first.extents[loop], carried, span)

    def fold(values: list[ir.Value]) -> list[ir.Value]:
        return [c.narrow(v, shape.lanes) for c, v in zip(combiners, values, strict=True)]

    is_last = first.number == len(first.plan.function.reductions) - 1

    def emit(c: Coordinate, lanes: int, mask: ir.Value | None, carried: list[ir.Value]) -> list[ir.Value]:
        count = len(carried) // len(emitters)
        new = []
        for emitter in emitters if mask is None and is_last else ():
            if emitter.row.ahead is not None:
                _fetch_ahead(kernel, emitter.plan, emitter.row.ahead, c, lanes)
        for n, (emitter, where) in enumerate(zip(emitters, wheres, strict=True)):
            evaluator = emitter.row.evaluator.fork(lanes, mask)
            new += emitter.body(with_coordinate(where, along, c), carried[n * count : (n + 1) * count], evaluator)
        if mask is None:
            return new
        return [arith.SelectOp(mask, n, old).result for n, old in zip(new, carried, strict=True)]

    return reduction_loop(kernel, first.extents[along], shape, carried, fold, emit)


def _fetch_ahead(
    kernel: KernelBuilder, plan: RowwisePlan, point: dict[Dimension, Coordinate], along: Coordinate, lanes: int
) -> None:
    """Start to read, in every argument, the elements of another row at this row's position ``along``."""
    assert isinstance(along, Lane)
    for number, port in enumerate(plan.function.arguments):
        axes = plan.dimensions.axes(port.value)
        if not axes or axes[-1] != plan.along or not all(d in point for d in axes[:-1]) or port.binding < 0:
            continue
        read_ahead.fetch(kernel, number, [point[d] for d in axes[:-1]], along.base, lanes)


def with_coordinate(where: list[Coordinate], position: int, coordinate: Coordinate) -> list[Coordinate]:
    """The coordinates with the one at ``position`` replaced."""
    return [coordinate if n == position else c for n, c in enumerate(where)]


def _splat(value: ir.Value, lanes: int) -> ir.Value:
    return vector.BroadcastOp(ir.VectorType.get([lanes], value.type), value).result
