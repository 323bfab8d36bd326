from __future__ import annotations

import pytest

from rillet import targets
from rillet.codegen.cpu import cost_model
from rillet.codegen.emit.blocks import Tile
from tests.support.targets import with_deployment, with_machine

V2, V3, V4, ARM = (targets.get(n) for n in ("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"))


def _tile(target: targets.Target, m: int, n: int, k: int) -> Tile:
    return cost_model.choose_tile(target, m, n, k)


@pytest.mark.parametrize("target", [V2, V3, V4, ARM])
@pytest.mark.parametrize("m", [1, 2, 3, 7, 49, 196, 1024])
@pytest.mark.parametrize("n", [1, 8, 10, 24, 96, 1000])
def test_accumulators_and_operands_fit_the_registers(target: targets.Target, m: int, n: int) -> None:
    tile = _tile(target, m, n, 64)
    assert cost_model.fits(target, tile.rows, tile.vectors)
    assert tile.rows <= m and (tile.vectors - 1) * tile.lanes < n


def test_large_products_use_the_measured_best_tiles() -> None:
    # Measured: 6 x 16 at 98 % of the peak of 16 256-bit registers, 2 x 32 at 92 %, 3 x 32 spills.
    assert _tile(V3, 1020, 1024, 1024) == Tile(6, 2, 8)
    assert not cost_model.fits(V3, 3, 4)
    assert _tile(V4, 1024, 1024, 1024).rows * _tile(V4, 1024, 1024, 1024).vectors >= 24


def test_rows_divide_what_there_is() -> None:
    # 49 = 9 x 5 + 4 wastes nothing; 8 x 6 + 1 would end in a tile as slow as one of four rows.
    assert _tile(V3, 49, 512, 4608).rows == 5
    assert _tile(V3, 3136, 24, 144) == Tile(4, 3, 8)


def test_a_single_row_keeps_many_vectors_in_flight() -> None:
    assert _tile(V3, 1, 1000, 1280) == Tile(1, 8, 8)


def test_streaming_a_panel_from_l2_costs_wide_tiles_most() -> None:
    wide = Tile(1, 8, 8)
    assert cost_model.step_cycles(V3, wide, 4096) > cost_model.step_cycles(V3, wide, 16)
    assert cost_model.step_cycles(V3, Tile(6, 2, 8), 4096) < 1.1 * cost_model.step_cycles(V3, Tile(6, 2, 8), 16)


def test_whole_lines_pass_between_the_caches() -> None:
    """24 columns are a line and a half: tiles of 21 x 24 read two lines a step, as those of 32 columns do."""
    long, short = (cost_model.step_cycles(V3, Tile(3, 3, 8), k) for k in (3072, 16))
    wide_long, wide_short = (cost_model.step_cycles(V3, Tile(3, 4, 8), k) for k in (3072, 16))
    assert long - short == pytest.approx(wide_long - wide_short)
    assert _tile(V3, 21, 3072, 768) == Tile(6, 2, 8)


def test_short_reductions_want_few_sums() -> None:
    assert _tile(V3, 12544, 96, 16) == _tile(V3, 784, 192, 32) == Tile(4, 2, 8)


def test_columns_of_one_vector_leave_half_of_the_registers_to_left_hand_elements() -> None:
    assert cost_model.fits(V3, 8, 1) and not cost_model.fits(V3, 9, 1)
    assert cost_model.fits(V4, 16, 1) and not cost_model.fits(V4, 17, 1)
    assert cost_model.fits(ARM, 15, 1)


@pytest.mark.parametrize("trip", [1, 2, 3, 5, 9, 16, 21, 147, 192, 1000, None])
@pytest.mark.parametrize("tile", [Tile(6, 2, 8), Tile(1, 8, 8), Tile(1, 1, 8), Tile(14, 2, 16)])
def test_unrolling_stays_moderate(trip: int | None, tile: Tile) -> None:
    unroll = cost_model.choose_unroll(trip, tile)
    assert 1 <= unroll <= 16
    if trip is not None:
        assert unroll <= trip


