"""Denormal weights become zero where they are nothing beside the others."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import rillet
from rillet.optimize.folding.flush_denormals import flushed
from tests.support.optimize_graphs import Graph, model, optimized

SHAPE = (1, 6, 5, 5)
SMALLEST = np.finfo(np.float32).smallest_normal
Build = Callable[[Graph, str], str]


def dead(g: Graph, *shape: int, axis: int = 0, low: float = -1.0) -> np.ndarray:
    """Weights whose second channel is denormal."""
    array = g.random.uniform(low, 1.0, shape).astype(np.float32)
    np.moveaxis(array, axis, 0)[1] *= np.float32(1e-39)
    return array


def denormals(build: Build) -> int:
    """How many numbers of the optimized model's constants are denormal."""
    constants = optimized(build, SHAPE).constants
    arrays = [constants[name] for name in constants]
    return sum(int(np.sum((a != 0) & (np.abs(a) < SMALLEST))) for a in arrays if a.dtype == np.float32)


def pointwise(g: Graph, x: str) -> str:
    return g("Conv", x, g.array(dead(g, 8, 6, 1, 1)))


def with_bias(g: Graph, x: str) -> str:
    return g("Relu", g("Conv", x, g.array(dead(g, 8, 6, 3, 3)), g.array(dead(g, 8))))


def with_dead_bias_only(g: Graph, x: str) -> str:
    bias = np.zeros(8, np.float32)
    bias[1] = 5e-41
    return g("Conv", x, g.array(dead(g, 8, 6, 1, 1)), g.array(bias))


def depthwise(g: Graph, x: str) -> str:
    return g("Conv", x, g.array(dead(g, 6, 1, 3, 3)), group=6)


def normalized(g: Graph, x: str) -> str:
    zeros, ones = np.zeros(8, np.float32), np.ones(8, np.float32)
    offset = zeros.copy()
    offset[1] = 5e-41
    scale = dead(g, 8, low=0.5)
    return g("BatchNormalization", g.conv(x, 6, 8, 1), *map(g.array, (scale, offset, zeros, ones)))


def normalized_first(g: Graph, x: str) -> str:
    parameters = (dead(g, 6, low=0.5), dead(g, 6), np.zeros(6, np.float32), np.ones(6, np.float32))
    return g("Relu", g("BatchNormalization", x, *map(g.array, parameters)))


def constant_lhs(g: Graph, x: str) -> str:
    return g("MatMul", g.array(dead(g, 1, 6, 4, 5, axis=2)), x)


def dense(g: Graph, x: str) -> str:
    return g("Add", g("MatMul", x, g.array(dead(g, 5, 7, axis=1))), g.array(dead(g, 7)))


@pytest.mark.parametrize(
    "build",
    [pointwise, with_bias, with_dead_bias_only, depthwise, normalized, normalized_first, constant_lhs, dense],
)
def test_no_denormals_are_left_in_factors_and_what_is_added_to_products(build: Build) -> None:
    assert denormals(build) == 0
    graph = model(build, SHAPE)
    x = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)
    (expected,) = ReferenceEvaluator(graph).run(None, {"x": x})
    result = rillet.compile(graph)(x)
    small = np.abs(expected) < 1e-36
    assert small.any() and np.abs(result[small]).max() == 0
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def divided(g: Graph, x: str) -> str:
    return g("Div", x, g.array(dead(g, 5)))


def compared(g: Graph, x: str) -> str:
    return g("Max", x, g.array(dead(g, 5)))


def added(g: Graph, x: str) -> str:
    return g("Add", x, g.array(dead(g, 5)))


def all_small(g: Graph, x: str) -> str:
    return g("MatMul", x, g.array(g.random.uniform(-1, 1, (5, 7)).astype(np.float32) * np.float32(1e-40)))


@pytest.mark.parametrize("build", [divided, compared, added, all_small])
def test_other_denormals_stay(build: Build) -> None:
    assert denormals(build) > 0


def test_products_of_denormals_alone_are_computed() -> None:
    graph = model(all_small, SHAPE)
    x = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)
    (expected,) = ReferenceEvaluator(graph).run(None, {"x": x})
    np.testing.assert_allclose(rillet.compile(graph)(x), expected, rtol=0, atol=16 * 2.0**-149)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16])
def test_only_denormals_change_and_keep_their_sign(dtype: type) -> None:
    tiny = float(ml_dtypes.finfo(dtype).smallest_normal)
    numbers = np.array([1, np.nan, -np.inf, np.inf, tiny, tiny / 2, -tiny / 4, 0, -0.0], dtype)
    (result,) = flushed([numbers]) or [None]
    expected = np.array([1, np.nan, -np.inf, np.inf, tiny, 0, -0.0, 0, -0.0], dtype)
    assert result is not None and result.dtype == numbers.dtype
    np.testing.assert_array_equal(result.view(np.uint8), expected.view(np.uint8))


def test_denormals_stay_where_the_largest_number_is_not_much_larger() -> None:
    assert flushed([np.array([SMALLEST / 2, SMALLEST * 2**23], np.float32)]) is None
    assert flushed([np.array([SMALLEST / 2, np.inf, np.nan], np.float32)]) is None
    assert flushed([np.array([SMALLEST / 2, SMALLEST * 2**24], np.float32)]) is not None
    assert flushed([np.array([SMALLEST / 2], np.float32), np.array([1], np.float32)]) is not None
