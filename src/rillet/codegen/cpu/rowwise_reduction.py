"""One reduction of a row: its loops, its accumulators and where its results go."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch_mlir import ir
from torch_mlir.dialects import arith, vector

from rillet.codegen.cpu import coordinates as coords
from rillet.codegen.cpu.combiners import Combiner, combiners_of, fast_extremum, sum_in_parts
from rillet.codegen.cpu.coordinates import Coordinate, Lane
from rillet.codegen.cpu.dimensions import Dimension
from rillet.codegen.cpu.dispatch import Generic
from rillet.codegen.cpu.evaluate import Evaluator
from rillet.codegen.cpu.index import Index
from rillet.codegen.cpu.kernel import Kernel
from rillet.codegen.cpu.memory import Buffer
from rillet.codegen.cpu.rowwise_plan import Plan
from rillet.codegen.cpu.vector_loop import Shape, reduction_loop, vector_loop
from rillet.errors import CompileError

_DYNAMIC = ir.ShapedType.get_dynamic_size()


@dataclass
class Row:
    """One row (or one vector of rows) being emitted."""

    evaluator: Evaluator
    fixed: dict[Dimension, Coordinate]
    kept: dict[ir.Value, Buffer] = field(default_factory=dict)  # costly values, by the stage that computes them first


class Scratch:
    """Scratch buffers by the value they hold, so that a main loop and its tail share them."""

    def __init__(self, kernel: Kernel):
        self._kernel = kernel
        self._buffers: dict[ir.Value, tuple[int, list[int], ir.Type]] = {}

    def buffer(self, value: ir.Value, shape: list[int], element: ir.Type) -> ir.Value:
        if value not in self._buffers:
            self._buffers[value] = (self._kernel.reserve(shape, element), shape, element)
        return self._kernel.local_at(*self._buffers[value])


def reduce(kernel: Kernel, plan: Plan, row: Row, generic: Generic, number: int, scratch: Scratch) -> None:
    """One reduction of this row: its results end up in registers, in scratch, or in the function's results."""
    dims = [plan.dimensions.loop(generic, n) for n in range(len(generic.iterators))]
    extents = loop_extents(kernel, generic)
    where: list[Coordinate] = [row.fixed.get(d, 0) for d in dims]
    inner = [n for n in generic.parallel_loops if dims[n] not in row.fixed and not is_unit(extents[n])]
    reduction = [n for n in generic.reduction_loops if not is_unit(extents[n])]
    targets = [_target(kernel, plan, row, generic, n, extents, inner, scratch) for n in range(len(generic.results))]
    along = next((n for n in (*reduction, *inner) if dims[n] == plan.along), None)
    emitter = _Reduction(kernel, plan, row, generic, number, extents, reduction, targets)
    if along is None:
        emitter.over_parallel(inner, where, row.evaluator)
    elif along in inner:
        emitter.over_parallel_vectors([n for n in inner if n != along], along, where)
    else:
        emitter.combiners = combiners_of(generic)
        emitter.along = along if emitter.combiners is not None else None
        emitter.over_parallel(inner, where, row.evaluator)


