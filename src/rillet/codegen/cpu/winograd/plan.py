"""Decisions about a kernel of Winograd's algorithm before anything is emitted."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rillet.codegen.cpu import cost_model
from rillet.codegen.cpu.contraction.axes import guess_extent
from rillet.codegen.cpu.contraction.plan import ContractionPlan, LhsSupply
from rillet.codegen.cpu.contraction.planner import plan_for
from rillet.codegen.cpu.machine import SCRATCH_BYTES, CpuTarget
from rillet.codegen.emit.blocks import Tile
from rillet.codegen.knobs import Choice, Knobs
from rillet.codegen.recognize.contraction import recognize
from rillet.codegen.recognize.epilogue import epilogue_of
from rillet.codegen.recognize.kernel_function import KernelFunction, Port
from rillet.codegen.recognize.linear_access import Access
from rillet.dialects.flow import WINOGRAD, WINOGRAD_INPUTS, WINOGRAD_OUTPUTS

_ROW_VECTORS = 8  # at most, of single rows: the sums that keep the multiply-add units busy
_FEWEST_ROW_TILES = 4  # the fewest that repay a panel of weights in L1
_TRANSFORM_CYCLES = 2  # for each vector of a transformed tile
_BYTES_PER_CYCLE = 48  # the rate of the part of fetching weights ahead that is not hidden


@dataclass(frozen=True)
class WinogradPlan:
    """How a convolution goes in tiles of two results along each of ``lines``, image loops with windows of three.

    Tiles are counted row-major over ``others``, which are loops of single results, and ``lines``.
    """

    direct: ContractionPlan  # computes single results, for tiles with results that are not finite
    transforms: Port
    others: tuple[int, ...]
    lines: tuple[int, ...]
    groups: int
    panels: int  # of a group
    depth: int  # products that are summed for each element of a tile's transform
    panel: int
    register_tile: Tile  # tiles of the image by columns
    block: int  # tiles of a workgroup
    columns: int  # of a workgroup
    fetches: bool  # the transforms come from beyond L2

    @property
    def prefetch_parts(self) -> int:
        """The parts in which the next panels are fetched, one during each row of register tiles: a power of two; 0
        where the transforms stay in L2 or there are too few rows."""
        rows = math.ceil(self.block / self.register_tile.rows)
        return 1 << (rows.bit_length() - 1) if self.fetches and rows > 2 else 0

    @property
    def points(self) -> int:
        """Elements of a tile's transform."""
        return WINOGRAD_INPUTS ** len(self.lines)


def make_plan(function: KernelFunction, target: CpuTarget) -> WinogradPlan | None:
    """The plan for a convolution that has its weights' transforms; None for any other kernel."""
    if WINOGRAD not in function.function.attributes:
        return None
    c = recognize(function)
    if c is None or c.lhs.padding is not None:
        return None
    _, number = ir.DenseI64ArrayAttr(function.function.attributes[WINOGRAD])
    transforms = function.arguments[number]
    *points, panels, depth, panel = transforms.type.shape
    lines = _lines(c.lhs, c.roles.m, c.roles.k)
    if len(lines) != len(points):
        return None
    others = tuple(n for n in c.roles.m if n not in lines)
    groups, total = math.prod(c.extents[n] for n in c.roles.batch), _tiles(c.extents, others, lines)
    tiling = _tiling(function.knobs, target, groups, total, c.extents[c.n], depth, len(lines))
    if tiling is None:
        return None
    tile, block, wide = tiling
    after = epilogue_of(function, c.root)
    direct = None if after is None else plan_for(function, c, after, target, cache_blocks=True)
    if direct is None:
        return None
    return WinogradPlan(
        direct=_row_by_row(direct, tile.lanes, wide),
        transforms=transforms,
        others=others,
        lines=lines,
        groups=groups,
        panels=panels // groups,
        depth=depth,
        panel=panel,
        register_tile=tile,
        block=block,
        columns=wide,
        fetches=cost_model.prefetches(target, 4 * math.prod(transforms.type.shape)),
    )


def _tiles(extents: Sequence[int], others: Sequence[int], lines: Sequence[int]) -> int:
    """The number of tiles in the image, unknown extents guessed."""
    along = [math.ceil(guess_extent(extents[n]) / WINOGRAD_OUTPUTS) for n in lines]
    return math.prod(guess_extent(extents[n]) for n in others) * math.prod(along)


