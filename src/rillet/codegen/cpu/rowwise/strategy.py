"""Kernels with reductions: chains of reductions and point-wise ops over shared outer dimensions.

Softmax, normalizations, means, argmax and any other mix of generics run here, row by row: fix a point of the shared
dimensions (``Dimensions.shared``), run the reductions in program order, then compute the results. Lanes run

- along the row, where the data is contiguous there (softmax over the last axis): several vector accumulators, combined
  at the end of the row; or
- across rows, where the data is contiguous across them (pooling channels-last, softmax over the first axis): each lane
  has a row of its own, which takes any reduction body.

A row's reduction results stay in registers. Results with axes of their own, and costly values that several stages read,
are kept in scratch memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from torch_mlir import ir

from rillet.codegen import index
from rillet.codegen.coordinates import Coordinate, Lane
from rillet.codegen.cpu.caches import streaming
from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.cpu.rowwise.columns import Columns
from rillet.codegen.cpu.rowwise.plan import RowwisePlan, blocking, extent_of, grid, intermediates_are_static, make_plan
from rillet.codegen.cpu.rowwise.reduction import Row, Scratch, reduce, with_coordinate
from rillet.codegen.emit.blocks import Span
from rillet.codegen.emit.elements import Evaluator
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.memory import Buffer
from rillet.codegen.emit.vector_loop import Shape, tail_mask, vector_loop
from rillet.codegen.index import Index
from rillet.codegen.recognize.kernel_function import POINTWISE_OPS, KernelFunction, Port
from rillet.codegen.recognize.shared_dimensions import Dimension
from rillet.codegen.rewrites.mark_softmax import mark_softmax
from rillet.ir.dtypes import storage_bytes
from rillet.ir.structured import DYNAMIC


class RowwiseStrategy:
    """See the module's docstring."""

    name = "rowwise"
    vectorize_loops = False
    collapses = True

    def plan(self, function: KernelFunction, target: CpuTarget) -> RowwisePlan | None:
        """A plan for reductions and point-wise ops in any order."""
        if not function.reductions or not all(op.name in POINTWISE_OPS for op in function.tensor_ops):
            return None
        return make_plan(function, target) if intermediates_are_static(function) else None

    def emit(self, plan: RowwisePlan, kernel: KernelBuilder) -> None:
        """Emit the kernel as planned."""
        mark_softmax(plan.function, plan.dimensions, plan.fixed)
        kernel.choice = plan.choice
        kernel.grid(lambda: grid(kernel, plan))
        with kernel.body():
            if _streams(plan, kernel.target):
                streaming.emit(kernel, lambda: _emit_block(kernel, plan))
            else:
                _emit_block(kernel, plan)


def _streams(plan: RowwisePlan, target: CpuTarget) -> bool:
    """Whether results may be stored past the caches. Values that a stage keeps for later ones, otherwise in a result's
    memory, must then fit a quarter of L2."""
    size = 0
    for value in plan.stages.kept:
        type_ = ir.RankedTensorType(value.type)
        extents = [type_.shape[a] for a in _axes_within_row(plan, value)]
        if plan.across is not None or DYNAMIC in extents:
            return False
        size += storage_bytes(type_.element_type) * math.prod(extents)
    return plan.together * size <= target.machine.l2_bytes // 4


def _axes_within_row(plan: RowwisePlan, value: ir.Value) -> list[int]:
    return [a for a, d in enumerate(plan.dimensions.axes(value)) if d not in plan.fixed]


def _emit_block(kernel: KernelBuilder, plan: RowwisePlan) -> None:
    rows, columns = blocking(kernel, plan)
    extents = [extent_of(kernel, plan, d) for d in plan.outer]
    total = index.product(extents)
    first = index.mul(kernel.workgroup(0), rows)
    last = index.minimum(index.add(first, rows), total)

    def point(row: Index) -> dict[Dimension, Coordinate]:
        return dict(zip(plan.outer, index.delinearize(row, extents), strict=True))

    if plan.across is not None:
        kept, scratch = _scratch_for_costly(kernel, plan), Scratch(kernel)
        with kernel.loop(first, last) as row:
            _emit_across(kernel, plan, point(row.iv), kept, scratch, columns)
        return
    known = isinstance(rows, int) and isinstance(total, int)
    whole = known and rows % plan.together == 0 and total % plan.together == 0
    _emit_rows(kernel, plan, (first, last), point, whole)


