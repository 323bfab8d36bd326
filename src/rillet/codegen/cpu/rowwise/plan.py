"""How a kernel with reductions is cut: what runs row by row, where the lanes are, how many rows a workgroup takes."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from torch_mlir import ir

from rillet.codegen import index
from rillet.codegen.cpu.caches import read_ahead
from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.vector_loop import Shape, shape_for
from rillet.codegen.index import Index
from rillet.codegen.knobs import Choice
from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.codegen.recognize.shared_dimensions import Dimension, Dimensions
from rillet.codegen.recognize.stages import Stages
from rillet.ir.dtypes import storage_bytes
from rillet.ir.structured import DYNAMIC

_BLOCK_BYTES = 32 * 1024
_LONG_COLUMNS = 512  # columns of a workgroup where columns are long, which makes runs worth reading ahead
_TOGETHER = 4  # rows that go through the stages side by side, so that the ends of their reductions overlap
_MOST_TOGETHER = 8  # the most that tuning can ask for: each is a copy of the code


@dataclass(frozen=True)
class RowwisePlan:
    """How a kernel with reductions is cut: the dimensions that are fixed, the lanes, and the rows taken together."""

    function: KernelFunction
    dimensions: Dimensions
    outer: tuple[Dimension, ...]  # fixed one point at a time
    across: Dimension | None  # fixed one vector of lanes at a time
    along: Dimension | None  # vectorized within a row
    lanes: int  # of a vector across rows
    shape: Shape  # of the runs along a row
    together: int  # rows that go through the stages side by side
    fetches_ahead: bool  # whether a row's last reduction fetches the next row; its own data is in L1 by then
    has_long_columns: bool  # lanes across rows, and columns so long that they are read in bands (``columns``)
    stages: Stages

    @property
    def fixed(self) -> set[Dimension]:
        """The dimensions that tell rows apart."""
        return {*self.outer} if self.across is None else {*self.outer, self.across}

    @property
    def choice(self) -> Choice:
        """The rows taken side by side where lanes run along rows, and the vectors in flight."""
        made = self.shape.choice
        if self.along is None:
            return made
        return Choice(made.problem, dataclasses.replace(made.knobs, tile_rows=self.together))


def make_plan(function: KernelFunction, target: CpuTarget) -> RowwisePlan:
    """Plans a row-wise kernel: lanes along the dimension that is contiguous in memory, within a row or across rows."""
    dimensions = Dimensions(function)
    shared = dimensions.shared()
    stages = Stages(function, dimensions, set(shared))
    machine = target.machine
    shape = shape_for(function, machine.vector_bits, machine.vector_registers, costly=stages.are_costly)
    along, across = (None, None) if shape.lanes == 1 else _vector_dimension(function, dimensions, shared)
    lanes = 1 if across is None else _lanes_across(function, dimensions, across, shape.wide)
    if lanes == 1:
        across = None
    outer = tuple(d for d in shared if d != across)
    together = 1 if along is None else _rows_together(function, dimensions, set(outer), target)
    if along is not None and function.knobs.tile_rows:
        together = min(function.knobs.tile_rows, _MOST_TOGETHER)
    long = across is not None and _has_long_columns(function, dimensions, set(outer), across, lanes, target)
    ahead = along is not None and len(function.reductions) > 1 and read_ahead.is_beyond_l2(function, target)
    return RowwisePlan(
        function=function,
        dimensions=dimensions,
        outer=outer,
        across=across,
        along=along,
        lanes=lanes,
        shape=shape,
        together=together,
        fetches_ahead=ahead,
        has_long_columns=long,
        stages=stages,
    )


def intermediates_are_static(function: KernelFunction) -> bool:
    """Whether the reduction results that a row keeps for later stages have known sizes."""
    if not any(DYNAMIC in generic.extents for generic in function.reductions):
        return True
    dimensions = Dimensions(function)
    fixed, given = set(dimensions.shared()), {port.value for port in function.results}
    for generic in function.reductions:
        inner = [n for n in generic.parallel_loops if dimensions.loop(generic, n) not in fixed]
        kept = any(result not in given for result in generic.results)
        if kept and any(generic.extents[n] == DYNAMIC for n in inner):
            return False
    return True


def _has_long_columns(
    function: KernelFunction,
    dimensions: Dimensions,
    outer: set[Dimension],
    across: Dimension,
    lanes: int,
    target: CpuTarget,
) -> bool:
    """Whether a vector of columns takes more than the L1 cache, where all stages run down the same single dimension."""
    if target.deployment.small_code:
        return False
    fixed = {*outer, across}
    down: set[Dimension] = set()
    size, extent = 0, 0
    for generic in function.reductions:
        extents = dict(enumerate(generic.extents))
        loops = [n for n in generic.reduction_loops if extents[n] != 1]
        inner = [n for n in generic.parallel_loops if extents[n] != 1 and dimensions.loop(generic, n) not in fixed]
        elements = [ir.RankedTensorType(r.type).element_type for r in generic.results]
        if len(loops) != 1 or inner or any(across not in dimensions.axes(r) for r in generic.results):
            return False
        if any(storage_bytes(e) < 4 for e in elements):
            return False  # accumulators would be rounded on their way through memory
        down.add(dimensions.loop(generic, loops[0]))
        extent = extents[loops[0]]
        size = max(size, *(storage_bytes(e) for e in elements))
    reduced = {r for g in function.reductions for r in g.results}
    for port in function.results:
        axes = [d for d in dimensions.axes(port.value) if d not in fixed]
        if port.value not in reduced and (len(axes) != 1 or axes[0] not in down):
            return False
    return len(down) == 1 and extent != DYNAMIC and extent * lanes * size >= target.machine.l1d_bytes


def _rows_together(function: KernelFunction, dimensions: Dimensions, fixed: set[Dimension], target: CpuTarget) -> int:
    """The rows whose reads and writes fill less than half of L1: at most ``_TOGETHER``, and no more than exist. In
    longer rows the ends of reductions hardly count, and fewer streams read faster."""
    if target.deployment.small_code:
        return 1
    row_bytes, rows = 0, 1
    for port in (*function.arguments, *function.results):
        extents = dict(zip(dimensions.axes(port.value), port.type.shape, strict=True))
        inside = [e for d, e in extents.items() if d not in fixed and e != DYNAMIC]
        if len(inside) == len(extents):
            continue  # the same for all rows
        row_bytes += storage_bytes(port.type.element_type) * math.prod(inside)
        outside = [_TOGETHER if e == DYNAMIC else e for d, e in extents.items() if d in fixed]
        rows = max(rows, math.prod(outside))
    together = _TOGETHER
    while together > 1 and (together * row_bytes >= target.machine.l1d_bytes // 2 or together > rows):
        together //= 2
    return together


def _vector_dimension(
    function: KernelFunction, dimensions: Dimensions, shared: list[Dimension]
) -> tuple[Dimension | None, Dimension | None]:
    """(along, across): the contiguous dimension of the reductions' operands, within a row or across rows."""
    read = [p for p in function.arguments if p.type.rank]
    if not read:
        return None, None
    rank = max(p.type.rank for p in read)
    last = [dimensions.axis(p.value, p.type.rank - 1) for p in read if p.type.rank == rank and p.type.shape[-1] != 1]
    result = function.results[0]
    result_last = dimensions.axis(result.value, result.type.rank - 1) if result.type.rank else None
    across = [d for d in last if d in shared]
    # Where operands disagree (a matrix product), lanes across rows keep every store contiguous.
    if across and (len(across) == len(last) or result_last in across):
        return None, result_last if result_last in across else across[0]
    return (last[0] if last else None), None


