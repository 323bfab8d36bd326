"""Decisions about a chain before anything is emitted: which loops of each stage belong to the chain, and how many rows
a workgroup takes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from torch_mlir import ir

from rillet.codegen.cpu.contraction.axes import element, guess, guess_extent
from rillet.codegen.cpu.contraction.plan import ContractionPlan
from rillet.codegen.cpu.contraction.plan import choice as contraction_choice
from rillet.codegen.cpu.contraction.planner import plan_for
from rillet.codegen.cpu.cost_model import SPLIT_CYCLES, Factors, grid_cycles
from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.cpu.rowwise.plan import RowwisePlan
from rillet.codegen.cpu.rowwise.plan import make_plan as rowwise_plan_of
from rillet.codegen.knobs import Choice, Knobs
from rillet.codegen.recognize.chain_stages import Stage, cut, is_root
from rillet.codegen.recognize.contraction import LinearContraction, recognize
from rillet.codegen.recognize.epilogue import epilogue_of
from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.codegen.recognize.shared_dimensions import Dimension
from rillet.ir.dtypes import storage_bytes
from rillet.ir.linear import Linear
from rillet.ir.structured import DYNAMIC

_MOST_ROWS = 64  # of a block; larger blocks would only be too few to share
Axes: TypeAlias = tuple[int | None, ...]  # the loop of the chain that each axis of a tensor is, or None


@dataclass(frozen=True)
class ContractionStage:
    """A contraction. ``fixed``: the root's loop for each loop of the chain except the rows; ``rows``: the root's loop
    over the rows."""

    stage: Stage
    plan: ContractionPlan
    fixed: tuple[int | None, ...]
    rows: int


@dataclass(frozen=True)
class RowStage:
    """Row-wise reductions; their dimensions stand where a contraction has loops."""

    stage: Stage
    plan: RowwisePlan
    fixed: tuple[Dimension | None, ...]
    rows: Dimension


@dataclass(frozen=True)
class Tile:
    """A value that passes from stage to stage: a workgroup holds ``rows`` x ``shape`` elements of it along ``axes``.

    ``over``: the value whose memory it takes.
    """

    value: ir.Value
    axes: tuple[int, ...]  # the axis of the rows, then the axes within a row
    shape: tuple[int, ...]
    over: ir.Value | None = None

    @property
    def element(self) -> ir.Type:
        """The tensor's element type."""
        return ir.RankedTensorType(self.value.type).element_type

    @property
    def unit(self) -> int:
        """Bytes of a row; bytes of an element where a row's length is known at run time only."""
        size = storage_bytes(self.element)
        return size if self.grows else math.prod(self.shape) * size

    @property
    def grows(self) -> bool:
        """Whether an extent is known at run time only."""
        return DYNAMIC in self.shape


@dataclass(frozen=True)
class ChainPlan:
    """The chain's loops are the first stage's loops except the columns. The last of them runs over the rows: a
    workgroup takes ``rows`` of them at one point of the other loops."""

    stages: tuple[ContractionStage | RowStage, ...]
    rows: int  # at most, when tiles grow
    step: int  # rows of whole register tiles of every contraction
    room: int  # bytes for the tiles
    tiles: tuple[Tile, ...]

    @property
    def growing(self) -> tuple[Tile, ...]:
        """The tiles with an extent that is known at run time only."""
        return tuple(tile for tile in self.tiles if tile.grows)


def make_plan(function: KernelFunction, target: CpuTarget) -> ChainPlan | None:
    """The plan for a kernel that is a chain; None for any other."""
    stages = cut(function)
    if stages is None:
        return None
    planned: list[ContractionStage | RowStage] = []
    tiles: list[Tile] = []
    known: dict[ir.Value, Axes] = {}
    for number, stage in enumerate(stages):
        if len(stage.results) != 1 or (stage.results[0].binding < 0) != (number < len(stages) - 1):
            return None
        if len([a for a in stage.arguments if a.binding < 0]) != min(number, 1):
            return None
        made = _contraction(stage, known, target) if _has_root(stage) else _rows(stage, known, target)
        if made is None:
            return None
        planned.append(made[0])
        value = stage.results[0].value
        known = {value: made[1]}
        if number < len(stages) - 1:
            tile = _tile(value, made[1], len(made[0].fixed))
            if tile is None:
                return None
            if tiles and isinstance(made[0], RowStage) and _overwrites(made[0], tiles[-1], tile):
                stage.in_place = True
                tile = dataclasses.replace(tile, over=tiles[-1].value)
            tiles.append(tile)
    first = planned[0]
    if not isinstance(first, ContractionStage):
        return None
    if any(t.grows for t in tiles) and first.plan.contraction.extents[first.rows] != DYNAMIC:
        return None
    step = math.lcm(*(s.plan.tile.rows for s in planned if isinstance(s, ContractionStage)))
    room = target.machine.l2_bytes // 2
    rows = _rows_of_a_workgroup(first, planned, tiles, step, target)
    if wanted := function.knobs.row_tiles:
        total = first.plan.contraction.extents[first.rows]
        rows = step * (wanted if total == DYNAMIC else min(wanted, math.ceil(total / step)))
    return ChainPlan(
        stages=tuple(planned),
        rows=rows,
        step=step,
        room=room,
        tiles=tuple(tiles),
    )