def emit_span(
    kernel: KernelBuilder, plan: RowwisePlan, fixed: Mapping[Dimension, Coordinate], dimension: Dimension, span: Span
) -> None:
    """The rows of ``span`` along one of the outer dimensions, at a point of the others."""
    mark_softmax(plan.function, plan.dimensions, plan.fixed)
    _emit_rows(kernel, plan, span, lambda row: {**fixed, dimension: row}, False)


def _emit_rows(
    kernel: KernelBuilder,
    plan: RowwisePlan,
    span: Span,
    point: Callable[[Index], dict[Dimension, Coordinate]],
    whole: bool,
) -> None:
    """The rows of a span, ``plan.together`` at a time, then one by one unless ``whole`` says that none remain.
    ``point``: where a row is."""
    places = [(_scratch_for_costly(kernel, plan), Scratch(kernel)) for _ in range(plan.together)]
    first, last = span
    middle = index.sub(last, index.mod(index.sub(last, first), plan.together))
    with kernel.loop(first, middle, plan.together) as it:
        points = [point(index.add(it.iv, n)) for n in range(plan.together)]
        rows = [Row(Evaluator(kernel), p, *place) for p, place in zip(points, places, strict=True)]
        for n, row in enumerate(rows if plan.fetches_ahead else ()):
            row.ahead = point(index.minimum(index.add(it.iv, plan.together + n), index.sub(last, 1)))
        _emit_together(kernel, plan, rows)
    if plan.together == 1 or whole:
        return
    with kernel.loop(middle, last) as it:
        _emit_together(kernel, plan, [Row(Evaluator(kernel), point(it.iv), *places[0])])


def _emit_across(
    kernel: KernelBuilder,
    plan: RowwisePlan,
    fixed: dict[Dimension, Coordinate],
    kept: dict[ir.Value, Buffer],
    scratch: Scratch,
    columns: Index,
) -> None:
    assert plan.across is not None
    extent = extent_of(kernel, plan, plan.across)
    start = index.mul(kernel.workgroup(1), columns)
    end = index.minimum(index.add(start, columns), extent)
    if plan.has_long_columns:
        assert isinstance(columns, int)
        Columns(kernel, plan, fixed, (start, end), columns, kept).emit()
        return
    whole = index.add(start, index.mul(index.floordiv(index.sub(end, start), plan.lanes), plan.lanes))
    with kernel.loop(start, whole, plan.lanes) as block:
        point = {**fixed, plan.across: Lane(block.iv)}
        _emit_together(kernel, plan, [Row(Evaluator(kernel, plan.lanes), point, kept, scratch)])
    if isinstance(extent, int) and extent % plan.lanes == 0:
        return
    with kernel.loop(whole, end, plan.lanes) as block:
        mask = tail_mask(plan.lanes, index.sub(end, block.iv))
        point = {**fixed, plan.across: Lane(block.iv)}
        _emit_together(kernel, plan, [Row(Evaluator(kernel, plan.lanes, mask), point, kept, scratch)])


def _emit_together(kernel: KernelBuilder, plan: RowwisePlan, rows: list[Row]) -> None:
    """All stages of these rows; each stage runs for all rows before the next one."""
    for number, generic in enumerate(plan.function.reductions):
        reduce(kernel, plan, rows, generic, number)
        for row in rows:
            for value in plan.stages.kept_by(number):
                if value in row.kept:
                    row.evaluator.keep(value, row.kept[value])
    _emit_results(kernel, plan, rows)


def _emit_results(kernel: KernelBuilder, plan: RowwisePlan, rows: list[Row]) -> None:
    """Store the results that no reduction has stored itself, those of the same row shape in one loop."""
    fixed = rows[0].fixed
    for numbers in _loops(plan, set(fixed)):
        port = plan.function.results[numbers[0]]
        axes = plan.dimensions.axes(port.value)
        wheres: list[list[Coordinate]] = [[row.fixed.get(d, 0) for d in axes] for row in rows]
        inner = [a for a, d in enumerate(axes) if d not in fixed]
        _store_results(kernel, plan, rows, numbers, port, inner, wheres)


