"""Transposed convolutions by phases: the results stay the same, and no tensor with zeros between elements remains."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from torch_mlir import ir

from rillet.ir import Program
from rillet.ir.contraction import contraction
from rillet.ir.structured import structured, walk
from tests.support import optimize_graphs as graphs
from tests.support import quantized_graphs as quantized
from tests.support.importing import import_model
from tests.support.onnx_interpreter import evaluate
from tests.support.optimize_graphs import Graph
from tests.support.stages import passes

Build = Callable[[Graph, str], str]


def up(channels: int, filters: int, *kernel: int, group: int = 1, **attributes: object) -> Build:
    def build(g: Graph, x: str) -> str:
        w = g.weights(channels, filters // group, *kernel)
        return g("ConvTranspose", x, w, g.weights(filters), group=group, **attributes)

    return build


def before_activation(g: Graph, x: str) -> str:
    """Normalized, rectified, and padded for the next convolution."""
    y = g("ConvTranspose", x, g.weights(4, 3, 2, 2), strides=[2, 2])
    return g.conv(g("Relu", g.norm(y, 3)), 3, 5)


def one_behind_the_other(g: Graph, x: str) -> str:
    y = g("ConvTranspose", x, g.weights(4, 16, 4, 4), g.weights(16), strides=[2, 2], pads=[1] * 4)
    y = g("ConvTranspose", g("Relu", y), g.weights(16, 16, 4, 4), strides=[2, 2], pads=[1] * 4)
    return g("Tanh", g.norm(y, 16))


IMAGE, SIGNAL, VOLUME = (2, 4, 5, 6), (1, 4, 7), (1, 2, 3, 3, 2)
# Name → model, shape of the input, convolutions afterwards.
CASES: dict[str, tuple[Build, tuple[int, ...], int]] = {
    "taps as far apart as the stride": (up(4, 3, 2, 2, strides=[2, 2]), IMAGE, 2),
    "one channel": (up(4, 1, 4, 4, strides=[2, 2], pads=[1] * 4), IMAGE, 4),
    "overlapping taps": (up(4, 16, 4, 4, strides=[2, 2], pads=[1] * 4), IMAGE, 4),
    "taps that phases share unevenly": (up(4, 16, 3, 3, strides=[2, 2], pads=[1] * 4, output_padding=[1, 1]), IMAGE, 4),
    "a result that ends within its last phase": (up(4, 16, 3, 3, strides=[2, 2]), IMAGE, 4),
    "cropped at both ends": (up(4, 16, 5, 5, strides=[3, 3], pads=[1, 0, 1, 0]), IMAGE, 6),
    "one axis spread": (up(4, 16, 3, 3, strides=[1, 2], pads=[1] * 4), IMAGE, 2),
    "dilated": (up(4, 16, 4, 4, strides=[3, 3], dilations=[2, 2], pads=[2] * 4), IMAGE, 9),
    "many phases": (up(4, 32, 48, strides=[24], pads=[12] * 2), SIGNAL, 2),
    "depthwise": (up(4, 4, 4, 4, group=4, strides=[2, 2], pads=[1] * 4), IMAGE, 4),
    "three dimensions": (up(2, 16, 2, 2, 2, strides=[2, 2, 2]), VOLUME, 4),
    "followed by others": (before_activation, IMAGE, 3),
    "one behind the other": (one_behind_the_other, IMAGE, 8),
    "left alone, a phase without taps": (up(4, 3, 1, 1, strides=[2, 2]), IMAGE, 1),
    "left alone, in groups": (up(4, 16, 4, 4, group=2, strides=[2, 2], pads=[1] * 4), IMAGE, 1),
    "left alone, of stride 1": (up(4, 3, 3, 3), IMAGE, 1),
}


@pytest.mark.parametrize("case", CASES)
def test_results_are_the_same(case: str) -> None:
    build, shape, _ = CASES[case]
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    (expected,) = evaluate(graphs.program(build, shape), [x])
    (actual,) = evaluate(graphs.optimized(build, shape), [x])
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-6 * np.abs(expected).max())


@pytest.mark.parametrize("case", CASES)
def test_infinities_stay_where_they_are(case: str) -> None:
    """Only what meets one is infinite: nothing is multiplied by a tap that the filter does not have."""
    build, shape, _ = CASES[case]
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    x.flat[x.size // 2] = np.inf
    with np.errstate(invalid="ignore"):
        (expected,) = evaluate(graphs.program(build, shape), [x])
        (actual,) = evaluate(graphs.optimized(build, shape), [x])
    np.testing.assert_array_equal(np.isfinite(actual), np.isfinite(expected))


@pytest.mark.parametrize("case", CASES)
def test_each_phase_is_a_convolution_of_the_input(case: str) -> None:
    build, shape, count = CASES[case]
    program = graphs.optimized(build, shape)
    assert _convolutions(program) == count
    assert _spreads(program) == (case in ("left alone, a phase without taps", "left alone, in groups"))


def _convolutions(program: Program) -> int:
    views = [view for op in walk(program.main()) if (view := structured(op)) is not None]
    return sum((r := contraction(v)) is not None and r.is_convolution for v in views)


def _spreads(program: Program) -> bool:
    """Whether something is inserted with steps."""
    return any(
        any(s != 1 for s in ir.DenseI64ArrayAttr(op.attributes["static_strides"]))
        for op in walk(program.main())
        if op.name == "tensor.insert_slice"
    )


UNKNOWN = ("taps that phases share unevenly", "a result that ends within its last phase", "many phases", "depthwise")


@pytest.mark.parametrize("case", UNKNOWN)
def test_sizes_that_are_not_known(case: str) -> None:
    build, shape, count = CASES[case]
    unknown = tuple(f"n{axis}" if axis != 1 else size for axis, size in enumerate(shape))
    program = graphs.optimized(build, unknown)
    assert _convolutions(program) == count
    assert not _spreads(program)
    for size in (1, 4):
        x = np.random.default_rng(size).standard_normal((size, shape[1], *(size + 1 for _ in shape[2:])))
        (expected,) = evaluate(graphs.program(build, unknown), [x.astype(np.float32)])
        (actual,) = evaluate(graphs.optimized(build, unknown), [x.astype(np.float32)])
        assert actual.shape == expected.shape
        np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-6 * np.abs(expected).max())


def quantized_up(
    kernel: int, stride: int, pad: int, *, extra: int = 0, group: int = 1, dtype: type = np.uint8, weights_zero: int = 0
) -> quantized.Build:
    """Of integers whose zero point is none, with weights for each channel where there are no groups."""

    def build(g: quantized.Graph, x: str) -> str:
        kind = {"dtype": np.uint8, "zero": weights_zero} if weights_zero else {}
        w = g.weights(8, 8 // group, kernel, kernel, axis=1 if group == 1 else None, **kind)
        x = g.q(x, 0.05, 113 if dtype == np.uint8 else -20, dtype)
        bias = g.array(np.linspace(-1, 1, 8, dtype=np.float32))
        attributes = {"strides": [stride] * 2, "pads": [pad] * 4, "output_padding": [extra] * 2, "group": group}
        return g.quantize(g("Relu", g("ConvTranspose", x, w, bias, **attributes)), 0.1, 7)

    return build


QUANTIZED: dict[str, tuple[quantized.Build, int]] = {
    "taps as far apart as the stride": (quantized_up(2, 2, 0), 2),
    "phases without some taps": (quantized_up(3, 2, 1, extra=1), 4),
    "int8, cropped": (quantized_up(5, 3, 1, dtype=np.int8), 9),
    "weights with a zero point": (quantized_up(4, 2, 1, weights_zero=90), 4),
    "depthwise": (quantized_up(3, 2, 1, group=8), 4),
}


@pytest.mark.parametrize("case", QUANTIZED)
def test_phases_of_integers(case: str) -> None:
    """The zero point lies between the elements in place of zeros; one step is a tie of the rounding."""
    build, most = QUANTIZED[case]
    model = quantized.model(build, (1, 8, 5, 6))
    x = np.random.default_rng(1).uniform(-4, 6, (1, 8, 5, 6)).astype(np.float32)
    (expected,) = evaluate(import_model(model), [x])
    program = import_model(model)
    for step in passes("optimize"):
        step(program)
    views = [view for op in walk(program.main()) if (view := structured(op)) is not None]
    sums = [v for v in views if (r := contraction(v)) is not None and r.is_convolution]
    assert 1 < len(sums) <= most
    assert {str(ir.RankedTensorType(v.op.results[0].type).element_type) for v in sums} == {"i32"}
    (actual,) = evaluate(program, [x])
    apart = np.abs(actual.astype(int) - expected.astype(int))
    assert apart.max() <= 1 and np.mean(apart) < 0.002


def test_dequantized_images_of_float_filters_are_not_spread_out() -> None:
    def build(g: quantized.Graph, x: str) -> str:
        w = g.array(g.random.standard_normal((8, 16, 4, 4)).astype(np.float32))
        return g("ConvTranspose", g.q(x, 0.05, 113), w, strides=[2, 2], pads=[1] * 4)

    model = quantized.model(build, (1, 8, 5, 6))
    x = np.random.default_rng(1).uniform(-4, 6, (1, 8, 5, 6)).astype(np.float32)
    (expected,) = evaluate(import_model(model), [x])
    program = import_model(model)
    for step in passes("optimize"):
        step(program)
    views = [view for op in walk(program.main()) if (view := structured(op)) is not None]
    assert sum((r := contraction(v)) is not None and r.is_convolution for v in views) == 4
    (actual,) = evaluate(program, [x])
    np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-6 * np.abs(expected).max())