def choice(plan: ChainPlan) -> Choice:
    """The chain's decisions and extents, and those of each stage."""
    stages = tuple(_stage_choice(stage) for stage in plan.stages)
    first = plan.stages[0]
    assert isinstance(first, ContractionStage)
    extents = first.plan.contraction.extents
    points = math.prod(guess_extent(extents[n]) for n in first.fixed if n is not None)
    problem = {
        "points": points,
        "rows": guess_extent(extents[first.rows]),
        "row_bytes": sum(t.unit for t in plan.tiles if t.over is None and not t.grows),
        "step": plan.step,
    }
    for number, stage in enumerate(stages):
        if isinstance(plan.stages[number], ContractionStage):
            problem |= {f"{name}_{number}": stage.problem[name] for name in ("columns", "steps")}
    return Choice(problem, Knobs(row_tiles=plan.rows // plan.step, stages=tuple(s.knobs for s in stages)), stages)


def _stage_choice(stage: ContractionStage | RowStage) -> Choice:
    if isinstance(stage, RowStage):
        return stage.plan.choice
    made = contraction_choice(stage.plan, stage.stage.knobs)
    # Rows come from the chain's block, and a workgroup has all columns.
    return dataclasses.replace(made, knobs=dataclasses.replace(made.knobs, row_tiles=None, column_tiles=None))


def _has_root(stage: Stage) -> bool:
    return any(is_root(g) for g in stage.reductions)


def _contraction(stage: Stage, known: dict[ir.Value, Axes], target: CpuTarget) -> tuple[ContractionStage, Axes] | None:
    """A contraction stage and the axes of its result; ``known``: the axes of the value that it receives."""
    contraction = recognize(stage)
    if contraction is None or contraction.lhs.padding is not None:
        return None
    after = epilogue_of(stage, contraction.root)
    if after is None or any(o.value != stage.results[o.number].value or o.frame is not None for o in after.outputs):
        return None
    loops = _linked_loops(contraction, known) if known else (*contraction.roles.batch, *contraction.roles.m)
    if not loops or (rows := loops[-1]) is None:
        return None
    fixed = tuple(n for n in loops[:-1] if n is not None)
    parallel = {n for n in contraction.root.parallel_loops if contraction.extents[n] != 1}
    if parallel - {*loops, contraction.n} or contraction.n in loops:
        return None
    by_row = contraction.over(batch=fixed, m=(rows,))
    plan = plan_for(stage, by_row, after, target)
    axes = _axes_of(after.outputs[0].forms, loops)
    return None if plan is None or axes is None else (ContractionStage(stage, plan, loops[:-1], rows), axes)


def _linked_loops(contraction: LinearContraction, known: dict[ir.Value, Axes]) -> tuple[int | None, ...] | None:
    """The contraction's loops over those axes of the lhs that belong to the chain."""
    lhs = contraction.lhs
    if lhs.value not in known or contraction.rhs.value in known or lhs.panel:
        return None
    axes = known[lhs.value]
    count = 1 + max(n for n in axes if n is not None)
    loops: list[int | None] = [None] * count
    for form, loop, extent in zip(lhs.axes, axes, lhs.shape, strict=True):
        if extent == 1:
            continue
        only = form.only()
        if only is None or (loop is None) == (only in contraction.root.parallel_loops):
            return None
        if loop is not None:
            loops[loop] = only
    return tuple(loops)


def _axes_of(forms: Sequence[Linear], loops: tuple[int | None, ...]) -> Axes | None:
    """The chain's loops along the axes of a contraction's result."""
    axes: list[int | None] = []
    for form in forms:
        only = form.only()
        if only is None and (any(form.coefficients) or form.constant):
            return None
        axes.append(loops.index(only) if only is not None and only in loops else None)
    return tuple(axes)


def _rows(stage: Stage, known: dict[ir.Value, Axes], target: CpuTarget) -> tuple[RowStage, Axes] | None:
    """A row-wise stage and the axes of its result."""
    if not known:
        return None
    plan = rowwise_plan_of(stage, target)
    (value, axes), *_ = known.items()
    dimensions: list[Dimension | None] = [None] * (1 + max(n for n in axes if n is not None))
    extents = ir.RankedTensorType(value.type).shape
    for axis, loop in enumerate(axes):
        dimension = plan.dimensions.axis(value, axis)
        if loop is not None:
            dimensions[loop] = dimension
        elif extents[axis] != 1 and dimension in plan.outer:
            return None
    (port,) = stage.results
    result = [plan.dimensions.axis(port.value, n) for n in range(port.type.rank)]
    outer = {d for d, e in zip(result, port.type.shape, strict=True) if d in plan.outer and e != 1}
    named = [d for d in dimensions if d is not None]
    if plan.across is not None or outer != {*named} or len(named) != len({*named}):
        return None
    *fixed, rows = dimensions
    if rows is None:
        return None
    axes_made = tuple(dimensions.index(d) if d in named else None for d in result)
    return RowStage(stage, plan, tuple(fixed), rows), axes_made


def _overwrites(rows: RowStage, taken: Tile, made: Tile) -> bool:
    """Whether a row of the stage's result may overwrite the same row of its argument. The result must be stored in one
    loop, at the end, and until then only its own element may be read from the argument."""
    (port,) = rows.stage.results
    generic = rows.stage.generic_of(port.value)
    if generic is None or not generic.is_parallel:
        return False
    dimensions = rows.plan.dimensions
    axes = dimensions.axes(taken.value)
    if taken.grows:
        return False  # costly values that are kept need the result's memory
    same = dimensions.axes(port.value) == axes and not any(dimensions.is_shifted(d) for d in axes)
    types = {ir.RankedTensorType(v.type).element_type for v in (taken.value, made.value)}
    return same and len(types) == 1 and (taken.axes, taken.shape) == (made.axes, made.shape)


def _tile(value: ir.Value, axes: Axes, row: int) -> Tile | None:
    """The part of a value that a workgroup holds; None when its rows are not contiguous. ``row``: the chain's loop over
    the rows."""
    shape = ir.RankedTensorType(value.type).shape
    inner = tuple(n for n, loop in enumerate(axes) if loop is None and shape[n] != 1)
    if (
        row not in axes
        or any(n < axes.index(row) for n in inner)
        or (len(inner) > 1 and any(shape[n] == DYNAMIC for n in inner))
    ):
        return None
    return Tile(value, (axes.index(row), *inner), tuple(shape[n] for n in inner))


def _rows_of_a_workgroup(
    first: ContractionStage,
    stages: Sequence[ContractionStage | RowStage],
    tiles: Sequence[Tile],
    step: int,
    target: CpuTarget,
) -> int:
    """Rows of a block: whole register tiles of every contraction. Blocks have about the same size, fit half of L2, and
    come in a number that two workers share evenly."""
    contractions = [s.plan for s in stages if isinstance(s, ContractionStage)]
    room = target.machine.l2_bytes // 2 // sum(t.unit for t in tiles if t.over is None)
    most = max(1, min(room, _MOST_ROWS) // step)
    extents = first.plan.contraction.extents
    total, points = extents[first.rows], math.prod(extents[n] for n in first.fixed if n is not None)
    if total == DYNAMIC:
        return most * step
    steps = math.ceil(total / step)
    blocks = math.ceil(steps / most)
    if points % 2 and blocks % 2 and blocks < steps and _is_long(contractions, total, target):
        blocks += 1
    return math.ceil(steps / blocks) * step


def _is_long(contractions: Sequence[ContractionPlan], rows: int, target: CpuTarget) -> bool:
    """Whether a chain of ``rows`` rows is worth more than one worker."""
    cycles = 0.0
    for plan in contractions:
        c = plan.contraction
        columns, depth = (
            guess_extent(c.extents[c.n]),
            guess(plan.axes.k),
        )
        factors = Factors(storage_bytes(element(c, c.roles.rhs)))
        cycles += grid_cycles(target, plan.tile, rows, columns, depth, factors)
    return target.deployment.threads and cycles >= SPLIT_CYCLES
