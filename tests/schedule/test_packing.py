from __future__ import annotations

import random

import pytest

from rillet.schedule.packing import Item, Packing, lower_bound, pack


def assert_valid(items: list[Item], packing: Packing, alignment: int) -> None:
    for i, a in enumerate(items):
        assert packing.offsets[i] % alignment == 0
        assert packing.offsets[i] + a.size <= packing.total
        for j, b in enumerate(items[:i]):
            if a.first <= b.last and b.first <= a.last:
                start, other = packing.offsets[i], packing.offsets[j]
                assert start + a.size <= other or other + b.size <= start
    assert packing.total >= packing.lower_bound == lower_bound(items, alignment)


def test_nothing_to_pack() -> None:
    assert pack([], 64) == Packing((), 0, 0)


def test_items_that_never_meet_share_one_place() -> None:
    packing = pack([Item(100, 0, 0), Item(128, 1, 1), Item(3, 2, 5)], 64)
    assert packing.offsets == (0, 0, 0)
    assert packing.total == packing.lower_bound == 128


def test_empty_items_take_no_room() -> None:
    packing = pack([Item(0, 0, 3), Item(64, 0, 3)], 64)
    assert packing.total == 64


def test_a_chain_needs_its_two_largest_neighbours() -> None:
    # Each buffer lives with the one before and the one after: only alternating between both ends is optimal.
    items = [Item(64 * (64 + i % 7), i, i + 1) for i in range(100)]
    packing = pack(items, 64)
    assert_valid(items, packing, 64)
    assert packing.total == packing.lower_bound


@pytest.mark.parametrize("seed", range(20))
def test_random_lifetimes(seed: int) -> None:
    generator = random.Random(seed)
    items = []
    for _ in range(generator.randrange(1, 60)):
        first = generator.randrange(50)
        items.append(Item(generator.randrange(5000), first, first + int(generator.expovariate(0.4))))
    packing = pack(items, 64)
    assert_valid(items, packing, 64)
    assert packing.total <= 1.15 * packing.lower_bound


def test_the_same_input_packs_the_same() -> None:
    generator = random.Random(7)
    items = [Item(generator.randrange(1, 999), s := generator.randrange(40), s + 3) for _ in range(40)]
    assert pack(items, 64) == pack(items, 64)


@pytest.mark.parametrize("seed", range(2))
def test_very_many_at_the_same_time(seed: int) -> None:
    """Too many pairs to look at, half of them of one size: each is placed once."""
    generator = random.Random(seed)
    items = []
    for i in range(600):
        first = generator.randrange(300)
        items.append(Item((256, generator.randrange(5000))[i % 2], first, first + generator.randrange(300)))
    packing = pack(items, 64)
    assert_valid(items, packing, 64)
    assert packing.total <= 1.3 * packing.lower_bound


def test_a_fan_in_needs_no_more_than_its_parts() -> None:
    """A thousand that are made one after the other and read together, then as many of the same size."""
    items = [Item(100, i, 1000) for i in range(1000)] + [Item(100, 1001 + i, 2001) for i in range(1000)]
    packing = pack(items, 64)
    assert packing.total == packing.lower_bound == 128 * 1000
