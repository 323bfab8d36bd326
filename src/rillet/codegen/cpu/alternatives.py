"""The search space: for each kind of kernel, the alternatives worth measuring, nearest to the model's choice first.

A search walks one group of choices after another (register tile, unrolling, loop order, parts of the reduction, split
over workgroups), each around the best found so far. No alternative gives fewer workgroups than the cost model, since
kernels are measured on one thread and must still share well among several.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from rillet.codegen.backend import Alternatives
from rillet.codegen.cpu import cost_model
from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.emit.blocks import Tile
from rillet.codegen.knobs import LIMITS, Choice, Knobs

_MOST_TILES = 12  # register tiles tried for one kernel
_MOST_LINES = 4  # of a window's tile
_SLOWEST_TILE = 1.6  # tiles whose modelled time is more than this many times the best one's are not tried
_PRODUCTS = ("contraction", "winograd")  # strategies whose kernels multiply matrices in register tiles
_UNROLLS = (1, 2, 3, 4, 6, 8, 12, 16)
_IN_FLIGHT = (1, 2, 4, 8)
_TOGETHER = (1, 2, 4, 8)  # rows side by side
_SHORTEST_PART = 256  # the shortest part of a reduction, in steps, that is worth a pass of its own


def groups(strategy: str, choice: Choice, target: CpuTarget) -> Alternatives:
    """The groups of alternatives for a kernel of this strategy for which the cost model decided ``choice``."""
    if strategy in _PRODUCTS:
        return _contraction(choice, target, in_parts=strategy == "contraction")
    if strategy == "windowed":
        return _windowed(choice, target)
    if strategy == "chain":
        return _chain(choice, target)
    return _runs(choice)


def _contraction(choice: Choice, target: CpuTarget, *, in_parts: bool) -> Alternatives:
    """``in_parts``: whether the order of loops and the number of reduction iterations done at a time may be chosen."""
    best = yield _contraction_tiles(choice, target)
    if best.problem["together"] == 1:  # else each iteration takes whole groups of steps of copied rows
        best = yield _unrolls(best)
    if best.problem["together"] == 1 and in_parts:
        best = yield [_with(best, rows_outer=1 - (best.knobs.rows_outer or 0))]
        best = yield [_with(best, reduction_block=n) for n in _reduction_blocks(best)]
    yield [
        _with(best, row_tiles=rows, column_tiles=columns)
        for rows, columns in _splits(
            best,
            math.ceil(best.problem["rows"] / (_given(best, "tile_rows"))),
            math.ceil(best.problem["columns"] / (_given(best, "tile_vectors") * best.problem["lanes"])),
        )
    ]


def _chain(choice: Choice, target: CpuTarget) -> Alternatives:
    """The stages one after the other, then the rows of a block: never more than the model chose, because blocks are
    workgroups and hold the tensors between stages in a cache."""
    best = choice
    for number, stage in enumerate(choice.stages):
        if "steps" not in stage.problem:
            best = yield [best.knobs.with_stage(number, knobs) for knobs in _row_shapes(stage)]
            continue
        # The rows of a block follow from the tiles, so they are chosen again for each.
        free = dataclasses.replace(best.knobs, row_tiles=None)
        best = yield [free.with_stage(number, knobs) for knobs in _contraction_tiles(stage, target)]
        best = yield [best.knobs.with_stage(number, knobs) for knobs in _unrolls(best.stages[number])]
        other = 1 - (best.knobs.of_stage(number).rows_outer or 0)
        best = yield [best.knobs.with_stage(number, _with(best.stages[number], rows_outer=other))]
    most = choice.problem["step"] * _given(choice, "row_tiles")
    own, step = _given(best, "row_tiles"), best.problem["step"]
    yield [_with(best, row_tiles=n) for n in _block_rows(own, max(1, most // step)) if n != own]


def _row_shapes(stage: Choice) -> Iterator[Knobs]:
    """Rows side by side and vectors in flight of a row-wise stage."""
    own = (stage.knobs.tile_rows, stage.knobs.tile_vectors)
    for rows, vectors in itertools.product(_TOGETHER if own[0] else (None,), _IN_FLIGHT):
        if (rows, vectors) != own:
            yield Knobs(tile_rows=rows, tile_vectors=vectors)


def _block_rows(own: int, most: int) -> list[int]:
    """Some numbers from 1 to ``most``, the nearest to ``own`` first."""
    return sorted({1, 2, 3, 4, *range(6, most, 4), most} & {*range(1, most + 1)}, key=lambda n: abs(n - own))


def _unrolls(best: Choice) -> list[Knobs]:
    return [_with(best, unroll=n) for n in _UNROLLS if n <= best.problem["run"] and n != best.knobs.unroll]


def _contraction_tiles(choice: Choice, target: CpuTarget) -> list[Knobs]:
    """Register tiles that fit, by modelled time."""
    m, n, lanes = (choice.problem[name] for name in ("rows", "columns", "lanes"))
    cost = {
        (rows, vectors): _cycles(choice.problem, rows, vectors, target)
        for rows in range(1, min(m, LIMITS["tile_rows"][1]) + 1)
        for vectors in range(1, min(math.ceil(n / lanes), LIMITS["tile_vectors"][1]) + 1)
        if cost_model.fits(target, rows, vectors, _factors(choice.problem))
    }
    bound = _SLOWEST_TILE * min(cost.values(), default=0.0)
    order = sorted((shape for shape in cost if cost[shape] <= bound), key=cost.__getitem__)
    return _tiles(choice, order)


def modelled_cycles(strategy: str, choice: Choice, target: CpuTarget) -> float | None:
    """The modelled time of a kernel's register tile, in cycles; None for kernels that the cost model does not time."""
    if strategy not in _PRODUCTS:
        return None
    return _cycles(choice.problem, _given(choice, "tile_rows"), _given(choice, "tile_vectors"), target)


