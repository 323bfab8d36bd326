"""Normalizations of groups of channels keep the layout of the convolutions around them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rillet import optimize
from rillet.ir import Program
from rillet.ir.structured import copy_permutation, walk
from rillet.optimize.layouts.factor_reshapes import common_axes
from tests.support import optimize_graphs as graphs
from tests.support.onnx_interpreter import evaluate
from tests.support.optimize_graphs import Graph

Build = Callable[[Graph, str], str]
SHAPE = (2, 6, 5, 4)


def ints(g: Graph, *values: int) -> str:
    return g.array(np.array(values, np.int64))


def groups(g: Graph, x: str, count: int = 4) -> str:
    """GroupNormalization of 8 channels as exporters write it."""
    y = g("Reshape", x, ints(g, 0, count, -1))
    y = g("InstanceNormalization", y, g.array(np.ones(count, np.float32)), g.array(np.zeros(count, np.float32)))
    y = g("Reshape", y, ints(g, SHAPE[0], 8, *SHAPE[2:]))
    return g("Add", g("Mul", y, g.weights(8, 1, 1)), g.weights(8, 1, 1))


def normalized(g: Graph, x: str) -> str:
    y = groups(g, g.conv(x, 6, 8))
    return g.conv(g("Mul", y, g("Sigmoid", y)), 8, 4)


def one_group(g: Graph, x: str) -> str:
    return g.conv(groups(g, g.conv(x, 6, 8), 1), 8, 4)


def softmax_of_all(g: Graph, x: str) -> str:
    y = g("Softmax", g("Reshape", g.conv(x, 6, 8), ints(g, 0, 2, -1)), axis=-1)
    return g.conv(g("Reshape", y, ints(g, SHAPE[0], 8, *SHAPE[2:])), 8, 4)


def elsewhere_too(g: Graph, x: str) -> str:
    """The reshaped tensor is the right operand of a product as well."""
    y = g("Reshape", g.conv(x, 6, 8), ints(g, 0, 4, -1))
    mean = g("ReduceMean", y, axes=[2])
    z = g("Reshape", g("Sub", y, mean), ints(g, SHAPE[0], 8, *SHAPE[2:]))
    return g("Add", g.conv(z, 8, 4), g("ReduceMean", g("MatMul", y, g.weights(2 * 5 * 4, 3))))


def without_convolution(g: Graph, x: str) -> str:
    y = g("Reshape", x, ints(g, 0, 4, -1))
    return g("Reshape", g("Softmax", y, axis=-1), ints(g, *SHAPE))


# Name → model, transpositions of images that are left.
CASES: dict[str, tuple[Build, int]] = {
    f.__name__: (f, n)
    for f, n in ((normalized, 2), (one_group, 2), (softmax_of_all, 2), (elsewhere_too, 4), (without_convolution, 0))
}


def transpositions(program: Program) -> int:
    found = [copy_permutation(op) for op in walk(program.main())]
    return sum(p is not None and len(p) == 4 and p != (0, 1, 2, 3) for p in found)


@pytest.mark.parametrize("case", CASES)
def test_results_are_the_same(case: str) -> None:
    build, _ = CASES[case]
    x = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)
    (expected,) = evaluate(graphs.program(build, SHAPE), [x])
    program = graphs.optimized(build, SHAPE)
    optimize.check(program)
    (actual,) = evaluate(program, [x])
    np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-6 * np.abs(expected).max())


@pytest.mark.parametrize("case", CASES)
def test_only_input_and_result_are_transposed(case: str) -> None:
    build, count = CASES[case]
    assert transpositions(graphs.optimized(build, SHAPE)) == count


def test_the_axes_that_two_shapes_have_in_common() -> None:
    assert common_axes([1, 64, 4, 4], [1, 8, 128]) == ([1, 8, 8, 4, 4], [[0], [1, 2], [3], [4]], [[0], [1], [2, 3, 4]])
    assert common_axes([6, 4], [4, 6]) is None
    assert common_axes([2, 3], [6]) == ([2, 3], [[0], [1]], [[0, 1]])
    assert common_axes([0, 3], [3, 0]) is None
