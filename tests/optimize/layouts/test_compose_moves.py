"""Slices, transpositions and reshapes one behind the other: the same elements, copied once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rillet import optimize
from rillet.ir import Program
from rillet.ir.structured import copy_permutation, walk
from tests.support import optimize_graphs as graphs
from tests.support.onnx_interpreter import evaluate
from tests.support.optimize_graphs import Graph

Build = Callable[[Graph, str], str | list[str]]


def ints(g: Graph, *values: int) -> str:
    return g.array(np.array(values, np.int64))


def reshape(g: Graph, x: str, *shape: int) -> str:
    return g("Reshape", x, ints(g, *shape))


def cut(g: Graph, x: str, start: int, end: int, axis: int) -> str:
    return g("Slice", x, ints(g, start), ints(g, end), ints(g, axis))


def patches(g: Graph, x: str) -> str:
    """The pixels of an image of 6 x 12 x 8 by their place in patches of 2 x 2."""
    y = g("Transpose", reshape(g, x, 36, 2, 4, 2), perm=[0, 2, 1, 3])
    return reshape(g, g("Transpose", reshape(g, y, 6, 24, 4), perm=[2, 1, 0]), 4, 24, 6)


def there_and_back(g: Graph, x: str) -> str:
    y = reshape(g, g("Transpose", reshape(g, x, 6, 12, 4, 2), perm=[1, 2, 0, 3]), 48, 12)
    return g("Transpose", reshape(g, y, 12, 4, 6, 2), perm=[2, 0, 1, 3])


def rows_of_heads(g: Graph, x: str) -> str:
    """A slice of whole rows behind a transposition that leaves rows as they are."""
    y = reshape(g, g("Transpose", x, perm=[1, 0, 2]), 72, 8)
    return cut(g, y, 12, 60, 0)


def shuffled_halves(g: Graph, x: str) -> list[str]:
    """Elements change places within rows, of which parts are taken then: better one after the other."""
    y = reshape(g, g("Transpose", reshape(g, x, 72, 2, 4), perm=[0, 2, 1]), 72, 8)
    return [cut(g, y, 0, 4, 1), cut(g, y, 4, 8, 1)]


def through_a_group(g: Graph, x: str) -> str:
    """The second slice takes what does not lie together in the source."""
    y = reshape(g, g("Transpose", x, perm=[1, 0, 2]), 72, 8)
    return cut(g, y, 5, 17, 0)


def read_between(g: Graph, x: str) -> list[str]:
    y = g("Transpose", x, perm=[1, 0, 2])
    return [g("Transpose", reshape(g, y, 12, 48), perm=[1, 0]), g("Sin", y)]


# Name → model, copies that are left.
CASES: dict[str, tuple[Build, int]] = {
    f.__name__: (f, n)  # type: ignore[attr-defined]
    for f, n in (
        (patches, 1),
        (there_and_back, 0),
        (rows_of_heads, 1),
        (shuffled_halves, 3),
        (through_a_group, 2),
        (read_between, 2),
    )
}
SHAPE = (6, 12, 8)


def copies(program: Program) -> int:
    """Dispatches that only move elements: a slice and the transposition behind it are one."""
    found = 0
    for op in walk(program.main()):
        order = copy_permutation(op)
        behind = order is not None and getattr(op.operands[0].owner, "name", "") == "tensor.extract_slice"
        found += op.name == "tensor.extract_slice" or (order not in (None, tuple(sorted(order or ()))) and not behind)
    return found


@pytest.mark.parametrize("case", CASES)
def test_results_are_the_same(case: str) -> None:
    build, _ = CASES[case]
    x = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)
    program = graphs.optimized(build, SHAPE)
    optimize.check(program)
    for expected, actual in zip(evaluate(graphs.program(build, SHAPE), [x]), evaluate(program, [x]), strict=True):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("case", CASES)
def test_elements_are_copied_once(case: str) -> None:
    build, count = CASES[case]
    assert copies(graphs.optimized(build, SHAPE)) == count


def test_unknown_extents_are_left_alone() -> None:
    def twice(g: Graph, x: str) -> str:
        y = reshape(g, g("Transpose", x, perm=[1, 0, 2]), -1, 8)
        return g("Transpose", y, perm=[1, 0])

    assert copies(graphs.optimized(twice, ("n", 12, 8))) == 2
