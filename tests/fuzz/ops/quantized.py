"""Quantization and integer products."""

from __future__ import annotations

import numpy as np

from tests.fuzz.maker import Maker, Stuck, Value
from tests.fuzz.ops.registry import applies


def _quantizable(g: Maker, low: int) -> Value:
    """A float32 of which the quotient by a scale fits an int32: of more, the reference evaluator makes anything."""
    return g.bounded(g.value(("float32",), low), 1e6)


def _bytes(g: Maker, low: int, high: int) -> Value:
    """A uint8 or int8: one that is there, or a float32 quantized."""
    there = [v for v in g.values if v.dtype in ("uint8", "int8") and low <= v.rank <= high]
    if there and g.chance(0.6):
        return g.one_of(there)
    x = g.bounded(g.value(("float32",), low, high), 1e6)
    return g.add("QuantizeLinear", [x, *_parameters(g, g.one_of(["uint8", "int8"]))])[0]


@applies(2)
def quantize(g: Maker) -> None:
    x = _quantizable(g, 0)
    zero = g.constant(np.asarray(g.integer(0, 5), g.one_of(["uint8", "int8"])))
    scale = g.constant(np.asarray(0.05, np.float32))
    q = g.add("QuantizeLinear", [x, scale, zero])[0]
    if g.chance(0.7):
        g.add("DequantizeLinear", [q, scale, zero])


@applies(1)
def matmul_integer(g: Maker) -> None:
    x = _bytes(g, 2, 3)
    y = g.data(g.one_of(["uint8", "int8"]), (x.dims[-1], g.integer(1, 20)))
    zero = g.scalar(g.integer(0, 5), x.dtype)
    g.add("MatMulInteger", [x, y, zero][: g.integer(2, 3)])


@applies(0.5)
def dynamic_quantize(g: Maker) -> None:
    x = g.number(g.value(("float32",), 1))
    if 0 in x.dims:
        raise Stuck
    # Of nothing but zeros, each implementation makes another scale.
    g.add("DynamicQuantizeLinear", [g.add("Add", [g.add("Abs", [x])[0], g.scalar(1, x.dtype)])[0]], 3)


@applies(0.7)
def quantize_channels(g: Maker) -> None:
    x = _quantizable(g, 2)
    axis = g.fixed_axis(x)
    extent = int(x.dims[axis])
    scale = g.constant(g.rng.uniform(0.02, 0.2, extent).astype(np.float32))
    zero = g.constant(g.rng.integers(0, 5, extent).astype(g.one_of(["uint8", "int8"])))
    q = g.add("QuantizeLinear", [x, scale, zero], axis=axis)[0]
    g.add("DequantizeLinear", [q, scale, zero], axis=axis)


def _parameters(g: Maker, dtype: str, shape: tuple[int, ...] = ()) -> list[Value]:
    """A scale and a zero point."""
    scale = g.constant(np.asarray(g.rng.uniform(0.02, 0.2, shape), np.float32))
    return [scale, g.constant(np.asarray(g.rng.integers(0, 5, shape)).astype(dtype))]


@applies(1.5)
def quantized_layer(g: Maker) -> None:
    """What quantizers write: quantized and back, a layer of weights that were quantized, and so on."""
    x = _quantizable(g, 2)
    kind = g.one_of(["uint8", "int8"])
    rounded = _there_and_back(g, x, kind)
    if x.rank == 4 and g.chance(0.6):
        g.filled(*x.dims)
        channels = x.dims[1]
        if not isinstance(channels, int):
            raise Stuck
        features = g.integer(1, 20)
        extents = [min(3, d) if isinstance(d, int) else 1 for d in x.dims[2:]]
        weights = _weights(g, (features, channels, *extents), 0)
        y = g.add("Conv", [rounded, weights, *_bias(g, features)], kernel_shape=extents)[0]
    else:
        inner = x.dims[-1]
        if not isinstance(inner, int) or not inner:
            raise Stuck
        y = g.add("MatMul", [rounded, _weights(g, (inner, g.integer(1, 20)), 1)])[0]
    if g.chance(0.5):
        y = g.add("Relu", [y])[0]
    _there_and_back(g, g.bounded(y, 1e6), kind)