def _tiling(
    knobs: Knobs, target: CpuTarget, groups: int, total: int, columns: int, depth: int, lines: int
) -> tuple[Tile, int, int] | None:
    """The register tile, and the tiles and columns of a workgroup, with the choices in ``knobs``; None where scratch
    does not hold the model's choice."""
    chosen = cost_model.choose_tile(target, total, columns, depth)
    tile = Tile(knobs.tile_rows or chosen.rows, knobs.tile_vectors or chosen.vectors, chosen.lanes)
    points = WINOGRAD_INPUTS**lines
    block, wide = _blocks(target, tile, groups, total, columns, depth, points)
    if 4 * points * (block + 1) * (depth + wide) > SCRATCH_BYTES:
        return None
    if knobs.row_tiles:
        block = min(knobs.row_tiles, math.ceil(total / tile.rows)) * tile.rows
    if knobs.column_tiles:
        wide = min(knobs.column_tiles, math.ceil(columns / tile.columns)) * tile.columns
    return tile, block, wide


def _row_by_row(direct: ContractionPlan, lanes: int, columns: int) -> ContractionPlan:
    """The plan for single rows of blocks of ``columns``."""
    vectors = next(v for v in range(_ROW_VECTORS, 0, -1) if columns % (v * lanes) == 0)
    tile = Tile(1, vectors, lanes)
    return dataclasses.replace(
        direct,
        tile=tile,
        reduction_block=0,
        lhs=LhsSupply(),
        rhs=dataclasses.replace(direct.rhs, prefetch=False),
        residuals=(),
        in_parts=False,
        fewer=(),
        together=0,
        direct=None,
    )


def _lines(image: Access, m: Collection[int], k: Collection[int]) -> tuple[int, ...]:
    """The m loops that share an axis of the image with a k loop."""
    return tuple(form.among(m)[0] for form in image.axes if form.among(m) and form.among(k))


def _blocks(
    target: CpuTarget, tile: Tile, groups: int, total: int, columns: int, depth: int, points: int
) -> tuple[int, int]:
    """Tiles and columns of a workgroup, at the least cost. Each block of columns transforms the image again, each block
    of tiles reads the weights' transforms again, and a worker that comes late has a quarter of a workgroup left to do.
    """
    cycles = points * cost_model.grid_cycles(target, tile, total, columns, depth)
    wanted = math.ceil(cost_model.workgroups(target, groups * cycles) / groups)
    weights = 4 * points * depth * columns
    reading = weights / _BYTES_PER_CYCLE if cost_model.prefetches(target, weights) else 0.0
    transforming = _TRANSFORM_CYCLES * points * total * math.ceil(depth / tile.lanes)
    row_tiles, column_tiles = math.ceil(total / tile.rows), math.ceil(columns / tile.columns)
    fewest = min(_FEWEST_ROW_TILES, row_tiles)
    best = (math.inf, fewest, 1)
    for row_blocks in range(1, row_tiles // fewest + 1):
        rows = math.ceil(row_tiles / row_blocks)
        for column_blocks in range(1, min(column_tiles, wanted) + 1):
            wide = math.ceil(column_tiles / column_blocks)
            block_bytes = 4 * points * rows * tile.rows * (depth + wide * tile.columns)
            if block_bytes > 2 * target.machine.l2_bytes and rows > fewest:
                continue
            row_parts, column_parts = math.ceil(row_tiles / rows), math.ceil(column_tiles / wide)
            count = groups * row_parts * column_parts
            if (
                count > groups * wanted
                and rows * wide * tile.rows * tile.columns * points * depth < cost_model.WORKGROUP_CYCLES
            ):
                continue
            late = 0.25 + (1 if count % 2 else 2 * (1 - groups * row_tiles * column_tiles / (count * rows * wide)))
            waiting = 1 + late / count if groups * wanted > 1 else 1.0
            best = min(best, ((cycles + column_parts * transforming + row_parts * reading) * waiting, rows, wide))
    _, rows, wide = best
    return rows * tile.rows, wide * tile.columns


def choice(plan: WinogradPlan, knobs: Knobs, target: CpuTarget) -> Choice:
    """The plan's decisions, and the extents that they are for."""
    c = plan.direct.contraction
    extents = c.extents
    tile = plan.register_tile
    problem = {
        "batches": plan.groups,
        "rows": _tiles(extents, plan.others, plan.lines),
        "columns": extents[c.n],
        "steps": plan.depth,
        "run": plan.depth,
        "points": plan.points,
        "lanes": tile.lanes,
        "element_bytes": 4,
        "accumulator_bytes": 4,
        "gather": 0,
        "together": 1,
    }
    run = tile.lanes if target.machine.fma_by_element else 0
    made = Knobs(
        tile_rows=tile.rows,
        tile_vectors=tile.vectors,
        unroll=knobs.unroll or cost_model.choose_unroll(plan.depth, tile, run),
        row_tiles=plan.block // tile.rows,
        column_tiles=plan.columns // tile.columns,
    )
    return Choice(problem, made)
