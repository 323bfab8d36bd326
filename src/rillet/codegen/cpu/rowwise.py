"""Dispatches with reductions: chains of reductions and point-wise ops over shared outer dimensions.

Softmax, normalizations, means, argmax and any other mix of generics run here, row by row: fix a point of the
dimensions that everything shares (``Dimensions.shared``), then run the reductions in program order and at last the
results. Lanes run

- along the row, where the data is contiguous there (softmax over the last axis): several vector accumulators,
combined at the
  end of the row; or
- across rows, where the data is contiguous across them (pooling channels-last, softmax over the first axis): each
lane has
  a row of its own, which takes any reduction body.

A row's reduction results stay in registers; those with axes of their own, and costly values that several stages read,
are kept in scratch memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch_mlir import ir
from torch_mlir.dialects import arith, vector

from rillet.codegen.cpu import coordinates as coords
from rillet.codegen.cpu import index, shares
from rillet.codegen.cpu.combiners import Combiner, combiners_of, fast_extremum, sum_in_parts
from rillet.codegen.cpu.coordinates import Coordinate, Lane
from rillet.codegen.cpu.dimensions import Dimension, Dimensions
from rillet.codegen.cpu.dispatch import POINTWISE_OPS, Dispatch, Generic, Port
from rillet.codegen.cpu.evaluate import Evaluator
from rillet.codegen.cpu.index import Index
from rillet.codegen.cpu.kernel import Kernel, storage_bytes, storage_type
from rillet.codegen.cpu.memory import Buffer
from rillet.codegen.cpu.stages import Stages
from rillet.codegen.cpu.vector_loop import Shape, reduction_loop, shape_for, tail_mask, vector_loop
from rillet.errors import CompileError
from rillet.targets import Target

_BLOCK_BYTES = 32 * 1024
_DYNAMIC = ir.ShapedType.get_dynamic_size()


class _Rowwise:
    name = "rowwise"
    vectorize_loops = False
    collapses = True

    def matches(self, dispatch: Dispatch, target: Target) -> bool:
        return bool(dispatch.reductions) and all(op.name in POINTWISE_OPS for op in dispatch.tensor_ops)

    def emit(self, dispatch: Dispatch, kernel: Kernel, target: Target) -> None:
        plan = _plan(dispatch, target)
        kernel.grid(lambda: _grid(kernel, plan))
        with kernel.body():
            _emit_block(kernel, plan)


@dataclass(frozen=True)
class _Plan:
    dispatch: Dispatch
    dimensions: Dimensions
    outer: tuple[Dimension, ...]  # fixed one point at a time
    across: Dimension | None  # fixed one vector of lanes at a time
    along: Dimension | None  # vectorized within a row
    lanes: int  # of a vector across rows
    shape: Shape  # of runs along a row
    stages: Stages


@dataclass
class _Row:
    """One row (or one vector of rows) being emitted."""

    evaluator: Evaluator
    fixed: dict[Dimension, Coordinate]
    kept: dict[ir.Value, Buffer] = field(default_factory=dict)  # costly values, by the stage that computes them first


def _plan(dispatch: Dispatch, target: Target) -> _Plan:
    dimensions = Dimensions(dispatch)
    shared = dimensions.shared()
    shape = shape_for(dispatch, target)
    along, across = (None, None) if shape.lanes == 1 else _vector_dimension(dispatch, dimensions, shared)
    lanes = 1 if across is None else _lanes_across(dispatch, dimensions, across, shape.wide)
    if lanes == 1:
        across = None
    outer = tuple(d for d in shared if d != across)
    shares.mark(dispatch, dimensions, set(shared))
    return _Plan(dispatch, dimensions, outer, across, along, lanes, shape, Stages(dispatch, dimensions, set(shared)))


def _vector_dimension(
    dispatch: Dispatch, dimensions: Dimensions, shared: list[Dimension]
) -> tuple[Dimension | None, Dimension | None]:
    """(along, across): the contiguous dimension of what the reductions read, within a row or across rows."""
    read = [p for p in dispatch.arguments if p.type.rank]
    if not read:
        return None, None
    rank = max(p.type.rank for p in read)
    last = [dimensions.axis(p.value, p.type.rank - 1) for p in read if p.type.rank == rank and p.type.shape[-1] != 1]
    result = dispatch.results[0]
    result_last = dimensions.axis(result.value, result.type.rank - 1) if result.type.rank else None
    across = [d for d in last if d in shared]
    # Where operands disagree (a matrix product), lanes across rows keep every store contiguous.
    if across and (len(across) == len(last) or result_last in across):
        return None, result_last if result_last in across else across[0]
    return (last[0] if last else None), None


def _lanes_across(dispatch: Dispatch, dimensions: Dimensions, across: Dimension, wide: int) -> int:
    """Several registers of lanes, for independent accumulators and whole cache lines, but no more than there are
    rows."""
    for port in (*dispatch.results, *dispatch.arguments):
        for axis, extent in enumerate(port.type.shape):
            if dimensions.axis(port.value, axis) == across and extent != _DYNAMIC:
                while wide > 1 and wide >= 2 * extent:
                    wide //= 2
                return wide
    return wide


# --- the grid
# ----------------------------------------------------------------------------------------------------------------


def _extent(kernel: Kernel, plan: _Plan, dimension: Dimension) -> Index:
    """The extent of a shared dimension."""
    result = plan.dispatch.results[0]
    return kernel.extents(result.value)[plan.dimensions.axes(result.value).index(dimension)]


def _row_elements(kernel: Kernel, plan: _Plan) -> Index:
    """Elements of the largest argument within one row."""
    fixed = {*plan.outer, plan.across}
    largest: Index = 1
    for port in plan.dispatch.arguments:
        extents = kernel.extents(port.value)
        inner = [e for axis, e in enumerate(extents) if plan.dimensions.axis(port.value, axis) not in fixed]
        largest = index.maximum(largest, index.product(inner))
    return largest


def _element_bytes(plan: _Plan) -> int:
    ports = (*plan.dispatch.arguments, *plan.dispatch.results)
    return max(storage_bytes(storage_type(p.type.element_type)) for p in ports)


def _blocking(kernel: Kernel, plan: _Plan) -> tuple[Index, Index]:
    """Rows of a workgroup: along the outer dimensions and across the lanes (a multiple of the lanes)."""
    budget = max(1, _BLOCK_BYTES // _element_bytes(plan))
    per_row = index.maximum(1, index.floordiv(budget, index.maximum(1, _row_elements(kernel, plan))))
    if plan.across is None:
        return per_row, 1
    vectors = index.maximum(1, index.floordiv(per_row, plan.lanes))
    extent = _extent(kernel, plan, plan.across)
    vectors = index.minimum(vectors, index.maximum(1, index.ceildiv(extent, plan.lanes)))
    return index.maximum(1, index.floordiv(per_row, index.mul(vectors, plan.lanes))), index.mul(vectors, plan.lanes)


def _grid(kernel: Kernel, plan: _Plan) -> list[Index]:
    rows, columns = _blocking(kernel, plan)
    total = index.product([_extent(kernel, plan, d) for d in plan.outer])
    across = 1 if plan.across is None else _extent(kernel, plan, plan.across)
    return [index.ceildiv(total, rows), index.ceildiv(across, columns)]


def _emit_block(kernel: Kernel, plan: _Plan) -> None:
    rows, columns = _blocking(kernel, plan)
    extents = [_extent(kernel, plan, d) for d in plan.outer]
    kept = _scratch_for_costly(kernel, plan)
    scratch = _Scratch(kernel)
    first = index.mul(kernel.workgroup(0), rows)
    last = index.minimum(index.add(first, rows), index.product(extents))
    with kernel.loop(first, last) as row:
        fixed: dict[Dimension, Coordinate] = dict(zip(plan.outer, index.delinearize(row.iv, extents), strict=True))
        if plan.across is None:
            _emit_row(kernel, plan, _Row(Evaluator(kernel), fixed, kept), scratch)
        else:
            _emit_across(kernel, plan, fixed, kept, scratch, columns)


def _emit_across(
    kernel: Kernel,
    plan: _Plan,
    fixed: dict[Dimension, Coordinate],
    kept: dict[ir.Value, Buffer],
    scratch: _Scratch,
    columns: Index,
) -> None:
    assert plan.across is not None
    extent = _extent(kernel, plan, plan.across)
    start = index.mul(kernel.workgroup(1), columns)
    end = index.minimum(index.add(start, columns), extent)
    whole = index.add(start, index.mul(index.floordiv(index.sub(end, start), plan.lanes), plan.lanes))
    with kernel.loop(start, whole, plan.lanes) as block:
        point = {**fixed, plan.across: Lane(block.iv)}
        _emit_row(kernel, plan, _Row(Evaluator(kernel, plan.lanes), point, kept), scratch)
    if isinstance(extent, int) and extent % plan.lanes == 0:
        return
    with kernel.loop(whole, end, plan.lanes) as block:
        mask = tail_mask(plan.lanes, index.sub(end, block.iv))
        point = {**fixed, plan.across: Lane(block.iv)}
        _emit_row(kernel, plan, _Row(Evaluator(kernel, plan.lanes, mask), point, kept), scratch)


# --- one row
# -----------------------------------------------------------------------------------------------------------------


class _Scratch:
    """Scratch buffers by the value they hold, so that a main loop and its tail share them."""

    def __init__(self, kernel: Kernel):
        self._kernel = kernel
        self._buffers: dict[ir.Value, tuple[int, list[int], ir.Type]] = {}

    def buffer(self, value: ir.Value, shape: list[int], element: ir.Type) -> ir.Value:
        if value not in self._buffers:
            self._buffers[value] = (self._kernel.reserve(shape, element), shape, element)
        return self._kernel.local_at(*self._buffers[value])


def _emit_row(kernel: Kernel, plan: _Plan, row: _Row, scratch: _Scratch) -> None:
    for number, generic in enumerate(plan.dispatch.reductions):
        _reduce(kernel, plan, row, generic, number, scratch)
        for value in plan.stages.kept_by(number):
            if value in row.kept:
                row.evaluator.keep(value, row.kept[value])
    _emit_results(kernel, plan, row)


def _reduce(kernel: Kernel, plan: _Plan, row: _Row, generic: Generic, number: int, scratch: _Scratch) -> None:
    """One reduction of this row: its results end up in registers, in scratch, or in the function's results."""
    dims = [plan.dimensions.loop(generic, n) for n in range(len(generic.iterators))]
    extents = loop_extents(kernel, generic)
    where: list[Coordinate] = [row.fixed.get(d, 0) for d in dims]
    inner = [n for n in generic.parallel_loops if dims[n] not in row.fixed and not _is_unit(extents[n])]
    reduction = [n for n in generic.reduction_loops if not _is_unit(extents[n])]
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
    plan: _Plan,
    row: _Row,
    generic: Generic,
    number: int,
    extents: list[Index],
    inner: list[int],
    scratch: _Scratch,
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
        plan: _Plan,
        row: _Row,
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
            self.over_parallel(rest, _with(where, loop, it.iv), evaluator.fork(mask=evaluator.mask))

    def over_parallel_vectors(self, loops: list[int], along: int, where: list[Coordinate]) -> None:
        """As ``over_parallel``, with loop ``along`` innermost and vectorized."""
        if loops:
            loop, *rest = loops
            with self.kernel.loop(0, self.extents[loop]) as it:
                self.over_parallel_vectors(rest, along, _with(where, loop, it.iv))
            return

        def emit(c: Coordinate, lanes: int, mask: ir.Value | None) -> None:
            self._element(_with(where, along, c), self.row.evaluator.fork(lanes, mask))

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
            d in self.row.fixed or _is_unit(self.extents[n])
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
                it.yield_(*self._nest(rest, _with(where, loop, it.iv), it.carried, evaluator))
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
                it.yield_(*self._runs(rest, _with(where, loop, it.iv), it.carried, shape))
            return it.results
        along = self.along
        assert along is not None

        def emit(c: Coordinate, lanes: int, mask: ir.Value | None, carried: list[ir.Value]) -> list[ir.Value]:
            new = self._body(_with(where, along, c), carried, self.row.evaluator.fork(lanes, mask))
            if mask is None:
                return new
            return [arith.SelectOp(mask, n, old).result for n, old in zip(new, carried, strict=True)]

        return reduction_loop(
            self.kernel, self.extents[along], shape, carried, lambda values: self._fold(values, shape.lanes), emit
        )

    def _fold(self, values: list[ir.Value], lanes: int) -> list[ir.Value]:
        assert self.combiners is not None
        return [c.narrow(v, lanes) for c, v in zip(self.combiners, values, strict=True)]


