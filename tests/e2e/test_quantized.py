"""Quantized networks compute in integers what the reference evaluator computes in floats: quantized results differ by
at most one step, where rounding was nearly a tie, floats by rounding.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import rillet
from tests.support import quantized_graphs as quantized
from tests.support.quantized_graphs import Graph

_TIES = 0.002  # share of quantized results that may be one step off


def residual(g: Graph, x: str) -> str:
    """Convolutions of every kind with nonzero zero points, a residual sum, pooling, a dense layer."""
    y = g.q(g("Relu", g.conv(g.q(x, 0.03, 120), 3, 16, stride=2)), 0.08, 3)
    d = g.q(g.norm(g.conv(y, 16, 16, group=16), 16), 0.09, 77)
    p = g.q(g.conv(d, 16, 16, 1), 0.2, 130)
    y = g.q(g("Relu", g("Add", p, y)), 0.11, 0)
    y = g.q(g("Clip", g.conv(y, 16, 24, group=4), g.array(np.float32(0)), g.array(np.float32(6))), 0.0235, 0)
    y = g.q(g("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), 0.0235, 0)
    y = g.q(g("GlobalAveragePool", y), 0.02, 9)
    y = g("Gemm", g("Flatten", y), g.weights(10, 24), g.array(np.linspace(-1, 1, 10, dtype=np.float32)), transB=1)
    return g.quantize(y, 0.05, 128)


def mixed(g: Graph, x: str) -> str:
    """int8 activations, uint8 weights with any zero point for all channels, saturating values."""
    y = g.q(x, 0.01, -7, np.int8)
    y = g("Conv", y, g.weights(8, 3, 3, 3, axis=None, dtype=np.uint8, zero=93), pads=[1] * 4)
    y = g.q(y, 0.02, 11, np.int8)
    y = g("Conv", y, g.weights(8, 8, 1, 1, dtype=np.uint8, zero=128))
    y = g.q(y, 0.01, -128, np.int8)
    return g.quantize(g("AveragePool", y, kernel_shape=[2, 2], strides=[2, 2]), 0.0131, 20)


def attention(g: Graph, x: str) -> str:
    """Products of two activations, each with a zero point."""
    q, k, v = (g.q(g("MatMul", g.q(x), g.weights(16, 16, axis=1)), 0.06, z) for z in (128, 90, 140))
    scores = g.q(g("MatMul", q, g("Transpose", k, perm=[0, 2, 1])), 0.5, 100)
    mixed = g("MatMul", g.q(g("Softmax", scores, axis=-1), 1 / 255, 0), v)
    return g.quantize(mixed, 0.02, 128)


def movement(g: Graph, x: str) -> str:
    """What only moves elements, between equal parameters."""
    y = g.q(x, 0.04, 100)
    y = g.q(g("Reshape", y, g.array(np.array([1, 6, 2, 64]))), 0.04, 100)
    y = g.q(g("Transpose", y, perm=[0, 2, 1, 3]), 0.04, 100)
    z = g.q(g("Slice", y, *[g.array(np.array([v])) for v in (1, 5, 2)]), 0.04, 100)
    y = g.q(g("Concat", y, z, axis=2), 0.04, 100)
    zero = g.array(np.float32(0))
    y = g.q(g("Pad", y, g.array(np.array([0, 0, 1, 0, 0, 0, 2, 0])), zero), 0.04, 100)
    scales = g.array(np.array([1, 1, 2, 2], np.float32))
    return g.quantize(g("Resize", y, "", scales, mode="nearest"), 0.04, 100)


def inputs(shape: tuple[int, ...], kind: str) -> np.ndarray:
    if kind == "random":
        return np.random.default_rng(3).uniform(-4, 6, shape).astype(np.float32)
    if kind == "structured":
        return (np.arange(np.prod(shape)).reshape(shape) % 37 * 0.31 - 4).astype(np.float32)
    return np.where(np.arange(np.prod(shape)).reshape(shape) % 3, 1e6, -1e6).astype(np.float32)


def run(proto: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    return np.asarray(rillet.compile(proto, threads=1)(x))


@pytest.mark.parametrize(
    ("build", "shape"),
    [(residual, (1, 3, 17, 19)), (mixed, (2, 3, 9, 10)), (attention, (2, 24, 16)), (movement, (1, 3, 16, 16))],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_quantized_results_are_those_of_the_reference(build: quantized.Build, shape: tuple[int, ...]) -> None:
    proto = quantized.model(build, shape)
    compiled = rillet.compile(proto, threads=1)
    for kind in ("random", "structured", "saturating"):
        x = inputs(shape, kind)
        found, expected = np.asarray(compiled(x)), quantized.reference(proto, x)[0]
        assert found.dtype == expected.dtype and found.shape == expected.shape
        steps = np.abs(found.astype(int) - expected.astype(int))
        assert steps.max() <= 1, kind
        assert steps.mean() <= (0 if build is movement else _TIES), kind


@pytest.mark.parametrize("zero", [0, 7])
@pytest.mark.parametrize(("dtype", "axis"), [(np.int8, 1), (np.int8, None), (np.uint8, None)])
def test_float_results_of_quantized_weights(dtype: type, axis: int | None, zero: int) -> None:
    def build(g: Graph, x: str) -> str:
        return g("Relu", g("MatMul", x, g.weights(70, 40, axis=axis, dtype=dtype, zero=zero)))

    proto = quantized.model(build, (9, 70))
    x = np.random.default_rng(1).standard_normal((9, 70)).astype(np.float32)
    np.testing.assert_allclose(run(proto, x), quantized.reference(proto, x)[0], rtol=1e-5, atol=1e-5)


def test_float_results_of_quantized_operands() -> None:
    def build(g: Graph, x: str) -> str:
        return g("Softmax", g("MatMul", g.q(x, 0.02, 131), g.weights(64, 10, axis=1)), axis=-1)

    proto = quantized.model(build, (5, 64))
    x = np.random.default_rng(1).standard_normal((5, 64)).astype(np.float32)
    np.testing.assert_allclose(run(proto, x), quantized.reference(proto, x)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("offset", [0, 3])
def test_float_results_of_dynamic_quantization(offset: int) -> None:
    proto = quantized.model(quantized.dynamic, (2, 5, 64))
    x = (np.random.default_rng(1).standard_normal((2, 5, 64)) + offset).astype(np.float32)
    np.testing.assert_allclose(run(proto, x), quantized.reference(proto, x)[0], rtol=1e-6, atol=1e-6)


def test_a_pad_by_what_no_integer_stands_for_stays() -> None:
    def build(g: Graph, x: str) -> str:
        y = g("Pad", g.q(x, 0.5, 100), g.array(np.array([1, 1])), g.array(np.float32(0.3)))
        return g("Mul", y, g.array(np.float32(2)))

    proto = quantized.model(build, (8,))
    x = np.linspace(-3, 3, 8, dtype=np.float32)
    np.testing.assert_array_equal(run(proto, x), quantized.reference(proto, x)[0])


def test_integer_inputs_and_embeddings() -> None:
    def build(g: Graph, x: str) -> str:
        table = g.weights(50, 8, axis=None, dtype=np.uint8, zero=130)
        return g("Gather", table, x)

    proto = quantized.model(build, (2, 5), element=TensorProto.INT64)
    x = np.arange(10).reshape(2, 5) * 5
    np.testing.assert_array_equal(run(proto, x), quantized.reference(proto, x)[0])