def _there_and_back(g: Maker, x: Value, dtype: str) -> Value:
    parameters = _parameters(g, dtype)
    return g.add("DequantizeLinear", [g.add("QuantizeLinear", [x, *parameters])[0], *parameters])[0]


def _weights(g: Maker, shape: tuple[int, ...], axis: int) -> Value:
    """int8 weights made real, with a scale for all or for each feature."""
    numbers = g.constant(g.rng.integers(-90, 91, shape).astype(np.int8))
    scale = g.constant(np.asarray(g.rng.uniform(0.005, 0.02, (shape[axis],) if g.chance(0.6) else ()), np.float32))
    return g.add("DequantizeLinear", [numbers, scale], axis=axis)[0]


def _bias(g: Maker, features: int) -> list[Value]:
    if g.chance(0.4):
        return []
    numbers = g.constant(g.rng.integers(-500, 500, (features,)).astype(np.int32))
    return g.add("DequantizeLinear", [numbers, g.constant(np.asarray(0.001, np.float32))])


@applies(1)
def qlinear_matmul(g: Maker) -> None:
    x = _bytes(g, 2, 3)
    columns = g.integer(1, 20)
    kind = g.one_of(["uint8", "int8"])
    y = g.data(kind, (x.dims[-1], columns))
    scaled = _parameters(g, kind, (columns,) if g.chance(0.3) else ())
    g.add("QLinearMatMul", [x, *_parameters(g, x.dtype), y, *scaled, *_parameters(g, x.dtype)])


@applies(1)
def qlinear_conv(g: Maker) -> None:
    x = _bytes(g, 3, 4)
    channels = x.dims[1]
    if not isinstance(channels, int) or not channels:
        raise Stuck
    g.filled(*x.dims)
    groups = g.one_of([n for n in (1, 1, channels) if channels % n == 0])
    features = groups * g.integer(1, 4)
    kernel = [min(g.integer(1, 3), d) if isinstance(d, int) else 1 for d in x.dims[2:]]
    kind = x.dtype if x.dtype == "int8" else g.one_of(["uint8", "int8"])
    weights = g.data(kind, (features, channels // groups, *kernel))
    pads = [g.integer(0, k - 1) for k in [*kernel, *kernel]]
    attributes = {"group": groups, "kernel_shape": kernel, "pads": pads, "strides": [g.integer(1, 2) for _ in kernel]}
    if g.chance(0.4):
        zeros = [g.scalar(g.integer(0, 5), x.dtype), g.scalar(g.integer(0, 5), kind)]
        g.add("ConvInteger", [x, weights, *zeros[: g.integer(0, 2)]], **attributes)
        return
    scaled = _parameters(g, kind, (features,) if g.chance(0.4) else ())
    bias = [g.constant(g.rng.integers(-500, 500, (features,)).astype(np.int32))] if g.chance(0.5) else []
    g.add("QLinearConv", [x, *_parameters(g, x.dtype), weights, *scaled, *_parameters(g, x.dtype), *bias], **attributes)


@applies(0.5)
def dequantize_blocks(g: Maker) -> None:
    """A scale for each few elements of an axis, of opset 21, and a product with what comes out."""
    x = g.value(("float32",), 2, 3)
    inner = x.dims[-1]
    if g.opset < 21 or not isinstance(inner, int) or inner < 2:
        raise Stuck
    block = g.one_of([n for n in range(1, inner + 1) if inner % n == 0])
    columns = g.integer(1, 20)
    numbers = g.constant(g.rng.integers(-90, 91, (inner, columns)).astype(np.int8))
    scale = g.constant(g.rng.uniform(0.005, 0.02, (inner // block, columns)).astype(np.float32))
    weights = g.add("DequantizeLinear", [numbers, scale], axis=0, block_size=block)[0]
    g.add("MatMul", [x, weights])
