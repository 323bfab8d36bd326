"""The search space: what is tried, around what, and that no alternative shares the work among fewer workgroups."""

from __future__ import annotations

import dataclasses
import math

import pytest

from rillet import targets
from rillet.codegen.cpu import alternatives, cost_model
from rillet.codegen.knobs import Choice, Knobs

V3 = targets.get("x86-64-v3")
PRODUCT = Choice(
    {
        "batches": 1,
        "rows": 784,
        "columns": 96,
        "steps": 64,
        "run": 64,
        "outer_steps": 64,
        "lanes": 8,
        "element_bytes": 4,
        "accumulator_bytes": 4,
        "gather": 0,
        "together": 1,
    },
    Knobs(tile_rows=6, tile_vectors=2, unroll=4, rows_outer=1, row_tiles=33, column_tiles=6, reduction_block=0),
)
WINDOW = Choice(
    {"outer": 1, "lines": 56, "rows": 56, "columns": 144, "window": 9, "lanes": 8},
    Knobs(tile_rows=4, tile_vectors=2, row_tiles=28, column_tiles=9, tile_lines=1),
)


def test_tiles_fit_the_registers_and_come_by_modelled_time() -> None:
    group = next(alternatives.groups("contraction", PRODUCT, V3))
    shapes = [(k.tile_rows, k.tile_vectors) for k in group]
    assert 4 <= len(shapes) == len(set(shapes)) <= 12 and (6, 2) not in shapes
    assert all(cost_model.fits(V3, rows, vectors) for rows, vectors in shapes)
    cost = [cost_model.grid_cycles(V3, cost_model.Tile(*shape, 8), 784, 96, 64) for shape in shapes]
    assert cost == sorted(cost)


def test_later_groups_vary_the_best_so_far() -> None:
    groups = alternatives.groups("contraction", PRODUCT, V3)
    next(groups)
    best = Choice(PRODUCT.problem, Knobs(4, 3, 2, 1, 49, 4, 0))
    unrolls = groups.send(best)
    assert all((k.tile_rows, k.tile_vectors) == (4, 3) and k.unroll != 2 for k in unrolls)
    (order,) = groups.send(best)
    assert order.rows_outer == 0 and order.unroll == 2


def test_of_paired_products_tiles_and_splits_are_searched() -> None:
    """Two steps at a time whatever the unrolling, in rows that are copied first."""
    paired = Choice(PRODUCT.problem | {"element_bytes": 1, "together": 2}, dataclasses.replace(PRODUCT.knobs, unroll=2))
    groups = alternatives.groups("contraction", paired, V3)
    shapes = [(k.tile_rows, k.tile_vectors) for k in next(groups)]
    assert (4, 2) in shapes and all(cost_model.fits(V3, *shape, cost_model.Factors(paired=True)) for shape in shapes)
    splits = groups.send(paired)
    assert splits and all(k.row_tiles and k.unroll == 2 for k in splits)
    with pytest.raises(StopIteration):
        groups.send(paired)


def test_of_transformed_tiles_no_order_and_no_parts_are_searched() -> None:
    groups = alternatives.groups("winograd", PRODUCT, V3)
    assert all(cost_model.fits(V3, k.tile_rows or 0, k.tile_vectors or 0) for k in next(groups))
    assert all(k.unroll != 4 for k in groups.send(PRODUCT))
    splits = groups.send(PRODUCT)
    assert splits and all(k.row_tiles and k.rows_outer == 1 and k.reduction_block == 0 for k in splits)
    with pytest.raises(StopIteration):
        groups.send(PRODUCT)


@pytest.mark.parametrize(("strategy", "choice", "rows"), [("contraction", PRODUCT, 131), ("windowed", WINDOW, 56)])
def test_splits_give_as_many_workgroups_or_more(strategy: str, choice: Choice, rows: int) -> None:
    groups = alternatives.groups(strategy, choice, V3)
    *_, splits = [next(groups), *(groups.send(choice) for _ in range(4 if strategy == "contraction" else 1))]
    columns = math.ceil(choice.problem["columns"] / 16)
    own = math.ceil(rows / choice.knobs.row_tiles) * math.ceil(columns / choice.knobs.column_tiles)
    counts = [math.ceil(rows / k.row_tiles) * math.ceil(columns / k.column_tiles) for k in splits]
    assert splits and all(own <= count for count in counts)
    with pytest.raises(StopIteration):
        groups.send(choice)