def _target(
    kernel: Kernel,
    plan: Plan,
    row: Row,
    generic: Generic,
    number: int,
    extents: list[Index],
    inner: list[int],
    scratch: Scratch,
) -> Buffer | None:
    """Where a reduction's result goes: the function's result, scratch, or (None) a register."""
    value = generic.results[number]
    for position, port in enumerate(plan.dispatch.results):
        if port.value == value:
            return row.evaluator.result(position)
    if not inner:
        return None
    axes, shape, origin = [], [], []
    lane_axis: int | None = None
    for axis, expr in enumerate(generic.output_maps[number].results):
        if not isinstance(expr, ir.AffineDimExpr) or expr.position not in inner:
            d = plan.dimensions.axis(value, axis)
            if d == plan.across:
                lane_axis = axis
            continue
        extent = extents[expr.position]
        if not isinstance(extent, int):
            raise CompileError(
                f"executable @{plan.dispatch.name}: an intermediate whose size is only known at run time "
                "must be a dispatch of its own"
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
    return Buffer(scratch.buffer(value, shape, element), element, tuple(axes), tuple(origin))


class _Reduction:
    """Emits the loops of one reduction."""

    def __init__(
        self,
        kernel: Kernel,
        plan: Plan,
        row: Row,
        generic: Generic,
        number: int,
        extents: list[Index],
        reduction: list[int],
        targets: list[Buffer | None],
    ):
        self.kernel = kernel
        self.plan = plan
        self.row = row
        self.generic = generic
        self.number = number
        self.extents = extents
        self.reduction = reduction
        self.targets = targets
        self.combiners: list[Combiner] | None = None
        self.along: int | None = None

    def over_parallel(self, loops: list[int], where: list[Coordinate], evaluator: Evaluator) -> None:
        """Loop over the parallel loops left, one element (or vector of rows) at a time."""
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
        """Compute one element (or one vector of elements) of every result and put it where it belongs."""
        if self.along is not None:
            values = self._along_the_row(where, evaluator)
        else:
            values = self._nest(self.reduction, where, self._inits(where, evaluator), evaluator)
        for n, (value, target) in enumerate(zip(values, self.targets, strict=True)):
            result = self.generic.results[n]
            if target is None:
                self.row.evaluator.bind(result, value)
                continue
            place = coords.apply(self.generic.output_maps[n], where, evaluator.lanes)
            evaluator.store(target, place, value)
            if not list(self.generic.output_maps[n].results) or self._is_whole_row(where):
                self.row.evaluator.bind(result, value)
        for n, target in enumerate(self.targets):
            if target is not None:
                self.row.evaluator.keep(self.generic.results[n], target)

    def _is_whole_row(self, where: list[Coordinate]) -> bool:
        dims = [self.plan.dimensions.loop(self.generic, n) for n in self.generic.parallel_loops]
        return all(
            d in self.row.fixed or is_unit(self.extents[n])
            for d, n in zip(dims, self.generic.parallel_loops, strict=True)
        )

    def _inits(self, where: list[Coordinate], evaluator: Evaluator) -> list[ir.Value]:
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
            return self._body(where, accumulators, evaluator.fork(mask=evaluator.mask))
        loop, *rest = loops

        def span(start: Index, end: Index, carried: list[ir.Value]) -> list[ir.Value]:
            with self.kernel.loop(start, end, carried=carried) as it:
                it.yield_(*self._nest(rest, with_coordinate(where, loop, it.iv), it.carried, evaluator))
            return it.results

        return sum_in_parts(self.kernel, self.generic, self.extents[loop], accumulators, span)

    def _body(self, where: list[Coordinate], accumulators: list[ir.Value], evaluator: Evaluator) -> list[ir.Value]:
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

    def _along_the_row(self, where: list[Coordinate], evaluator: Evaluator) -> list[ir.Value]:
        """Lanes accumulate apart along the contiguous reduction loop and are combined at its end."""
        assert self.combiners is not None and self.along is not None
        shape = self._shape(self.along)
        outer = [n for n in self.reduction if n != self.along]
        inits = self._inits(where, evaluator)
        start = [
            c.identity_of(ir.VectorType.get([shape.wide], i.type)) for c, i in zip(self.combiners, inits, strict=True)
        ]
        if outer:  # the accumulators of all runs stay as narrow as what a run ends with
            start = self._fold(start, shape.lanes)
            shape = Shape(shape.lanes, shape.lanes, shape.masked)
        final = self._runs(outer, where, start, shape)
        return [
            c.apply(init, c.across_lanes(value)) for c, init, value in zip(self.combiners, inits, final, strict=True)
        ]

    def _runs(self, loops: list[int], where: list[Coordinate], carried: list[ir.Value], shape: Shape) -> list[ir.Value]:
        if loops:
            loop, *rest = loops
            with self.kernel.loop(0, self.extents[loop], carried=carried) as it:
                it.yield_(*self._runs(rest, with_coordinate(where, loop, it.iv), it.carried, shape))
            return it.results
        along = self.along
        assert along is not None

        def emit(c: Coordinate, lanes: int, mask: ir.Value | None, carried: list[ir.Value]) -> list[ir.Value]:
            new = self._body(with_coordinate(where, along, c), carried, self.row.evaluator.fork(lanes, mask))
            if mask is None:
                return new
            return [arith.SelectOp(mask, n, old).result for n, old in zip(new, carried, strict=True)]

        return reduction_loop(
            self.kernel, self.extents[along], shape, carried, lambda values: self._fold(values, shape.lanes), emit
        )

    def _fold(self, values: list[ir.Value], lanes: int) -> list[ir.Value]:
        assert self.combiners is not None
        return [c.narrow(v, lanes) for c, v in zip(self.combiners, values, strict=True)]


def loop_extents(kernel: Kernel, generic: Generic) -> list[Index]:
    """The extent of each loop, read off the first operand axis that the loop runs over alone."""
    extents: list[Index | None] = list(generic.loop_extents)
    for n, extent in enumerate(extents):
        if extent == _DYNAMIC:
            extents[n] = None
    for operand, map_ in zip((*generic.inputs, *generic.inits), generic.maps, strict=True):
        for axis, expr in enumerate(map_.results):
            if isinstance(expr, ir.AffineDimExpr) and extents[expr.position] is None:
                extents[expr.position] = kernel.extents(operand)[axis]
    if any(e is None for e in extents):
        raise CompileError(f"executable @{kernel.dispatch.name}: a loop's extent is not an axis of any operand")
    return [e for e in extents if e is not None]


def with_coordinate(where: list[Coordinate], position: int, coordinate: Coordinate) -> list[Coordinate]:
    return [coordinate if n == position else c for n, c in enumerate(where)]


def is_unit(extent: Index) -> bool:
    return isinstance(extent, int) and extent == 1


def _splat(value: ir.Value, lanes: int) -> ir.Value:
    return vector.BroadcastOp(ir.VectorType.get([lanes], value.type), value).result