def _cycles(problem: Mapping[str, int], rows: int, vectors: int, target: CpuTarget) -> float:
    m, n, k, lanes = (problem[name] for name in ("rows", "columns", "steps", "lanes"))
    return cost_model.grid_cycles(target, Tile(rows, vectors, lanes), m, n, k, _factors(problem))


def _factors(problem: Mapping[str, int]) -> cost_model.Factors:
    return cost_model.Factors(problem["element_bytes"], gather=bool(problem["gather"]), paired=problem["together"] == 2)


def _reduction_blocks(best: Choice) -> list[int]:
    """Other numbers of reduction iterations done at a time: half and double, or for long reductions a part and all."""
    total, own = best.problem["outer_steps"], _given(best, "reduction_block")
    if own:
        return [n for n in (0, own // 2, 2 * own) if n < total]
    return [math.ceil(total / n) for n in (2, 4) if best.problem["steps"] >= n * _SHORTEST_PART and total >= n]


def _windowed(choice: Choice, target: CpuTarget) -> Alternatives:
    problem = choice.problem
    registers = target.machine.tile_registers
    extents = (problem["lines"], problem["rows"], math.ceil(problem["columns"] / problem["lanes"]))
    shapes = [
        shape
        for shape in itertools.product(
            range(1, min(extents[0], _MOST_LINES) + 1),
            range(1, min(extents[1], registers) + 1),
            range(1, min(extents[2], 4) + 1),
        )
        # Operands take registers too; with very few accumulators latency shows.
        if 3 <= math.prod(shape) <= max(3, registers - 2) or shape[1:] == extents[1:]
    ]
    near = (_given(choice, "tile_lines"), _given(choice, "tile_rows"), _given(choice, "tile_vectors"))

    def waste(shape: tuple[int, ...]) -> tuple[float, int]:
        covered = math.prod(math.ceil(total / size) * size for total, size in zip(extents, shape, strict=True))
        distance = sum(weight * abs(a - b) for weight, a, b in zip((2, 1, 2), shape, near, strict=True))
        return covered / math.prod(extents), distance

    wanted = [shape for shape in sorted(shapes, key=waste) if shape != near][:_MOST_TILES]
    best = yield [Knobs(tile_lines=lines, tile_rows=rows, tile_vectors=vectors) for lines, rows, vectors in wanted]
    positions = problem["outer"] * math.ceil(problem["lines"] / _given(best, "tile_lines"))
    column_tiles = math.ceil(problem["columns"] / (_given(best, "tile_vectors") * problem["lanes"]))
    yield [
        _with(best, row_tiles=outer, column_tiles=columns) for outer, columns in _splits(best, positions, column_tiles)
    ]


def _runs(choice: Choice) -> Alternatives:
    """The choices for kernels that walk long runs: vectors in flight, and for row-wise kernels the rows taken side by
    side."""
    if choice.problem["lanes"] > 1:
        yield list(_row_shapes(choice))


def _tiles(choice: Choice, shapes: list[tuple[int, int]]) -> list[Knobs]:
    """Knobs for register tiles; the other choices follow from them."""
    own = (choice.knobs.tile_rows, choice.knobs.tile_vectors)
    wanted = [shape for shape in shapes if shape != own][:_MOST_TILES]
    return [Knobs(tile_rows=rows, tile_vectors=vectors) for rows, vectors in wanted]


def _splits(best: Choice, rows: int, columns: int) -> Iterator[tuple[int, int]]:
    """Other ways to cut ``rows`` x ``columns`` tiles: at least the number of workgroups chosen, at most twice that
    number."""
    own = (min(_given(best, "row_tiles"), rows), min(_given(best, "column_tiles"), columns))
    count = math.ceil(rows / own[0]) * math.ceil(columns / own[1])
    seen = {own}
    for parts in (count, 2 * count):
        for row_parts in (n for n in _halvings(parts) if n <= rows):
            column_parts = min(math.ceil(parts / row_parts), columns)
            split = (math.ceil(rows / row_parts), math.ceil(columns / column_parts))
            if split not in seen and math.ceil(rows / split[0]) * math.ceil(columns / split[1]) >= count:
                seen.add(split)
                yield split


def _halvings(parts: int) -> Iterator[int]:
    while parts >= 1:
        yield parts
        parts //= 2


def _with(choice: Choice, **changes: Any) -> Knobs:
    return dataclasses.replace(choice.knobs, **changes)


def _given(choice: Choice, name: str) -> int:
    value = getattr(choice.knobs, name)
    assert isinstance(value, int)  # a kernel says everything that it decided
    return value