def _lanes_across(function: KernelFunction, dimensions: Dimensions, across: Dimension, wide: int) -> int:
    """Lanes across rows: several registers, for independent accumulators and whole cache lines, but no more than there
    are rows."""
    for port in (*function.results, *function.arguments):
        for axis, extent in enumerate(port.type.shape):
            if dimensions.axis(port.value, axis) == across and extent != DYNAMIC:
                while wide > 1 and wide >= 2 * extent:
                    wide //= 2
                return wide
    return wide


def extent_of(kernel: KernelBuilder, plan: RowwisePlan, dimension: Dimension) -> Index:
    """The extent of a shared dimension."""
    result = plan.function.results[0]
    return kernel.extents(result.value)[plan.dimensions.axes(result.value).index(dimension)]


def _row_elements(kernel: KernelBuilder, plan: RowwisePlan) -> Index:
    """Elements of the largest argument within one row."""
    fixed = plan.fixed
    largest: Index = 1
    for port in plan.function.arguments:
        extents = kernel.extents(port.value)
        inner = [e for axis, e in enumerate(extents) if plan.dimensions.axis(port.value, axis) not in fixed]
        largest = index.maximum(largest, index.product(inner))
    return largest


def _element_bytes(plan: RowwisePlan) -> int:
    ports = (*plan.function.arguments, *plan.function.results)
    return max(storage_bytes(p.type.element_type) for p in ports)


def blocking(kernel: KernelBuilder, plan: RowwisePlan) -> tuple[Index, Index]:
    """The rows of a workgroup along the outer dimensions, and across the lanes (a multiple of the lanes)."""
    budget = max(1, _BLOCK_BYTES // _element_bytes(plan))
    per_row = index.maximum(1, index.floordiv(budget, index.maximum(1, _row_elements(kernel, plan))))
    if plan.across is None:
        return per_row, 1
    if plan.has_long_columns:
        return 1, max(plan.lanes, _LONG_COLUMNS)
    vectors = index.maximum(1, index.floordiv(per_row, plan.lanes))
    extent = extent_of(kernel, plan, plan.across)
    vectors = index.minimum(vectors, index.maximum(1, index.ceildiv(extent, plan.lanes)))
    return index.maximum(1, index.floordiv(per_row, index.mul(vectors, plan.lanes))), index.mul(vectors, plan.lanes)


def grid(kernel: KernelBuilder, plan: RowwisePlan) -> list[Index]:
    """The numbers of workgroups along the outer dimensions and across lanes."""
    rows, columns = blocking(kernel, plan)
    total = index.product([extent_of(kernel, plan, d) for d in plan.outer])
    across = 1 if plan.across is None else extent_of(kernel, plan, plan.across)
    return [index.ceildiv(total, rows), index.ceildiv(across, columns)]