# --- results
# -----------------------------------------------------------------------------------------------------------------


def _emit_results(kernel: Kernel, plan: _Plan, row: _Row) -> None:
    """Store the results that no reduction has stored itself, those of the same row shape in one loop."""
    reduced = {r for g in plan.dispatch.reductions for r in g.results}
    groups: dict[tuple[object, ...], list[int]] = {}
    for number, port in enumerate(plan.dispatch.results):
        if port.value in reduced:
            continue
        key = tuple(
            (plan.dimensions.axis(port.value, a) in row.fixed and plan.dimensions.axis(port.value, a), extent)
            for a, extent in enumerate(port.type.shape)
        )
        groups.setdefault((key, port.dims), []).append(number)
    for numbers in groups.values():
        port = plan.dispatch.results[numbers[0]]
        where: list[Coordinate] = [row.fixed.get(plan.dimensions.axis(port.value, a), 0) for a in range(port.type.rank)]
        inner = [a for a in range(port.type.rank) if plan.dimensions.axis(port.value, a) not in row.fixed]
        _store_results(kernel, plan, row, numbers, port, inner, where)


def _store_results(
    kernel: Kernel, plan: _Plan, row: _Row, numbers: list[int], port: Port, inner: list[int], where: list[Coordinate]
) -> None:
    extents = kernel.extents(port.value)
    shape = plan.shape if plan.across is None else Shape(1, 1, False)
    if len(inner) > 1 or (inner and (shape.lanes == 1 or inner[0] != port.type.rank - 1)):
        axis, *rest = inner
        with kernel.loop(0, extents[axis]) as it:
            _store_results(kernel, plan, row, numbers, port, rest, _with(where, axis, it.iv))
        return

    def point(place: list[Coordinate], evaluator: Evaluator) -> None:
        values = [evaluator.at(plan.dispatch.results[n].value, place) for n in numbers]
        for n, value in zip(numbers, values, strict=True):
            evaluator.store(evaluator.result(n), place, value)

    if not inner:
        point(where, row.evaluator.fork(mask=row.evaluator.mask))
        return
    extent = extents[inner[0]]
    shape = shape.limited(extent) if isinstance(extent, int) else shape

    def emit(c: Coordinate, lanes: int, mask: ir.Value | None) -> None:
        point(_with(where, inner[0], c), row.evaluator.fork(lanes, mask))

    vector_loop(kernel, 0, extent, shape, emit)


