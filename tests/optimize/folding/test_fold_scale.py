"""Folding of scales and offsets into weights."""

from __future__ import annotations

import numpy as np
import pytest

from rillet.ir.structured import structured, walk
from tests.support.optimize_graphs import Graph, program
from tests.support.stages import passes


def elementwise(build, shape) -> int:  # type: ignore[no-untyped-def]
    """How many elementwise operations remain."""
    result = program(build, shape)
    for step in passes("optimize"):
        step(result)
    views = [view for op in walk(result.main()) if (view := structured(op)) is not None]
    return sum(view.is_elementwise for view in views if view.body_ops())


def per_channel(g: Graph) -> str:
    return g.array(g.random.uniform(0.5, 1.5, (1, 6, 1, 1)).astype(np.float32))


@pytest.mark.parametrize("group", [1, 2, 6])
def test_chains_of_affine_operations_become_one_offset(group: int) -> None:
    def chain(g: Graph, x: str) -> str:
        y = g.conv(x, 6, 6, group=group)
        y = g("Div", g("Sub", y, per_channel(g)), per_channel(g))
        return g("Neg", g.norm(g("Add", g("Mul", y, per_channel(g)), g.array(np.float32(2.0))), 6))

    assert elementwise(chain, (1, 6, 5, 5)) == 1


def test_a_scale_along_other_axes_stays() -> None:
    def rows(g: Graph, x: str) -> str:
        return g("Mul", g.conv(x, 6, 6), g.array(g.random.uniform(0.5, 1.5, (1, 1, 5, 1)).astype(np.float32)))

    assert elementwise(rows, (1, 6, 5, 5)) == 2


def test_a_result_that_is_used_twice_keeps_its_weights() -> None:
    def fork(g: Graph, x: str) -> list[str]:
        y = g("Conv", x, g.weights(6, 6, 1, 1))
        return [g("Mul", y, per_channel(g)), y]

    assert elementwise(fork, (1, 6, 5, 5)) == 1


def test_a_division_by_zero_is_not_folded() -> None:
    def divide(g: Graph, x: str) -> str:
        return g(
            "Div",
            g("Conv", x, g.weights(6, 6, 1, 1)),
            g.array(np.array([0, 1, 1, 1, 1, 1], np.float32).reshape(6, 1, 1)),
        )

    assert elementwise(divide, (1, 6, 5, 5)) == 1


def multiplies(build) -> bool:  # type: ignore[no-untyped-def]
    """Whether an elementwise operation does."""
    result = program(build, (1, 6, 5, 5))
    for step in passes("optimize"):
        step(result)
    views = [view for op in walk(result.main()) if (view := structured(op)) is not None]
    return any(op.name == "arith.mulf" for view in views if view.is_elementwise for op in view.body_ops())


@pytest.mark.parametrize(
    ("weight", "scale", "folds"),
    [
        (1.0, 3.0, True),
        (1e10, 1e30, False),  # infinite
        (1e-30, 1e-20, False),  # zero
        (1e-20, 1e-22, False),  # denormal
        (1.0, np.inf, False),  # not a number where a weight is 0
        (1e10, 1e-40, True),
    ],
)
def test_products_beyond_normal_numbers_are_not_folded(weight: float, scale: float, folds: bool) -> None:
    def layer(g: Graph, x: str) -> str:
        return g("Mul", g("Conv", x, g.array(np.full((6, 6, 1, 1), weight, np.float32))), g.array(np.float32(scale)))

    assert multiplies(layer) != folds


def test_weights_of_dead_channels_do_not_keep_the_others_from_folding() -> None:
    def layer(g: Graph, x: str) -> str:
        weights, scales = np.ones((6, 6, 1, 1), np.float32), np.ones((1, 6, 1, 1), np.float32)
        weights[2], scales[0, 2] = 1e-25, 1e-20
        return g("Mul", g("Conv", x, g.array(weights)), g.array(scales))

    assert not multiplies(layer)
