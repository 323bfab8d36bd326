"""Gathers at positions that are known: the results stay the same, and what has a form reads windows instead."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rillet import optimize
from rillet.dispatch.regions.nodes import host_blocks
from rillet.ir import Program
from rillet.ir.structured import copy_permutation, walk
from tests.support import optimize_graphs as graphs
from tests.support.onnx_interpreter import evaluate
from tests.support.optimize_graphs import Graph

Build = Callable[[Graph, str], str]
SHAPE = (2, 3, 4, 5)


def scaled(*scales: float, **attributes: object) -> Build:
    def build(g: Graph, x: str) -> str:
        return g("Resize", x, "", g.array(np.array([1, 1, *scales], np.float32)), **attributes)

    return build


def sized(*sizes: int, **attributes: object) -> Build:
    def build(g: Graph, x: str) -> str:
        return g("Resize", x, "", "", g.array(np.array([2, 3, *sizes], np.int64)), **attributes)

    return build


LINEAR = {"mode": "linear"}
NEAREST = {"mode": "nearest"}
# Name → model, whether its gathers are windows afterwards.
CASES: dict[str, tuple[Build, bool]] = {
    "nearest, asymmetric": (
        scaled(2, 3, **NEAREST, coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
        True,
    ),
    "nearest, half pixel": (scaled(2, 2, **NEAREST), True),
    "nearest, by a fraction": (scaled(1.5, 2.5, **NEAREST, coordinate_transformation_mode="asymmetric"), True),
    "nearest, smaller": (scaled(0.5, 0.5, **NEAREST), True),
    "linear, half pixel": (scaled(2, 4, **LINEAR), True),
    "linear, half pixel, by thirds": (
        scaled(3, 3, **LINEAR, coordinate_transformation_mode="pytorch_half_pixel"),
        True,
    ),
    "linear, corners aligned": (sized(7, 11, **LINEAR, coordinate_transformation_mode="align_corners"), True),
    "linear, asymmetric": (scaled(2, 2, **LINEAR, coordinate_transformation_mode="asymmetric"), True),
    "linear, to one": (sized(1, 1, **LINEAR), True),
    "cubic": (scaled(2, 2, mode="cubic"), True),
    "cubic, without what is outside": (scaled(2, 2, mode="cubic", exclude_outside=1), True),
    "linear, cropped": (
        lambda g, x: g(
            "Resize",
            x,
            g.array(np.array([0, 0, 0.2168, 0.3, 1, 1, 1.0514, 0.9], np.float32)),
            "",
            g.array(np.array([2, 3, 4, 5], np.int64)),
            **LINEAR,
            coordinate_transformation_mode="tf_crop_and_resize",
        ),
        False,
    ),
    "the first rows": (lambda g, x: g("Gather", x, g.array(np.array([0, 1], np.int64)), axis=2), False),
    "a list of rows": (lambda g, x: g("Gather", x, g.array(np.array([3, 0, 2], np.int64)), axis=2), False),
}


def gathers(program: Program) -> int:
    return sum(op.name == "tensor.extract" for block in host_blocks(program.main()) for op in _inner(block))


def _inner(block: object) -> list[object]:
    return [inner for op in block.operations for inner in walk(op)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("case", CASES)
def test_results_are_the_same(case: str) -> None:
    build, _ = CASES[case]
    x = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)
    (expected,) = evaluate(graphs.program(build, SHAPE), [x])
    (actual,) = evaluate(graphs.optimized(build, SHAPE), [x])
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("case", CASES)
def test_what_has_a_form_reads_windows(case: str) -> None:
    build, windows = CASES[case]
    assert gathers(graphs.program(build, SHAPE)) > 0
    assert (gathers(graphs.optimized(build, SHAPE)) == 0) is windows


def test_positions_of_unknown_extents_stay_gathers() -> None:
    build = scaled(1.5, 1.5, **LINEAR)
    assert gathers(graphs.optimized(build, ("n", 3, "h", "w"))) > 0


def test_very_long_loops_are_left_alone() -> None:
    """What would be worked out for each of 2^33 iterations is not."""
    assert gathers(graphs.optimized(scaled(1, 1 << 30, **NEAREST), (1, 3, 1, 8))) > 0


def test_between_convolutions_channels_stay_last() -> None:
    """Only the input and the result are transposed."""

    def between(g: Graph, x: str) -> str:
        y = g("Relu", g.conv(x, 3, 8))
        y = g("Resize", y, "", g.array(np.array([1, 1, 2, 2], np.float32)), mode="linear")
        return g.conv(y, 8, 4)

    program = graphs.optimized(between, (1, 3, 8, 8))
    copies = [op for op in walk(program.main()) if copy_permutation(op) not in (None, (0, 1, 2, 3))]
    assert len(copies) == 2


def test_weights_are_not_computed_at_run_time() -> None:
    program = graphs.optimized(scaled(2, 2, **LINEAR), SHAPE)
    assert not any(op.name in ("math.floor", "arith.sitofp", "linalg.index") for op in walk(program.main()))
    optimize.check(program)
