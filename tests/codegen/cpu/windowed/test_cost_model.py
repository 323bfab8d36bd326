"""The cost model of windowed kernels."""

from __future__ import annotations

import math

import pytest

from rillet import targets
from rillet.codegen.cpu.windowed import cost_model
from rillet.codegen.cpu.windowed.cost_model import Operand, Reach, Window, WindowTile
from tests.support.targets import with_machine

V2, V3, V4, ARM, M4 = (targets.get(n) for n in ("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64", "cortex-m4"))


def convolution(lines: int, rows: int, columns: int, kernel: int = 3, stride: int = 1) -> Window:
    """A depthwise convolution in f32."""
    along, fixed = Reach(stride, tuple(range(kernel))), Reach(0, (0,))
    operands = (Operand(along, along, 1, 4), Operand(fixed, fixed, kernel * kernel, 4))
    return Window(1, lines, rows, columns, kernel * kernel, operands)


def test_neighbours_share_what_they_read() -> None:
    assert [Reach(1, (0, 1, 2)).positions(n) for n in (1, 2, 4)] == [3, 4, 6]
    assert [Reach(2, (0, 1, 2)).positions(n) for n in (1, 2, 4)] == [3, 5, 9]
    assert [Reach(1, (0, 2, 4)).positions(n) for n in (1, 2, 3)] == [3, 6, 7]
    assert Reach(1, (0, 1, 2)).further(4) == 4 and Reach(2, (0, 1, 2)).further(4) == 8
    assert [Reach(1, (0, 1, 2)).readers(n) for n in (1, 2, 4)] == [1, 2, 3] and Reach(2, (0, 1, 2)).readers(4) == 2


@pytest.mark.parametrize("target", [V2, V3, V4, ARM, M4], ids=lambda target: target.name)
@pytest.mark.parametrize(
    ("lines", "rows", "columns"), [(56, 56, 144), (14, 14, 576), (7, 7, 960), (1, 1, 1280), (2, 3, 7), (112, 112, 32)]
)
@pytest.mark.parametrize("kernel", [3, 5, 9])
def test_tiles_keep_sums_in_registers(target: targets.Target, lines: int, rows: int, columns: int, kernel: int) -> None:
    lanes = target.machine.lanes(32)
    window = convolution(lines, rows, columns, kernel)
    tile = cost_model.choose_tile(target, window, lanes)
    assert tile.accumulators <= target.machine.tile_registers - 2
    assert tile.lines <= lines and tile.rows <= rows and (tile.vectors - 1) * lanes < columns
    if tile.lines > 1:
        assert tile.accumulators * window.steps <= cost_model.unrolled_operations(target)
    blocks = cost_model.choose_blocks(target, window, tile)
    assert 1 <= blocks.outer <= math.ceil(lines / tile.lines)


# Measured on Zen 3 with AVX2; among those within a few percent of the best.
@pytest.mark.parametrize(
    ("size", "columns", "stride", "expected"),
    [
        (112, 32, 1, (2, 4, 1)),
        (56, 144, 1, (2, 4, 1)),
        (14, 384, 1, (2, 7, 1)),
        (7, 960, 1, (2, 7, 1)),
        (56, 96, 2, (4, 1, 1)),
        (28, 144, 2, (4, 1, 1)),
        (14, 192, 2, (2, 2, 1)),
        (7, 576, 2, (2, 7, 1)),
    ],
)
def test_tiles_on_layers_of_networks(size: int, columns: int, stride: int, expected: tuple[int, int, int]) -> None:
    tile = cost_model.choose_tile(V3, convolution(size, size, columns, stride=stride), 8)
    assert (tile.lines, tile.rows, tile.vectors) == expected


def test_lines_in_a_tile_spare_fetches_from_l2() -> None:
    wide = convolution(56, 56, 144)
    one, two = (cost_model.tile_cycles(V3, wide, WindowTile(4, 1, 8, n)) / n for n in (1, 2))
    assert two < one
    small = convolution(4, 4, 8)
    ample = with_machine(V3, l1d_bytes=1 << 20)
    tile = WindowTile(4, 1, 8, 2)
    assert cost_model.tile_cycles(V3, small, tile) == cost_model.tile_cycles(ample, small, tile)


def test_reads_from_beyond_l2_go_along_few_streams() -> None:
    """Beside memory arithmetic matters little: the tile with one position of a line begins the fewest streams."""
    large = convolution(56, 56, 96, stride=2)
    ample = with_machine(V3, l2_bytes=16 << 20)
    one, four = WindowTile(1, 1, 8, 4), WindowTile(4, 1, 8, 2)
    cycles = {t: [cost_model.window_cycles(t, large, tile) for tile in (one, four)] for t in (V3, ample)}
    assert cycles[V3][0] < 0.9 * cycles[V3][1]
    assert cycles[ample][0] > cycles[ample][1]


def test_parts_of_lines_that_share_few_sets_are_avoided() -> None:
    # 512 channels of f32 are 32 lines: two sets of 64, which hold 16 lines. A tile of 2x7 touches 36 of them.
    narrow, wide = WindowTile(7, 1, 8, 2), WindowTile(2, 2, 8, 2)
    crowded, spread = convolution(14, 14, 512), convolution(14, 14, 528)
    better = [
        cost_model.window_cycles(V3, w, narrow) < cost_model.window_cycles(V3, w, wide) for w in (crowded, spread)
    ]
    assert better == [False, True]
    assert cost_model.choose_tile(V3, crowded, 8).vectors == 2
    assert cost_model.choose_tile(V3, convolution(28, 28, 128, kernel=5, stride=2), 8).rows < 7


def test_an_out_of_order_core_runs_the_chains_of_several_tiles_side_by_side() -> None:
    short = convolution(2, 2, 64)
    tile = WindowTile(1, 1, 1, 1)
    single = with_machine(V3, l2_bytes=0)
    assert cost_model.tile_cycles(single, short, tile) >= 36 > 1.5 * cost_model.tile_cycles(V3, short, tile)


def test_without_an_l2_code_stays_small() -> None:
    assert cost_model.choose_tile(M4, convolution(25, 5, 64), 1).lines == 1


def test_two_workers_share_the_blocks_evenly() -> None:
    window = convolution(56, 56, 144)
    tile = WindowTile(4, 1, 8, 2)
    blocks = cost_model.choose_blocks(V3, window, tile)
    assert math.ceil(28 / blocks.outer) % 2 == 0