def _scratch_for_costly(kernel: Kernel, plan: _Plan) -> dict[ir.Value, Buffer]:
    """A buffer for each costly value that several stages read: a result's own memory where it fits, else scratch.

    A result's memory is overwritten when the result is stored. That must be the last reader: all results that are
    stored at the end are stored in one loop over the value's axes.
    """
    kept: dict[ir.Value, Buffer] = {}
    taken: set[int] = set()
    aliased = {r for r, _ in plan.dispatch.may_alias}
    fixed = {*plan.outer, plan.across}
    reduced = {r for g in plan.dispatch.reductions for r in g.results}
    stored = [tuple(plan.dimensions.axes(p.value)) for p in plan.dispatch.results if p.value not in reduced]
    for value in plan.stages.kept:
        type_ = ir.RankedTensorType(value.type)
        axes = plan.dimensions.axes(value)
        one_loop = all(s == tuple(axes) for s in stored)
        for number, port in enumerate(plan.dispatch.results if one_loop else ()):
            fits = port.type.element_type == type_.element_type and plan.dimensions.axes(port.value) == axes
            if fits and number not in taken and number not in aliased and port.value not in reduced:
                taken.add(number)
                kept[value] = Buffer.whole(kernel.result(number), type_.element_type)
                break
        if value in kept or plan.across is not None:
            continue
        inner = [a for a, d in enumerate(axes) if d not in fixed]
        shape = [type_.shape[a] for a in inner]
        if _DYNAMIC in shape:
            continue  # computed again by each stage
        local = kernel.local(shape, type_.element_type)
        kept[value] = Buffer(local, type_.element_type, tuple(inner), (0,) * len(inner))
    return kept


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


def _with(where: list[Coordinate], position: int, coordinate: Coordinate) -> list[Coordinate]:
    return [coordinate if n == position else c for n, c in enumerate(where)]


def _is_unit(extent: Index) -> bool:
    return isinstance(extent, int) and extent == 1


def _splat(value: ir.Value, lanes: int) -> ir.Value:
    return vector.BroadcastOp(ir.VectorType.get([lanes], value.type), value).result


STRATEGY = _Rowwise()