def test_long_reductions_are_tried_in_parts_and_parts_as_a_whole() -> None:
    groups = alternatives.groups("contraction", PRODUCT, V3)
    [next(groups), groups.send(PRODUCT), groups.send(PRODUCT)]
    long = Choice(PRODUCT.problem | {"steps": 1024, "outer_steps": 1024}, PRODUCT.knobs)
    assert [k.reduction_block for k in groups.send(long)] == [512, 256]
    groups = alternatives.groups("contraction", PRODUCT, V3)
    [next(groups), groups.send(PRODUCT), groups.send(PRODUCT)]
    parts = Choice(long.problem, dataclasses.replace(PRODUCT.knobs, reduction_block=512))
    assert [k.reduction_block for k in groups.send(parts)] == [0, 256]


def _chain_choice() -> Choice:
    product = dataclasses.replace(PRODUCT.knobs, row_tiles=None, column_tiles=None)
    stages = (
        Choice(PRODUCT.problem | {"rows": 128, "columns": 128, "steps": 32, "run": 32}, product),
        Choice({"lanes": 8}, Knobs(tile_rows=4, tile_vectors=4)),
        Choice(PRODUCT.problem | {"rows": 128, "columns": 32, "steps": 128, "run": 128}, product),
    )
    knobs = Knobs(row_tiles=8, stages=tuple(s.knobs for s in stages))
    return Choice({"points": 12, "rows": 128, "row_bytes": 512, "step": 6}, knobs, stages)


def test_chains_vary_each_stage_and_then_the_rows_of_a_block() -> None:
    chain = _chain_choice()
    groups = alternatives.groups("chain", chain, V3)
    seen = [next(groups), *(groups.send(chain) for _ in range(7))]
    with pytest.raises(StopIteration):
        groups.send(chain)
    assert all(group for group in seen)
    for group, stage in zip(seen, (0, 0, 0, 1, 2, 2, 2), strict=False):
        assert all(k.of_stage(n) == chain.knobs.of_stage(n) for k in group for n in range(3) if n != stage)
        assert all(k.of_stage(stage) != chain.knobs.of_stage(stage) for k in group)
    # Where register tiles change, so do the rows that a block can have.
    assert all(k.row_tiles is None for k in seen[0]) and all(k.row_tiles == 8 for k in seen[3])
    assert [k.row_tiles for k in seen[-1]] == [6, 4, 3, 2, 1]  # the nearest first, and no fewer blocks than the model's


def test_rows_of_a_block_are_counted_in_what_the_best_tiles_divide() -> None:
    chain = _chain_choice()
    groups = alternatives.groups("chain", chain, V3)
    next(groups)
    best = dataclasses.replace(
        chain, problem=chain.problem | {"step": 12}, knobs=dataclasses.replace(chain.knobs, row_tiles=4)
    )
    *_, rows = (groups.send(best) for _ in range(7))
    assert [k.row_tiles for k in rows] == [3, 2, 1]


def test_runs_vary_the_vectors_in_flight_and_rows_side_by_side() -> None:
    (group,) = alternatives.groups("elementwise", Choice({"lanes": 8}, Knobs(tile_vectors=4)), V3)
    assert [(k.tile_rows, k.tile_vectors) for k in group] == [(None, 1), (None, 2), (None, 8)]
    (group,) = alternatives.groups("rowwise", Choice({"lanes": 8}, Knobs(tile_rows=2, tile_vectors=4)), V3)
    assert len(group) == 15 and {k.tile_rows for k in group} == {1, 2, 4, 8}
    assert not list(alternatives.groups("elementwise", Choice({"lanes": 1}, Knobs(tile_vectors=1)), V3))


def test_windows_try_tiles_that_waste_nothing_first() -> None:
    first, *_ = next(alternatives.groups("windowed", WINDOW, V3))
    assert 56 % first.tile_lines == 56 % first.tile_rows == 18 % first.tile_vectors == 0
