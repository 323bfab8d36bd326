"""What is decided about a contraction's kernel before anything is emitted."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rillet.codegen import index
from rillet.codegen.cpu import cost_model
from rillet.codegen.cpu.cost_model import Blocks
from rillet.codegen.cpu.dot_products import DotProducts, products_of
from rillet.codegen.cpu.machine import CpuTarget, with_integer_sums
from rillet.codegen.emit.blocks import Tile
from rillet.codegen.emit.extents import loop_sizes
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.index import Index
from rillet.codegen.knobs import Choice, Knobs
from rillet.codegen.recognize.contraction import LinearContraction, operations, recognize
from rillet.codegen.recognize.epilogue import Epilogue, epilogue_of
from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.codegen.recognize.linear_access import Access, argument_of
from rillet.codegen.recognize.narrow_factors import NarrowFactor, factors_of
from rillet.ir.dtypes import storage_bytes
from rillet.ir.structured import DYNAMIC

_MOST_PAIRED_STEPS = 16384  # rows of a tile in scratch, in 16 bits, are a part of L2


@dataclass(frozen=True)
class Axis:
    """Neighbouring root loops walked as one: the innermost carries the position, the others stay at 0."""

    loops: tuple[int, ...]
    extent: int  # DYNAMIC when not known at compile time

    @property
    def inner(self) -> int:
        return self.loops[-1]


@dataclass(frozen=True)
class Plan:
    """How a contraction is tiled. Positions on a group of axes are flat, row-major."""

    contraction: LinearContraction
    epilogue: Epilogue
    batch_axes: tuple[Axis, ...]
    m_axes: tuple[Axis, ...]
    k_axes: tuple[Axis, ...]
    lhs_is_flat: bool  # all rows together are one axis of the lhs, whatever the epilogue needs
    tile: Tile
    blocks: Blocks
    pack: bool  # copy the rhs's panel to scratch first
    reduction_block: int  # iterations of the first reduction axis done at a time, partial sums in scratch; 0 for all
    run: int  # elements along the innermost reduction axis that are read together from the lhs; 0: one by one
    prefetch: bool  # fetch the next column tile's panels while row tiles use the current ones
    spread: bool  # copy the lhs rows of a block to scratch first, each element into all lanes of a vector
    pairs: tuple[NarrowFactor, NarrowFactor] | None  # narrow integers, two steps at a time, lhs rows in scratch
    groups: DotProducts | None  # narrow integers, a group of steps at a time
    groups_in_place: bool  # the lhs rows of those need no copy
    computes: bool  # factors of the rhs are made of narrower integers
    residuals: tuple[Access, ...]  # what the epilogue reads at the place of its results and no cache holds
    few: tuple[tuple[int, Plan], ...] = ()  # what is done instead where there turn out to be so many rows at most

    @property
    def copies_lhs(self) -> bool:
        """Whether row tiles of the lhs are copied to scratch before they are used."""
        return self.spread or self.pairs is not None or (self.groups is not None and not self.groups_in_place)

    @property
    def shift(self) -> int:
        """What is added to lhs factors, apart from the sum of products."""
        return self.groups.shift if self.groups else 0

    @property
    def grouped_steps(self) -> int:
        """The steps of the reduction, the innermost axis filled up to whole groups."""
        assert self.groups is not None
        *outer, inner = [a.extent for a in self.k_axes]
        return math.prod(outer) * whole_groups(inner, self.groups.steps) * self.groups.steps

    @property
    def steps(self) -> int:
        """The most steps of the reduction that are done at a time (extents known)."""
        first, *inner = [a.extent for a in self.k_axes] or [1]
        return (self.reduction_block or first) * math.prod(inner)

    @property
    def prefetch_parts(self) -> int:
        """In how many parts the next panels are fetched, one during each row tile of a block; 0: they are not. A power
        of two, so that dividing by it is a shift: row tiles beyond it fetch the last part again. One or two row tiles
        leave the memory no time that the hardware's own reading ahead does not use.
        """
        row_tiles = math.ceil(self.blocks.rows / self.tile.rows)
        return 1 << (row_tiles.bit_length() - 1) if self.prefetch and row_tiles > 2 else 0


def make_plan(function: KernelFunction, target: CpuTarget) -> Plan | None:
    """The plan for a kernel that is a contraction with a point-wise epilogue; None for any other."""
    contraction = recognize(function)
    if contraction is None:
        return None
    after = epilogue_of(function, contraction.root)
    return None if after is None else plan_for(function, contraction, after, target, cache_blocks=True)


def plan_for(
    function: KernelFunction,
    contraction: LinearContraction,
    after: Epilogue,
    target: CpuTarget,
    *,
    cache_blocks: bool = False,
) -> Plan | None:
    """The plan for a contraction with this epilogue; None when its rhs cannot be packed.

    With ``cache_blocks`` long reductions may be done in parts, which keeps sums of a block of rows and columns.
    """
    extents = contraction.extents
    lhs, rhs = contraction.lhs, contraction.rhs

    def rows_merge(outer: int, inner: int) -> bool:
        return lhs.merges(outer, inner, extents[inner]) and after.merges(outer, inner, extents[inner])

    def reductions_merge(outer: int, inner: int) -> bool:
        operands = (lhs, rhs, *(which for _, which in contraction.companions))
        return all(which.merges(outer, inner, extents[inner]) for which in operands)

    def batches_merge(outer: int, inner: int) -> bool:
        return rows_merge(outer, inner) and rhs.merges(outer, inner, extents[inner])

    def lhs_merge(outer: int, inner: int) -> bool:
        return lhs.merges(outer, inner, extents[inner])

    batches = merge(contraction.roles.batch, extents, batches_merge)
    rows = merge(contraction.roles.m, extents, rows_merge)
    reductions = merge(contraction.roles.k, extents, reductions_merge)
    m, n, k = guess(rows), guess_extent(extents[contraction.n]), guess(reductions)
    lhs_bytes, rhs_bytes = (
        storage_bytes(element(contraction, x)) for x in (contraction.roles.lhs, contraction.roles.rhs)
    )
    knobs = function.knobs
    accumulator_bytes = storage_bytes(contraction.product.accumulator_type)
    computes = _computes(contraction)
    pack = not rhs.panel and rhs.static_stride(contraction.n) != 1
    # Without a cache a panel takes memory that is scarce, and sums would go through it.
    has_cache = target.machine.l1d_bytes > 0
    if computes and not pack and cache_blocks and has_cache and cost_model.computes_panels(m, operations(contraction)):
        pack, rhs_bytes = True, accumulator_bytes
    is_known = not any(a.extent == DYNAMIC for a in reductions)
    blockable = cache_blocks and not pack and not computes and is_known
    groups = _groups(contraction, reductions, target) if cache_blocks else None
    pairs = _pairs(contraction, reductions, target) if cache_blocks and not pack else None
    if rhs.together > 1 and pairs is None and groups is None:
        return None
    spread = blockable and not pairs and not groups and cost_model.spreads(target, m, n, guess(reductions[1:]))
    sums_are_integers = isinstance(contraction.product.accumulator_type, ir.IntegerType)
    factors = cost_model.Factors(
        element_bytes=rhs_bytes,
        gather=len(rows) > 1,
        spread=spread,
        apart=not rhs.panel and not pack,
        paired=pairs is not None,
        computed=operations(contraction) if computes and not pack else 0,
    )
    registers = with_integer_sums(target) if sums_are_integers else target
    chosen = cost_model.choose_tile(registers, m, n, k, factors, accumulator_bytes=accumulator_bytes)
    if contraction.companions and not pack and chosen.rows == 1:
        chosen = _one_panel(chosen, rhs)
    if groups:
        chosen = groups.tile(target, m, n, math.ceil(k / groups.steps))
    tile = Tile(knobs.tile_rows or chosen.rows, knobs.tile_vectors or chosen.vectors, chosen.lanes)
    residuals = _residuals(function, contraction, after, target)
    lhs_is_flat = len(merge(contraction.roles.m, extents, lhs_merge)) == 1
    blocks = cost_model.choose_blocks(
        target,
        tile,
        batches=guess(batches),
        m=m,
        n=n,
        k=k,
        lhs_bytes=lhs_bytes * math.prod(map(guess_extent, lhs.shape)) // guess(batches),
        rhs_bytes=rhs_bytes * n * k * (cost_model.COMPUTED_READS if computes and pack else 1),
        factors=factors,
        panels=rhs.panel > 0,
        residual=bool(residuals),
    )
    if pairs:
        blocks = _in_l2(blocks, tile, rhs_bytes * k, target)
    blocks = blocks.overruled(tile, m, n, knobs)
    inner = [a.extent for a in reductions[1:]]
    if pack and DYNAMIC in inner:
        return None
    if 1 < tile.lanes < rhs.shared or (contraction.companions and lhs.padding is not None):
        return None
    first = reductions[0].extent if reductions else 1
    block = 0
    if pack:
        block = cost_model.choose_reduction_block(target, first, math.prod(inner), tile, rhs_bytes, computes)
    elif spread:
        block, blocks = cost_model.choose_spread_blocks(
            target, tile, m, n, first, math.prod(inner), accumulator_bytes=accumulator_bytes
        )
        blocks = blocks.overruled(tile, m, n, knobs)
    if knobs.reduction_block is not None and not pairs and not groups and (pack or blockable):
        block = 0 if 0 <= first <= knobs.reduction_block else knobs.reduction_block
    if block and not pack and accumulator_bytes * blocks.rows * blocks.columns > cost_model.MOST_SUMS_BYTES:
        block = 0
    panel_sweeps = rhs.panel > 0 and not block and not spread and not pairs and not groups and not blocks.rows_outer
    prefetch = panel_sweeps and cost_model.prefetches(target, rhs_bytes * n * k)
    run = tile.lanes if _reads_runs(contraction, reductions, target) else 0
    plan = Plan(
        contraction,
        after,
        batches,
        rows,
        reductions,
        lhs_is_flat,
        tile,
        blocks,
        pack,
        block,
        run,
        prefetch,
        spread,
        pairs,
        groups,
        groups is not None and _in_place(lhs, reductions, groups),
        computes,
        residuals,
    )
    if not cache_blocks or not any(extents[n] == DYNAMIC for n in contraction.roles.m):
        return plan
    if rhs.panel and not (computes or pairs or groups) and lhs_is_flat and len(reductions) == 1:
        return dataclasses.replace(plan, few=_for_few_rows(plan, registers, n, k, factors, [1]))
    if pack and computes:
        made = dataclasses.replace(factors, element_bytes=storage_bytes(element(contraction, contraction.roles.rhs)))
        made = dataclasses.replace(made, computed=operations(contraction))
        return dataclasses.replace(plan, few=_for_few_rows(plan, registers, n, k, made, cost_model.FEW_ROWS))
    return plan


def _for_few_rows(
    plan: Plan, target: CpuTarget, n: int, k: int, factors: cost_model.Factors, counts: Sequence[int]
) -> tuple[tuple[int, Plan], ...]:
    """The same grid with tiles for up to so many rows, factors computed as they are multiplied, and lhs elements
    not spread: a copy would be used too seldom.
    """
    contraction, lanes = plan.contraction, plan.tile.lanes
    width = storage_bytes(contraction.product.accumulator_type)
    found = []
    factors = dataclasses.replace(factors, spread=False)
    for rows in counts:
        tile = cost_model.choose_tile(target, rows, n, k, factors, accumulator_bytes=width)
        if contraction.companions and rows == 1:
            tile = _one_panel(tile, contraction.rhs)
        is_all = 0 <= contraction.extents[contraction.n] <= plan.blocks.columns
        vectors = next(v for v in range(tile.vectors, 0, -1) if is_all or plan.blocks.columns % (v * lanes) == 0)
        tile = Tile(tile.rows, vectors, lanes)
        found.append((rows, dataclasses.replace(plan, tile=tile, pack=False, reduction_block=0, spread=False)))
    return tuple(found)


def _one_panel(tile: Tile, rhs: Access) -> Tile:
    """A row by the columns of one panel: parameters stay in registers, and memory is read in its order (measured, 4096
    x 4096: 1.45 ms, with four vectors 1.63, with eight 1.58).
    """
    return dataclasses.replace(tile, rows=1, vectors=max(1, rhs.panel // tile.lanes))


def _computes(contraction: LinearContraction) -> bool:
    """Whether factors of the rhs are floats computed of packed integers, alone or with companions."""
    rhs = contraction.rhs
    is_integer = isinstance(element(contraction, contraction.roles.rhs), ir.IntegerType)
    is_float = isinstance(contraction.product.accumulator_type, ir.FloatType)
    return bool(contraction.companions) or (rhs.panel > 0 and is_integer and is_float)


def _groups(contraction: LinearContraction, reductions: Sequence[Axis], target: CpuTarget) -> DotProducts | None:
    """How products of narrow integers go group by group, where the rhs is packed so and all is known."""
    known = all(axis.extent != DYNAMIC for axis in reductions)
    factors = factors_of(contraction.root, contraction.product)
    if contraction.rhs.together == 1 or not reductions or not known or factors is None:
        return None
    return products_of(target, contraction.rhs, factors)


def _in_place(lhs: Access, reductions: Sequence[Axis], groups: DotProducts) -> bool:
    """Whether whole groups of the lhs rows lie in memory as they are multiplied."""
    *_, innermost = reductions
    has_runs = lhs.static_stride(innermost.inner) == 1 and innermost.extent % groups.steps == 0
    return groups.in_place and lhs.padding is None and has_runs


def whole_groups(steps: int, group: int) -> int:
    """The groups that hold as many steps."""
    return -(-steps // group)


def _pairs(
    contraction: LinearContraction, reductions: Sequence[Axis], target: CpuTarget
) -> tuple[NarrowFactor, NarrowFactor] | None:
    """The factors, where products of narrow integers go two by two: the steps of the rhs lie one beside the
    other, and lhs rows are few enough for scratch."""
    rhs, extents = contraction.rhs, contraction.extents

    def rhs_merges(outer: int, inner: int) -> bool:
        return rhs.merges(outer, inner, extents[inner])

    whole = merge(contraction.roles.k, extents, rhs_merges)
    if not target.machine.multiplies_pairs or len(whole) != 1 or not 2 <= whole[0].extent <= _MOST_PAIRED_STEPS:
        return None
    return factors_of(contraction.root, contraction.product)


def _in_l2(blocks: Blocks, tile: Tile, column_bytes: int, target: CpuTarget) -> Blocks:
    """The same with so few columns that half of L2 holds them, for each row tile passes them all."""
    if not target.machine.l2_bytes:
        return blocks
    most = max(1, target.machine.l2_bytes // 2 // (column_bytes * tile.columns)) * tile.columns
    return dataclasses.replace(blocks, columns=min(blocks.columns, most))


def _residuals(
    function: KernelFunction, contraction: LinearContraction, after: Epilogue, target: CpuTarget
) -> tuple[Access, ...]:
    """The arguments that the epilogue reads in rows along the columns, and that are too large to be in L2."""
    found = []
    for read in after.accesses:
        port = argument_of(function, read.value)
        if port is None or port.binding < 0 or read.static_stride(contraction.n) != 1:
            continue
        size = math.prod(map(guess_extent, read.shape)) * storage_bytes(port.type.element_type)
        if any(read.uses(n) for n in contraction.roles.m) and cost_model.prefetches(target, size):
            found.append(read)
    return tuple(found)


def _reads_runs(contraction: LinearContraction, reductions: Sequence[Axis], target: CpuTarget) -> bool:
    """Whether factors of the lhs come out of vectors of neighbours along the innermost reduction axis."""
    if not target.machine.fma_by_element or not reductions:
        return False
    contiguous = contraction.lhs.static_stride(reductions[-1].inner) == 1
    return contiguous and isinstance(contraction.product.accumulator_type, ir.FloatType)


def choice(plan: Plan, knobs: Knobs) -> Choice:
    """What the plan decides, and for what extents."""
    c, tile, blocks = plan.contraction, plan.tile, plan.blocks
    together = 2 if plan.pairs else plan.groups.steps if plan.groups else 1  # steps that instructions take at once
    problem = {
        "batches": guess(plan.batch_axes),
        "rows": guess(plan.m_axes),
        "columns": guess_extent(c.extents[c.n]),
        "steps": guess(plan.k_axes),
        "run": guess(plan.k_axes[-1:]),
        "outer_steps": guess(plan.k_axes[:1]),
        "lanes": tile.lanes,
        "element_bytes": storage_bytes(element(c, c.roles.rhs)),
        "accumulator_bytes": storage_bytes(c.product.accumulator_type),
        "gather": int(len(plan.m_axes) > 1),
        "together": together,
    }
    run = plan.k_axes[-1].extent if plan.k_axes else 1
    unroll = knobs.unroll or cost_model.choose_unroll(None if run == DYNAMIC else run, tile, plan.run)
    made = Knobs(
        tile_rows=tile.rows,
        tile_vectors=tile.vectors,
        unroll=unroll if together == 1 else together,
        rows_outer=int(blocks.rows_outer or plan.copies_lhs),
        row_tiles=blocks.rows // tile.rows,
        column_tiles=blocks.columns // tile.columns,
        reduction_block=plan.reduction_block,
    )
    return Choice(problem, made)


def merge(loops: Sequence[int], extents: Sequence[int], merges: Callable[[int, int], bool]) -> tuple[Axis, ...]:
    """Join neighbouring loops (outermost first) that ``merges`` allows."""
    groups: list[list[int]] = []
    for loop in loops:
        if groups and merges(groups[-1][-1], loop):
            groups[-1].append(loop)
        else:
            groups.append([loop])
    axes = []
    for group in groups:
        sizes = [extents[n] for n in group]
        axes.append(Axis(tuple(group), DYNAMIC if DYNAMIC in sizes else math.prod(sizes)))
    return tuple(axes)


def guess_extent(extent: int) -> int:
    """The extent, or what the cost model takes an unknown one for."""
    return cost_model.DYNAMIC_EXTENT if extent == DYNAMIC else extent


def guess(axes: Sequence[Axis]) -> int:
    """The number of iterations of all axes, unknown extents guessed."""
    return math.prod(guess_extent(a.extent) for a in axes)


def element(contraction: LinearContraction, number: int) -> ir.Type:
    """The element type of an operand of the root."""
    return ir.RankedTensorType(contraction.root.inputs[number].type).element_type


def grid(kernel: KernelBuilder, plan: Plan) -> list[Index]:
    """The workgroup grid: column blocks, row blocks, batch blocks."""
    sizes = loop_sizes(kernel, plan.contraction.root)
    batches = index.product([axis_size(a, sizes) for a in plan.batch_axes])
    rows = index.product([axis_size(a, sizes) for a in plan.m_axes])
    columns = sizes[plan.contraction.n]
    return [
        index.ceildiv(columns, plan.blocks.columns),
        index.ceildiv(rows, plan.blocks.rows),
        index.ceildiv(batches, plan.blocks.batches),
    ]


def axis_size(axis: Axis, sizes: Sequence[Index]) -> Index:
    """The number of iterations of an axis."""
    return index.product([sizes[n] for n in axis.loops])