def _loops(plan: RowwisePlan, fixed: set[Dimension]) -> list[list[int]]:
    """The numbers of the results that no reduction stores, grouped by the loop that stores them: one loop takes results
    whose axes have the same extents and are fixed alike."""
    reduced = {r for g in plan.function.reductions for r in g.results}
    loops: dict[tuple[object, ...], list[int]] = {}
    for number, port in enumerate(plan.function.results):
        if port.value not in reduced:
            places = tuple(d if d in fixed else None for d in plan.dimensions.axes(port.value))
            loops.setdefault((places, tuple(port.type.shape), port.dims), []).append(number)
    return list(loops.values())


def _store_results(
    kernel: KernelBuilder,
    plan: RowwisePlan,
    rows: list[Row],
    numbers: list[int],
    port: Port,
    inner: list[int],
    wheres: list[list[Coordinate]],
) -> None:
    extents = kernel.extents(port.value)
    shape = plan.shape if plan.across is None else Shape(1, 1, False)
    if len(inner) > 1 or (inner and (shape.lanes == 1 or inner[0] != port.type.rank - 1)):
        axis, *rest = inner
        with kernel.loop(0, extents[axis]) as it:
            inside = [with_coordinate(w, axis, it.iv) for w in wheres]
            _store_results(kernel, plan, rows, numbers, port, rest, inside)
        return

    def point(place: list[Coordinate], evaluator: Evaluator) -> None:
        values = [evaluator.at(plan.function.results[n].value, place) for n in numbers]
        for n, value in zip(numbers, values, strict=True):
            evaluator.store(evaluator.result(n), place, value)

    if not inner:
        for row, where in zip(rows, wheres, strict=True):
            point(where, row.evaluator.fork(mask=row.evaluator.mask))
        return
    extent = extents[inner[0]]
    shape = shape.limited(extent) if isinstance(extent, int) else shape
    shape = Shape(max(shape.lanes, shape.wide // len(rows)), shape.lanes, shape.masked)

    def emit(c: Coordinate, lanes: int, mask: ir.Value | None) -> None:
        for row, where in zip(rows, wheres, strict=True):
            point(with_coordinate(where, inner[0], c), row.evaluator.fork(lanes, mask))

    vector_loop(kernel, 0, extent, shape, emit)


def _scratch_for_costly(kernel: KernelBuilder, plan: RowwisePlan) -> dict[ir.Value, Buffer]:
    """A buffer for each costly value that several stages read: a result's own memory where it fits, else scratch.

    Storing the result overwrites that memory, so this must be its last reader. All results that are stored at the end
    are stored in one loop over the value's axes.
    """
    kept: dict[ir.Value, Buffer] = {}
    taken: set[int] = set()
    aliased = {r for r, _ in plan.function.may_alias}
    fixed = plan.fixed
    reduced = {r for g in plan.function.reductions for r in g.results}
    stored = [tuple(plan.dimensions.axes(p.value)) for p in plan.function.results if p.value not in reduced]
    loops = len(stored) if plan.has_long_columns else len(_loops(plan, fixed))
    for value in plan.stages.kept:
        type_ = ir.RankedTensorType(value.type)
        axes = plan.dimensions.axes(value)
        one_loop = loops == 1 and all(s == tuple(axes) for s in stored)
        for number, port in enumerate(plan.function.results if one_loop else ()):
            fits = port.type.element_type == type_.element_type and plan.dimensions.axes(port.value) == axes
            free = number not in taken and number not in aliased and port.binding not in kernel.streaming
            if fits and free and port.value not in reduced:
                taken.add(number)
                kept[value] = kernel.buffer(port)
                break
        if value in kept or plan.across is not None:
            continue
        inner = _axes_within_row(plan, value)
        shape = [type_.shape[a] for a in inner]
        if DYNAMIC in shape:
            continue  # computed again by each stage
        local = kernel.local(shape, type_.element_type)
        kept[value] = Buffer(local, type_.element_type, tuple(inner), (0,) * len(inner))
    return kept
