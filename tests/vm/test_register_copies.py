from __future__ import annotations

import itertools
import random

import pytest

from rillet.vm.register_copies import sequentialize


def play(moves: dict[int, int], scratch: int) -> bool:
    """Whether the steps do what the moves say."""
    registers = {r: f"value {r}" for r in {*moves, *moves.values(), scratch}}
    expected = {**registers, **{d: registers[s] for d, s in moves.items()}}
    steps, used = sequentialize(moves, scratch)
    for destination, source in steps:
        registers[destination] = registers[source]
    assert used == any(d == scratch for d, _ in steps)
    return all(registers[r] == expected[r] for r in registers if r != scratch)


@pytest.mark.parametrize(
    ("moves", "steps", "used"),
    [
        ({}, [], False),
        ({1: 1}, [], False),
        ({1: 0, 2: 1}, [(2, 1), (1, 0)], False),
        ({0: 1, 1: 0}, [(9, 0), (0, 1), (1, 9)], True),
    ],
)
def test_known_orders(moves: dict[int, int], steps: list[tuple[int, int]], used: bool) -> None:
    assert sequentialize(moves, 9) == (steps, used)


def test_every_permutation_of_four() -> None:
    for sources in itertools.product(range(4), repeat=4):
        assert play(dict(enumerate(sources)), 9)


def test_random_moves() -> None:
    generator = random.Random(0)
    for _ in range(200):
        registers = range(generator.randrange(1, 12))
        assert play({d: generator.choice(registers) for d in registers if generator.random() < 0.7}, 99)
