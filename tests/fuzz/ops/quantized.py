"""Quantization and integer products."""

from __future__ import annotations

import numpy as np

from tests.fuzz.maker import Maker, Stuck, Value
from tests.fuzz.ops.registry import applies


def _quantizable(g: Maker, low: int) -> Value:
    """A float32 of which the quotient by a scale fits an int32: of more, the reference evaluator makes anything."""
    return g.bounded(g.value(("float32",), low), 1e6)


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
    x = g.value(("uint8", "int8"), 2, 3)
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