@pytest.mark.parametrize(("m", "n", "k"), [(1024, 1024, 1024), (49, 512, 4608), (1, 4096, 4096), (12544, 96, 16)])
def test_blocks_are_whole_tiles_and_cover_everything(m: int, n: int, k: int) -> None:
    tile = _tile(V3, m, n, k)
    blocks = cost_model.choose_blocks(
        V3,
        tile,
        batches=1,
        m=m,
        n=n,
        k=k,
        lhs_bytes=4 * m * k,
        rhs_bytes=4 * n * k,
    )
    assert blocks.rows % tile.rows == 0 and blocks.columns % tile.columns == 0
    workgroups = -(-m // blocks.rows) * -(-n // blocks.columns)
    cycles = cost_model.grid_cycles(V3, tile, m, n, k) / workgroups
    many = workgroups >= cost_model.MANY_WORKGROUPS
    assert workgroups >= 2 and cycles < 2.5 * (cost_model.MANY_CYCLES if many else cost_model.WORKGROUP_CYCLES)


# 36 x 128 x 128 takes 12 microseconds, worth two threads' while; a quarter of it is not.
@pytest.mark.parametrize(("n", "workgroups"), [(32, 1), (128, 2), (1024, 4)])
def test_contractions_are_split_as_they_are_long(n: int, workgroups: int) -> None:
    tile = _tile(V3, 36, n, 128)
    blocks = cost_model.choose_blocks(V3, tile, batches=1, m=36, n=n, k=128, lhs_bytes=18432, rhs_bytes=512 * n)
    assert -(-36 // blocks.rows) * -(-n // blocks.columns) == workgroups


def test_one_core_gets_one_workgroup() -> None:
    alone = with_deployment(V3, threads=False)
    tile = _tile(alone, 256, 256, 256)
    blocks = cost_model.choose_blocks(alone, tile, batches=1, m=256, n=256, k=256, lhs_bytes=1 << 18, rhs_bytes=1 << 18)
    assert blocks.rows >= 256 and blocks.columns >= 256


def test_batches_are_split_first() -> None:
    tile = _tile(V3, 128, 128, 32)
    blocks = cost_model.choose_blocks(V3, tile, batches=12, m=128, n=128, k=32, lhs_bytes=16384, rhs_bytes=16384)
    assert blocks.batches < 12 and blocks.rows >= 128 and blocks.columns >= 128


def test_reduction_blocks_leave_room_in_l2() -> None:
    tile = Tile(6, 2, 8)
    assert cost_model.choose_reduction_block(V3, 64, 1, tile, 4) == 0
    block = cost_model.choose_reduction_block(V3, 100_000, 1, tile, 4)
    assert 0 < block * tile.columns * 4 <= V3.machine.l2_bytes // 2
    assert cost_model.choose_reduction_block(V3, -1, 9, tile, 4) > 0


def test_rows_that_lie_apart_share_sets_of_l1() -> None:
    """A context of attention over 128 keys, 32 wide: each row of the values is a part of a longer one."""
    apart, packed = (cost_model.step_cycles(V3, Tile(4, 2, 8), 128, cost_model.Factors(apart=a)) for a in (True, False))
    assert apart > packed
    tile = cost_model.choose_tile(V3, 128, 32, 128, cost_model.Factors(apart=True))
    assert (tile.rows, tile.vectors) == (6, 2)


def test_pairs_of_products_keep_one_product_under_way() -> None:
    assert cost_model.fits(V3, 6, 2, cost_model.Factors(paired=True))
    assert not cost_model.fits(V3, 4, 3, cost_model.Factors(paired=True))
    assert cost_model.fits(V4, 9, 3, cost_model.Factors(paired=True))


@pytest.mark.parametrize(
    ("extents", "part"),
    [
        ([1], 0),
        ([768], 0),  # one and a half parts stay whole
        ([769], 385),
        ([1024], 512),
        ([16384], 512),
        ([3, 768], 1),  # lines of a window are parts
        ([3, 192], 0),
        ([4, 192], 0),
        ([9, 192], 3),
        ([3, 1536], 0),  # the inner loop is cut
        ([1000, 1, 4], 125),
        ([None], 512),
        ([None, 100], 6),
        ([None, None], 0),
        ([0], 0),
        ([5, 0], 0),
    ],
)
def test_long_sums_are_cut_into_parts(extents: list[int | None], part: int) -> None:
    assert cost_model.choose_sum_part(extents) == part


def test_no_vector_unit_means_single_lanes() -> None:
    scalar = with_machine(V3, vector_bits=0)
    assert _tile(scalar, 32, 32, 32).lanes == 1


def test_spreading_pays_where_loads_do_not_broadcast_and_columns_repay_it() -> None:
    assert (
        cost_model.spreads(V2, 196, 64, 1)
        and not cost_model.spreads(V2, 196, 16, 1)
        and not cost_model.spreads(V3, 196, 64, 1)
    )
    assert not cost_model.spreads(V2, 196, 64, 1 << 20)
    # Measured: 4 x 8 reaches 71 to 80 % of the peak; with 5 x 8 or 3 x 12 sums go through the stack.
    tile = cost_model.choose_tile(V2, 1024, 1024, 1024, cost_model.Factors(spread=True))
    assert tile == Tile(4, 2, 4)


def test_panels_that_are_not_in_l2_are_fetched_ahead() -> None:
    assert cost_model.prefetches(V3, 4 * 512 * 4608) and not cost_model.prefetches(V3, 4 * 64 * 96)
    assert not cost_model.prefetches(with_machine(V3, l2_bytes=0), 4 * 512 * 4608)


def test_panels_of_l2_are_passed_by_all_row_tiles() -> None:
    """Measured, 200 x 1408 x 1024: 97 GFLOP/s that way, 94 with the columns inside."""

    def rows_outer(k: int, n: int, *, panels: bool = True) -> bool:
        left, right = 4 * 49 * k, 4 * n * k
        return cost_model.choose_blocks(
            V3,
            Tile(5, 2, 8),
            batches=1,
            m=49,
            n=n,
            k=k,
            lhs_bytes=left,
            rhs_bytes=right,
            panels=panels,
        ).rows_outer

    assert not rows_outer(2048, 512) and rows_outer(2048, 512, panels=False) and rows_outer(64, 32)


@pytest.mark.parametrize(
    ("tile", "residual", "expected"), [((4, 3), True, True), ((4, 3), False, False), ((6, 2), True, False)]
)
def test_column_tiles_that_share_lines_of_a_residual_follow_each_other(
    tile: tuple[int, int], residual: bool, expected: bool
) -> None:
    """Measured, 3136 x 64 x 256 and a residual: 74 GFLOP/s with the rows inside, 92 with the columns inside."""
    m, n, k = 3136, 256, 64
    blocks = cost_model.choose_blocks(
        V3,
        Tile(*tile, 8),
        batches=1,
        m=m,
        n=n,
        k=k,
        lhs_bytes=4 * m * k,
        rhs_bytes=4 * n * k,
        residual=residual,
    )
    assert blocks.rows_outer == expected


@pytest.mark.parametrize(("m", "n", "first", "inner"), [(2048, 2048, 2048, 1), (49, 512, 3, 1536), (5, 33, 7, 3)])
def test_blocks_of_spread_rows_leave_room_in_l2(m: int, n: int, first: int, inner: int) -> None:
    tile = cost_model.choose_tile(V2, m, n, first * inner, cost_model.Factors(spread=True))
    part, blocks = cost_model.choose_spread_blocks(V2, tile, m, n, first, inner, accumulator_bytes=4)
    assert 0 <= part < first
    steps = (part or first) * inner
    assert steps <= max(inner, cost_model.SPREAD_STEPS)
    assert blocks.rows % tile.rows == 0 and blocks.columns % tile.columns == 0
    assert 4 * steps * blocks.columns <= V2.machine.l2_bytes // 2 or blocks.columns == tile.columns
    assert 4 * blocks.rows * blocks.columns <= V2.machine.l2_bytes // 4 or blocks.rows == tile.rows


def test_guessed_extents_of_any_product_are_split_in_bounded_time() -> None:
    big = 128**5
    blocks = cost_model.choose_blocks(
        V3, Tile(6, 2, 8), batches=1, m=big, n=128, k=big, lhs_bytes=4 * big, rhs_bytes=512 * big
    )
    assert -(-big // blocks.rows) * -(-128 // blocks.columns) <= 2 * cost_model.MOST_WORKGROUPS


def test_tiles_of_paired_products_are_taller_than_wide() -> None:
    """Broadcasts are loads, whereas vectors of bytes are widened by shuffles."""
    for m, n, k in ((196, 96, 576), (12544, 96, 16), (49, 1280, 320), (3136, 144, 24)):
        tile = cost_model.choose_tile(V3, m, n, k, cost_model.Factors(1, paired=True))
        assert tile.rows >= 2 * tile.vectors == 4


@pytest.mark.parametrize(
    ("rows", "vectors", "cycles"),
    [(6, 2, 7.74), (4, 2, 5.18), (3, 3, 5.95), (2, 4, 5.52), (12, 1, 8.07), (6, 1, 4.16), (1, 4, 3.17), (1, 1, 1.38)],
)
def test_paired_steps_as_measured(rows: int, vectors: int, cycles: float) -> None:
    """Hand-written loops on Zen 3."""
    assert cost_model.pair_cycles(V3, Tile(rows, vectors, 8), 512) == pytest.approx(cycles, rel=0.1)


def test_tiles_of_paired_products_do_not_cut_panels() -> None:
    tile = cost_model.choose_tile(V3, 1, 1000, 1280, cost_model.Factors(1, paired=True))
    assert tile.rows == 1 and tile.columns % V3.packing.columns == 0
