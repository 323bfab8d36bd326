"""Decides how a contraction is tiled and how its factors are read, step by step."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rillet.codegen.cpu import cost_model
from rillet.codegen.cpu.contraction.axes import Axes, axes_of, element, guess, guess_extent, merge
from rillet.codegen.cpu.contraction.plan import ContractionPlan, IntegerProducts, LhsSupply, RhsSupply
from rillet.codegen.cpu.cost_model import Blocks, Factors
from rillet.codegen.cpu.dot_products import DotProducts, products_of
from rillet.codegen.cpu.machine import CpuTarget, with_integer_sums
from rillet.codegen.emit.blocks import Tile
from rillet.codegen.knobs import Knobs
from rillet.codegen.recognize.contraction import LinearContraction, operations, recognize
from rillet.codegen.recognize.epilogue import Epilogue, epilogue_of
from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.codegen.recognize.linear_access import Access, argument_of
from rillet.codegen.recognize.narrow_factors import NarrowFactor, factors_of
from rillet.ir.dtypes import storage_bytes
from rillet.ir.structured import DYNAMIC

_EXTENSION = 8  # instructions that extend a vector of small floats where none does it alone
_MOST_PAIRED_STEPS = 16384  # longer rows of a tile, 16 bits each, would take too much of L2 in scratch


@dataclass(frozen=True)
class Problem:
    """A contraction as the cost model sees it: unknown extents are guessed."""

    contraction: LinearContraction
    axes: Axes
    target: CpuTarget
    knobs: Knobs
    cache_blocks: bool  # long reductions may be done in parts, which keep the sums of a block of rows and columns

    @property
    def batches(self) -> int:
        """The number of batches; a guess when it is known at run time only."""
        return guess(self.axes.batch)

    @property
    def m(self) -> int:
        """The number of rows; a guess when it is known at run time only."""
        return guess(self.axes.m)

    @property
    def n(self) -> int:
        """The number of columns; a guess when it is known at run time only."""
        return guess_extent(self.contraction.extents[self.contraction.n])

    @property
    def k(self) -> int:
        """The number of reduction steps; a guess when it is known at run time only."""
        return guess(self.axes.k)

    @property
    def inner_steps(self) -> int:
        """Steps of the reduction for each iteration of its first axis."""
        return guess(self.axes.k[1:])

    @property
    def first_extent(self) -> int:
        """Iterations of the first axis of the reduction, or ``DYNAMIC``."""
        return self.axes.k[0].extent if self.axes.k else 1

    @property
    def accumulator_bytes(self) -> int:
        """Bytes of one sum."""
        return storage_bytes(self.contraction.product.accumulator_type)

    @property
    def rhs_bytes(self) -> int:
        """Bytes of an rhs element in its tensor."""
        return storage_bytes(element(self.contraction, self.contraction.roles.rhs))

    @property
    def lhs_batch_bytes(self) -> int:
        """Bytes of one batch of the lhs."""
        size = math.prod(map(guess_extent, self.contraction.lhs.shape))
        return storage_bytes(element(self.contraction, self.contraction.roles.lhs)) * size // self.batches

    @property
    def registers(self) -> CpuTarget:
        """The target, with the registers that hold sums of this type."""
        are_integers = isinstance(self.contraction.product.accumulator_type, ir.IntegerType)
        return with_integer_sums(self.target) if are_integers else self.target


def make_plan(function: KernelFunction, target: CpuTarget) -> ContractionPlan | None:
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
) -> ContractionPlan | None:
    """The plan for a contraction with this epilogue; None when its rhs cannot be packed.

    With ``cache_blocks`` long reductions may be done in parts, which keep the sums of a block of rows and columns.
    """
    problem = Problem(contraction, axes_of(contraction, after), target, function.knobs, cache_blocks)
    rhs = _rhs(problem)
    integers = _integers(problem, rhs)
    if not _is_readable(problem, rhs, integers):
        return None
    lhs = _lhs(problem, rhs, integers)
    factors = _factors(problem, lhs, rhs, integers)
    tiles = _row_tiles(problem, lhs, rhs, integers, factors)
    tile = tiles[-1] if tiles else _tile(problem, rhs, integers, factors)
    if 1 < tile.lanes < contraction.rhs.shared:
        return None
    if _reads_runs(problem):
        lhs = dataclasses.replace(lhs, run=tile.lanes)
    residuals = _residuals(function, problem, after)
    blocks = _blocks(problem, rhs, integers, factors, tile, has_residuals=bool(residuals))
    reduction_block, blocks = _reduction_block(problem, lhs, rhs, integers, tile, blocks)
    if not (reduction_block or lhs.spread or integers or blocks.rows_outer):
        rhs = dataclasses.replace(rhs, prefetch=_fetches_panels(problem, rhs))
    plan = ContractionPlan(
        contraction=contraction,
        epilogue=after,
        axes=problem.axes,
        tile=tile,
        blocks=blocks,
        reduction_block=reduction_block,
        lhs=lhs,
        rhs=rhs,
        integers=integers,
        residuals=residuals,
    )
    if not _in_parts(problem, tile):
        return plan
    plan = dataclasses.replace(plan, in_parts=True)
    return _with_parts(problem, plan, tiles) if tiles else _with_direct(problem, plan)


# --- how factors are read --------------------------------------------------------------------------------------------


def _rhs(problem: Problem) -> RhsSupply:
    """The rhs as it is packed, or a panel in scratch. Computed panels are made once where enough rows use them."""
    c, machine = problem.contraction, problem.target.machine
    computes = _computes(c)
    if not c.rhs.panel and c.rhs.static_stride(c.n) != 1:
        return RhsSupply(problem.rhs_bytes, pack=True, computes=computes)
    # Without a cache, a panel takes scarce memory, and sums would go through it.
    may_pack = problem.cache_blocks and machine.l1d_bytes > 0
    if computes and may_pack and cost_model.computes_panels(problem.m, _operations(problem)):
        return RhsSupply(problem.accumulator_bytes, pack=True, computes=True)
    return RhsSupply(problem.rhs_bytes, computes=computes)


def _computes(contraction: LinearContraction) -> bool:
    """Whether rhs factors are floats computed from packed integers, with or without companions, or from narrower
    floats."""
    stored, sums = element(contraction, contraction.roles.rhs), contraction.product.accumulator_type
    is_computed = isinstance(sums, ir.FloatType) and stored != sums
    return bool(contraction.companions) or (contraction.rhs.panel > 0 and is_computed)


def _operations(problem: Problem) -> int:
    """Instructions that make a vector of computed rhs factors from loaded elements."""
    stored, machine = element(problem.contraction, problem.contraction.roles.rhs), problem.target.machine
    extends = isinstance(stored, ir.F32Type | ir.BF16Type | ir.IntegerType) or (
        isinstance(stored, ir.F16Type) and machine.converts_f16
    )
    return operations(problem.contraction) + (0 if extends else _EXTENSION)


def _integers(problem: Problem, rhs: RhsSupply) -> IntegerProducts:
    if not problem.cache_blocks:
        return IntegerProducts()
    groups = _groups(problem)
    return IntegerProducts(
        pairs=None if rhs.pack else _pairs(problem),
        groups=groups,
        in_place=groups is not None and _lie_in_place(problem, groups),
    )


def _groups(problem: Problem) -> DotProducts | None:
    """How products of narrow integers go group by group, where the rhs is packed for it and all extents are known."""
    c, axes = problem.contraction, problem.axes
    factors = factors_of(c.root, c.product)
    if c.rhs.together == 1 or not axes.k or not axes.k_is_known or factors is None:
        return None
    return products_of(problem.target, c.rhs, factors)


def _lie_in_place(problem: Problem, groups: DotProducts) -> bool:
    """Whether whole groups of lhs rows lie in memory in the form in which they are multiplied."""
    lhs, innermost = problem.contraction.lhs, problem.axes.k[-1]
    has_runs = lhs.static_stride(innermost.inner) == 1 and innermost.extent % groups.steps == 0
    return groups.in_place and lhs.padding is None and has_runs


def _pairs(problem: Problem) -> tuple[NarrowFactor, NarrowFactor] | None:
    """The factors, where products of narrow integers go two by two: the rhs has the two steps side by side, and the
    rows of a tile fit scratch."""
    c = problem.contraction
    whole = merge(c.roles.k, c.extents, lambda a, b: c.rhs.merges(a, b, c.extents[b]))
    multiplies = problem.target.machine.multiplies_pairs
    if not multiplies or len(whole) != 1 or not 2 <= whole[0].extent <= _MOST_PAIRED_STEPS:
        return None
    return factors_of(c.root, c.product)


def _is_readable(problem: Problem, rhs: RhsSupply, integers: IntegerProducts) -> bool:
    """Whether code exists that reads the operands this way."""
    c = problem.contraction
    if c.rhs.together > 1 and not integers:
        return False
    if rhs.pack and any(axis.extent == DYNAMIC for axis in problem.axes.k[1:]):
        return False
    return not c.companions or c.lhs.padding is None


def _lhs(problem: Problem, rhs: RhsSupply, integers: IntegerProducts) -> LhsSupply:
    may_spread = _is_blockable(problem, rhs) and not integers
    return LhsSupply(
        spread=may_spread and cost_model.spreads(problem.target, problem.m, problem.n, problem.inner_steps)
    )


def _is_blockable(problem: Problem, rhs: RhsSupply) -> bool:
    """Whether the reduction may be done in parts though no panel is packed."""
    return problem.cache_blocks and not rhs.pack and not rhs.computes and problem.axes.k_is_known


def _reads_runs(problem: Problem) -> bool:
    """Whether lhs factors come from vectors of neighbours along the innermost reduction axis."""
    c = problem.contraction
    if not problem.target.machine.fma_by_element or not problem.axes.k:
        return False
    contiguous = c.lhs.static_stride(problem.axes.k[-1].inner) == 1
    return contiguous and isinstance(c.product.accumulator_type, ir.FloatType)


def _fetches_panels(problem: Problem, rhs: RhsSupply) -> bool:
    """Whether packed panels come from beyond L2."""
    size = rhs.element_bytes * problem.n * problem.k
    return problem.contraction.rhs.panel > 0 and cost_model.prefetches(problem.target, size)


def _residuals(function: KernelFunction, problem: Problem, after: Epilogue) -> tuple[Access, ...]:
    """The arguments that the epilogue reads in rows along the columns and that are too large for L2."""
    c = problem.contraction
    found = []
    for read in after.accesses:
        port = argument_of(function, read.value)
        if port is None or port.binding < 0 or read.static_stride(c.n) != 1:
            continue
        size = math.prod(map(guess_extent, read.shape)) * storage_bytes(port.type.element_type)
        if any(read.uses(n) for n in c.roles.m) and cost_model.prefetches(problem.target, size):
            found.append(read)
    return tuple(found)


# --- tiles and blocks ------------------------------------------------------------------------------------------------


def _factors(problem: Problem, lhs: LhsSupply, rhs: RhsSupply, integers: IntegerProducts) -> Factors:
    """The factors as the cost model sees them."""
    c = problem.contraction
    return Factors(
        element_bytes=rhs.element_bytes,
        gather=len(problem.axes.m) > 1,
        spread=lhs.spread,
        apart=not c.rhs.panel and not rhs.pack,
        paired=integers.pairs is not None,
        computed=_operations(problem) if rhs.computes and not rhs.pack else 0,
    )


def _tile(problem: Problem, rhs: RhsSupply, integers: IntegerProducts, factors: Factors) -> Tile:
    c, knobs = problem.contraction, problem.knobs
    if integers.groups:
        chosen = integers.groups.tile(
            problem.target, problem.m, problem.n, math.ceil(problem.k / integers.groups.steps)
        )
    else:
        chosen = cost_model.choose_tile(
            problem.registers, problem.m, problem.n, problem.k, factors, accumulator_bytes=problem.accumulator_bytes
        )
        if c.companions and not rhs.pack and chosen.rows == 1:
            chosen = _one_panel(chosen, c.rhs)
    return Tile(knobs.tile_rows or chosen.rows, knobs.tile_vectors or chosen.vectors, chosen.lanes)


def _one_panel(tile: Tile, rhs: Access) -> Tile:
    """A tile of one row by one panel's columns: parameters stay in registers, and memory is read in its order
    (measured, 4096 x 4096: 1.45 ms; with four vectors 1.63, with eight 1.58)."""
    return dataclasses.replace(tile, rows=1, vectors=max(1, rhs.panel // tile.lanes))


def _blocks(
    problem: Problem, rhs: RhsSupply, integers: IntegerProducts, factors: Factors, tile: Tile, *, has_residuals: bool
) -> Blocks:
    m, n, k = problem.m, problem.n, problem.k
    blocks = cost_model.choose_blocks(
        problem.target,
        tile,
        batches=problem.batches,
        m=m,
        n=n,
        k=k,
        lhs_bytes=problem.lhs_batch_bytes,
        rhs_bytes=rhs.element_bytes * n * k * (cost_model.COMPUTED_READS if rhs.computes and rhs.pack else 1),
        factors=factors,
        panels=problem.contraction.rhs.panel > 0,
        residual=has_residuals,
    )
    if integers.pairs:
        blocks = _in_l2(blocks, tile, rhs.element_bytes * k, problem.target)
    return blocks.overruled(tile, m, n, problem.knobs)


def _in_l2(blocks: Blocks, tile: Tile, column_bytes: int, target: CpuTarget) -> Blocks:
    """The blocks with so few columns that half of L2 holds them, since each row tile passes all of them."""
    if not target.machine.l2_bytes:
        return blocks
    most = max(1, target.machine.l2_bytes // 2 // (column_bytes * tile.columns)) * tile.columns
    return dataclasses.replace(blocks, columns=min(blocks.columns, most))


def _reduction_block(
    problem: Problem, lhs: LhsSupply, rhs: RhsSupply, integers: IntegerProducts, tile: Tile, blocks: Blocks
) -> tuple[int, Blocks]:
    """Iterations of the first reduction axis done at a time (0 for all), and the blocks that go with them."""
    target, knobs, first, inner = problem.target, problem.knobs, problem.first_extent, problem.inner_steps
    m, n, width = problem.m, problem.n, problem.accumulator_bytes
    block = 0
    if rhs.pack:
        block = cost_model.choose_reduction_block(target, first, inner, tile, rhs.element_bytes, rhs.computes)
    elif lhs.spread:
        block, blocks = cost_model.choose_spread_blocks(target, tile, m, n, first, inner, accumulator_bytes=width)
        blocks = blocks.overruled(tile, m, n, knobs)
    if knobs.reduction_block is not None and not integers and (rhs.pack or _is_blockable(problem, rhs)):
        block = 0 if 0 <= first <= knobs.reduction_block else knobs.reduction_block
    if block and not rhs.pack and width * blocks.rows * blocks.columns > cost_model.MOST_SUMS_BYTES:
        block = 0
    return block, blocks


# --- where the number of rows is unknown -----------------------------------------------------------------------------


def _in_parts(problem: Problem, tile: Tile) -> bool:
    """Whether rows may fill no whole number of tiles, since their number is unknown."""
    extents = [problem.contraction.extents[n] for n in problem.contraction.roles.m]
    return DYNAMIC in extents and math.prod(n for n in extents if n != DYNAMIC) % tile.rows > 0


def _row_tiles(
    problem: Problem, lhs: LhsSupply, rhs: RhsSupply, integers: IntegerProducts, factors: Factors
) -> tuple[Tile, ...]:
    """The tile for each number of rows from 1 on; none where all have the same columns. They may differ where nothing
    in scratch has the form of a tile, and where rows may well be few, as they are not in an image."""
    c, knobs = problem.contraction, problem.knobs
    is_image = len(problem.axes.m) > 1 or c.lhs.padding is not None
    has_form = rhs.pack or lhs.spread or integers.groups or knobs.reduction_block
    if DYNAMIC not in [c.extents[n] for n in c.roles.m] or not problem.cache_blocks or is_image or has_form:
        return ()
    tiles = cost_model.choose_row_tiles(
        problem.registers, problem.n, problem.k, factors, accumulator_bytes=problem.accumulator_bytes
    )
    if c.companions:
        tiles = (_one_panel(tiles[0], c.rhs), *tiles[1:])
    if knobs.tile_rows is None and knobs.tile_vectors is None:
        return tiles
    last = Tile(knobs.tile_rows or tiles[-1].rows, knobs.tile_vectors or tiles[-1].vectors, tiles[-1].lanes)
    tiles = (*tiles[: last.rows - 1], last)
    return tiles if last.rows == len(tiles) and cost_model.columns_together(tiles, problem.n) else ()


def _with_parts(problem: Problem, plan: ContractionPlan, tiles: Sequence[Tile]) -> ContractionPlan:
    """The plan with ``tiles`` for parts of each number of rows; the last one is its largest."""
    together = cost_model.columns_together(tiles, problem.n)
    plan = dataclasses.replace(plan, tile=tiles[-1], together=together)
    fewer = (dataclasses.replace(plan, tile=a) for a, b in itertools.pairwise(tiles) if a.vectors != b.vectors)
    columns = math.ceil(plan.blocks.columns / together) * together
    return dataclasses.replace(plan, fewer=tuple(fewer), blocks=dataclasses.replace(plan.blocks, columns=columns))


def _with_direct(problem: Problem, plan: ContractionPlan) -> ContractionPlan:
    """The plan with another for few rows, which computes factors as they are multiplied: a panel would be used too
    seldom. Both have the same blocks, since one grid serves them."""
    if not (plan.rhs.pack and plan.rhs.computes and problem.contraction.rhs.panel):
        return plan
    lhs, rhs = LhsSupply(run=plan.lhs.run), RhsSupply(problem.rhs_bytes, computes=True)
    direct = dataclasses.replace(plan, reduction_block=0, lhs=lhs, rhs=rhs)
    tiles = _row_tiles(problem, lhs, rhs, plan.integers, _factors(problem, lhs, rhs, plan.integers))
    direct = _with_parts(problem, direct, tiles) if tiles else direct
    blocks = dataclasses.replace(plan.blocks, columns=math.lcm(direct.blocks.columns, plan.tile.columns))
    most = cost_model.most_computed_rows(_operations(problem))
    return dataclasses.replace(plan, blocks=blocks, direct=(most, dataclasses.replace(direct, blocks=blocks)))
