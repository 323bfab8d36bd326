"""Quantized networks on emulated microcontrollers: results, instructions, memory.

Bounds are what the compiler reaches, and a little: instructions are the same in every run.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import models
import rillet
from benchmarks import quantized_models
from tests.support import firmware
from tests.support import quantized_graphs as quantized
from tests.support.quantized_graphs import Graph

TARGETS = ["cortex-m4", "cortex-m55", "riscv32imf"]
# Instructions for each multiply-accumulate, at most; bytes of the arena and of the kernels, at most.
BOUNDS = {
    ("cortex-m4", "ds_cnn"): (1.9, 17_000, 5_000),
    ("cortex-m4", "resnet_8"): (1.7, 36_000, 11_000),
    ("cortex-m55", "ds_cnn"): (0.45, 17_000, 6_000),
    ("cortex-m55", "resnet_8"): (0.3, 36_000, 10_000),
    ("riscv32imf", "ds_cnn"): (2.6, 17_000, 6_300),
}


def run(source: bytes, target: str, x: np.ndarray, folder: Path) -> tuple[np.ndarray, int, rillet.export.Figures]:
    """The output, the instructions of the call, and the figures of what was exported."""
    firmware.require_emulator(target)
    module = rillet.compile(source, target=target)
    exported = module.export(folder / "model")
    (y,), instructions = firmware.run(module, firmware.link(module, exported), [x])
    return y, instructions, exported.figures


def network(dtype: type) -> quantized.Build:
    """Convolutions of every kind, of channels that fill groups of steps and that do not, a residual sum, a dense layer
    of few columns; zero points in the middle and at the ends of the range."""
    limits = np.iinfo(dtype)
    low, middle = int(limits.min), int(limits.min) + 123

    def build(g: Graph, x: str) -> str:
        y = g.dequantize(x, 0.03, middle, dtype)
        y = g.q(g("Relu", g.conv(y, 3, 16, stride=2)), 0.06, low, dtype)
        d = g.q(g.conv(y, 16, 16, group=16), 0.08, middle, dtype)
        p = g.q(g.conv(d, 16, 16, 1), 0.1, middle + 9, dtype)
        y = g.q(g("Relu", g("Add", p, y)), 0.1, low, dtype)
        y = g.q(g("Relu", g.conv(y, 16, 16, 3, group=2)), 0.2, low, dtype)
        y = g.q(g("Relu", g.conv(y, 16, 10, 3)), 0.8, low, dtype)
        y = g.q(g("GlobalAveragePool", g.q(g.conv(y, 10, 21, 1), 0.9, middle, dtype)), 0.4, middle, dtype)
        y = g("Gemm", g("Flatten", y), g.weights(10, 21), g.array(np.linspace(-1, 1, 10, dtype=np.float32)), transB=1)
        return g.quantize(y, 0.4, middle, dtype)

    return build


@pytest.mark.parametrize("dtype", [np.int8, np.uint8], ids=["int8", "uint8"])
@pytest.mark.parametrize("target", TARGETS)
def test_results_are_those_of_the_reference(target: str, dtype: type, tmp_path: Path) -> None:
    shape = (1, 3, 11, 13)
    element = onnx.TensorProto.INT8 if dtype is np.int8 else onnx.TensorProto.UINT8
    proto = quantized.model(network(dtype), shape, element=element)
    limits = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)
    y, *_ = run(proto.SerializeToString(), target, x, tmp_path)
    (expected,) = quantized.reference(proto, x)
    assert y.dtype == expected.dtype and len(np.unique(expected)) > 5
    assert np.abs(y.astype(int) - expected.astype(int)).max() <= 1
    np.testing.assert_array_equal(y, rillet.compile(proto)(x))


@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (5, 1)])
@pytest.mark.parametrize("target", TARGETS)
def test_lines_longer_than_tiles(target: str, kernel: int, stride: int, tmp_path: Path) -> None:
    """Tiles at the ends of lines read padding, those between do not."""

    def build(g: Graph, x: str) -> str:
        y = g.dequantize(x, 0.03, 11, np.int8)
        return g.quantize(g.conv(y, 6, 6, kernel, stride, group=6), 0.08, -7, np.int8)

    shape = (1, 6, 7, 23)
    proto = quantized.model(build, shape, element=onnx.TensorProto.INT8)
    x = np.random.default_rng(0).integers(-128, 127, shape, endpoint=True).astype(np.int8)
    y, *_ = run(proto.SerializeToString(), target, x, tmp_path)
    np.testing.assert_array_equal(y, quantized.reference(proto, x)[0])


@pytest.mark.parametrize(("target", "name"), BOUNDS)
def test_reference_networks(target: str, name: str, tmp_path: Path) -> None:
    source = quantized_models.path(name, "s8").read_bytes()
    (x,) = models.inputs(name).values()
    y, instructions, figures = run(source, target, x, tmp_path)
    np.testing.assert_allclose(y, np.asarray(rillet.compile(source)(x)), rtol=1e-5, atol=1e-6)
    ratio, arena, kernels = BOUNDS[target, name]
    print(f"{target} {name}: {instructions / figures.macs:.2f} instructions a MAC; {figures}")
    assert instructions <= ratio * figures.macs
    assert figures.arena <= arena
    assert figures.kernels <= kernels
    assert figures.stack is not None and figures.stack <= 1024
