"""The cost model's register tiles on layers of the benchmark models. A change of the model shows here and is measured
again: ``rillet tune`` says what the best alternative gains over it (benchmarks/README.md, Tuning)."""

from __future__ import annotations

import pytest

from rillet import targets
from rillet.codegen.cpu import cost_model

V3, V4 = targets.get("x86-64-v3"), targets.get("x86-64-v4")

# (m, n, k, rows apart in memory), then (rows, vectors) with 16 registers of 256 bits and with 32 of 512.
CHOICES = [
    ((1024, 1024, 1024, False), (6, 2), (14, 2)),  # a square product
    ((12544, 16, 32, False), (4, 2), (16, 1)),  # MobileNetV2: projections and expansions
    ((3136, 24, 144, False), (4, 3), (14, 2)),
    ((784, 192, 32, False), (4, 2), (4, 2)),
    ((196, 384, 64, False), (4, 3), (14, 2)),
    ((196, 96, 576, False), (6, 2), (14, 2)),
    ((49, 960, 160, True), (5, 2), (7, 3)),
    ((49, 1280, 320, False), (5, 2), (14, 2)),
    ((3136, 64, 576, True), (6, 2), (14, 2)),  # ResNet-50: 3x3 convolutions
    ((196, 256, 2304, True), (6, 2), (14, 2)),
    ((49, 512, 4608, True), (5, 2), (14, 2)),
    ((12544, 96, 16, False), (4, 2), (4, 2)),
    ((21, 3072, 768, False), (6, 2), (7, 3)),  # few rows
    ((128, 384, 384, False), (4, 3), (8, 3)),  # BERT: projections and feed-forward
    ((128, 1536, 384, False), (4, 3), (8, 3)),
    ((1, 1000, 1280, False), (1, 8), (1, 8)),  # a classifier's last layer
]


@pytest.mark.parametrize(("problem", "avx2", "avx512"), CHOICES)
def test_register_tiles(problem: tuple[int, int, int, bool], avx2: tuple[int, int], avx512: tuple[int, int]) -> None:
    m, n, k, gather = problem
    for target, expected in ((V3, avx2), (V4, avx512)):
        tile = cost_model.choose_tile(target, m, n, k, cost_model.Factors(gather=gather))
        assert (tile.rows, tile.vectors) == expected, target.name


@pytest.mark.parametrize(("problem", "avx2", "avx512"), CHOICES)
def test_the_choice_is_within_the_models_own_margin(
    problem: tuple[int, int, int, bool], avx2: tuple[int, int], avx512: tuple[int, int]
) -> None:
    """Fewer copies of the inner loop may cost 2 % of the modelled time, no more."""
    m, n, k, gather = problem
    for target, (rows, vectors) in ((V3, avx2), (V4, avx512)):
        lanes = target.machine.lanes(32)
        cost = {
            (r, v): cost_model.grid_cycles(
                target, cost_model.Tile(r, v, lanes), m, n, k, cost_model.Factors(gather=gather)
            )
            for r in range(1, min(m, 32) + 1)
            for v in range(1, 9)
            if cost_model.fits(target, r, v) and (v - 1) * lanes < n
        }
        assert cost[rows, vectors] <= 1.02 * min(cost.values())
