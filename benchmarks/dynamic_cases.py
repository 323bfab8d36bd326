"""Layers whose sizes are known at run time only: what `benchmarks.dynamic` compiles with and without their sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx

from benchmarks.kernel_cases import at_cache_line
from models.graph import GraphBuilder

Layer = Callable[[GraphBuilder, str], str]


@dataclass(frozen=True)
class DynamicCase:
    """A layer or a few on an input of unknown sizes. ``layer`` adds nodes and returns the output's name; ``shape`` has
    names for unknown sizes, and ``sizes`` the ones to run with; ``rank`` is the output's.
    """

    name: str
    layer: Layer
    shape: tuple[int | str, ...]
    sizes: dict[str, int]
    rank: int

    def build(self) -> onnx.ModelProto:
        """The model, sizes unknown."""
        g = GraphBuilder(self.name)
        x = g.input("x", self.shape)
        return g.build({"out": (self.layer(g, x), [f"out{n}" for n in range(self.rank)])})

    def input(self) -> np.ndarray:
        """A seeded normal array."""
        shape = [n if isinstance(n, int) else self.sizes[n] for n in self.shape]
        return at_cache_line(np.random.default_rng(0).standard_normal(shape, dtype=np.float32))


def image(name: str, layer: Layer, channels: int, height: int, width: int) -> DynamicCase:
    """A layer on one image of unknown height and width; images are channels-last, as inside every compiled model."""

    def around(g: GraphBuilder, x: str) -> str:
        inside = g.op("Transpose", [x], "enter", perm=[0, 3, 1, 2])
        g.channels[inside] = channels
        return g.op("Transpose", [layer(g, inside)], "leave", perm=[0, 2, 3, 1])

    return DynamicCase(name, around, (1, "h", "w", channels), {"h": height, "w": width}, 4)


def between(name: str, layer: Layer, channels: int, height: int, width: int) -> DynamicCase:
    """A layer between two thin convolutions, which make its images channels-last as in most models."""

    def around(g: GraphBuilder, x: str) -> str:
        inside = g.conv(x, "before", channels, (1, 1))
        return g.conv(layer(g, inside), "after", 4, (1, 1))

    return image(name, around, 4, height, width)


def rows(name: str, layer: Layer, features: int, count: int) -> DynamicCase:
    """A layer on an unknown number of rows."""
    return DynamicCase(name, layer, ("n", features), {"n": count}, 2)


def tokens(name: str, layer: Layer, features: int, length: int) -> DynamicCase:
    """A layer on a sequence of unknown length."""

    def known(g: GraphBuilder, x: str) -> str:
        g.channels[x] = features
        return layer(g, x)

    return DynamicCase(name, known, (1, "t", features), {"t": length}, 3)


# --- layers ----------------------------------------------------------------------------------------------------------


def conv(
    out_channels: int, kernel: int, *, stride: int = 1, dilation: int = 1, groups: int = 1, transposed: bool = False
) -> Layer:
    """A convolution padded so that it keeps its input's size but for the stride, with bias and Relu."""

    def layer(g: GraphBuilder, x: str) -> str:
        inside = g.channels[x]
        shape = (inside, out_channels // groups) if transposed else (out_channels, inside // groups)
        weight = g.normal("w", (*shape, kernel, kernel), (2 * groups / (inside * kernel**2)) ** 0.5)
        bias = g.normal("b", (out_channels,), 0.05)
        pad = 0 if transposed else dilation * (kernel - 1) // 2
        kind = "ConvTranspose" if transposed else "Conv"
        places = {"strides": [stride] * 2, "dilations": [dilation] * 2, "pads": [pad] * 4}
        return g.relu(g.op(kind, [x, weight, bias], "conv", group=groups, **places), "relu")

    return layer


def pool(kind: str, size: int, stride: int) -> Layer:
    """A pooling padded like ``conv``."""
    pads = [(size - 1) // 2] * 4
    return lambda g, x: g.op(kind, [x], "pool", kernel_shape=[size] * 2, strides=[stride] * 2, pads=pads)


def resize(mode: str, **attributes: str) -> Layer:
    """Twice the height and width."""

    def layer(g: GraphBuilder, x: str) -> str:
        scales = g.weight("scales", np.array([1, 1, 2, 2], np.float32))
        return g.op("Resize", [x, "", scales], "resize", mode=mode, **attributes)

    return layer


def matmul(columns: int) -> Layer:
    """Rows times a weight."""

    def layer(g: GraphBuilder, x: str) -> str:
        size = g.channels[x]
        return g.op("MatMul", [x, g.normal("w", (size, columns), size**-0.5)], "matmul")

    return layer


def softmax(g: GraphBuilder, x: str) -> str:
    """Over the last axis."""
    return g.op("Softmax", [x], "softmax", axis=-1)


def layer_norm(g: GraphBuilder, x: str) -> str:
    """Over the last axis."""
    return g.op("LayerNormalization", [x, *_scale_and_bias(g, x)], "norm", axis=-1)


def instance_norm(g: GraphBuilder, x: str) -> str:
    """Over height and width."""
    return g.op("InstanceNormalization", [x, *_scale_and_bias(g, x)], "norm")


def activations(g: GraphBuilder, x: str) -> str:
    """Pointwise operations: x * sigmoid(x) + x."""
    return g.op("Add", [g.op("Mul", [x, g.op("Sigmoid", [x], "sigmoid")], "gate"), x], "add")


def add_channels(g: GraphBuilder, x: str) -> str:
    """A term for each channel, then a hard swish."""
    term = g.normal("term", (1, g.channels[x], 1, 1), 1.0)
    return g.op("HardSwish", [g.op("Add", [x, term], "add")], "hard_swish")


def gate_channels(g: GraphBuilder, x: str) -> str:
    """Squeeze and excite, without its layers: each channel times the sigmoid of its mean."""
    return g.op("Mul", [x, g.op("Sigmoid", [g.op("GlobalAveragePool", [x], "mean")], "sigmoid")], "gate")


def concat(g: GraphBuilder, x: str) -> str:
    """Two images, one behind the other in their channels."""
    y = g.op("Concat", [g.op("Sigmoid", [x], "first"), g.op("Tanh", [x], "second")], "concat", axis=1)
    g.channels[y] = 2 * g.channels[x]
    return y


def pad(g: GraphBuilder, x: str) -> str:
    """Two zeros at each edge."""
    return g.op("Pad", [x, g.weight("pads", np.array([0, 0, 2, 2, 0, 0, 2, 2], np.int64))], "pad")


def every_other(g: GraphBuilder, x: str) -> str:
    """Every other line and column."""
    values = {"starts": [0, 0], "ends": [1 << 40] * 2, "axes": [2, 3], "steps": [2, 2]}
    return g.op("Slice", [x, *(g.weight(name, np.array(v, np.int64)) for name, v in values.items())], "slice")


def attention(heads: int) -> Layer:
    """Self-attention as PyTorch exports it."""

    def layer(g: GraphBuilder, x: str) -> str:
        size = g.channels[x]
        split = g.weight("split", np.array([0, 0, heads, size // heads], np.int64))

        def head(name: str, perm: list[int]) -> str:
            y = g.op("MatMul", [x, g.normal(f"{name}.w", (size, size), size**-0.5)], name)
            return g.op("Transpose", [g.op("Reshape", [y, split], f"{name}/split")], f"{name}/heads", perm=perm)

        query, key, value = head("query", [0, 2, 1, 3]), head("key", [0, 2, 3, 1]), head("value", [0, 2, 1, 3])
        scale = g.weight("scale", np.array((size // heads) ** -0.5, np.float32))
        scores = g.op("Mul", [g.op("MatMul", [query, key], "scores"), scale], "scaled")
        context = g.op("MatMul", [g.op("Softmax", [scores], "softmax", axis=-1), value], "context")
        merged = g.op("Transpose", [context], "merged", perm=[0, 2, 1, 3])
        return g.op("Reshape", [merged, g.weight("merge", np.array([0, 0, size], np.int64))], "out")

    return layer


def recurrent(kind: str, hidden: int) -> Layer:
    """A recurrent layer over time; its input is time x batch x features."""

    def layer(g: GraphBuilder, x: str) -> str:
        gates = {"GRU": 3, "LSTM": 4}[kind] * hidden
        weights = [g.normal(name, (1, gates, hidden), hidden**-0.5) for name in ("w", "r")]
        more = {"linear_before_reset": 1} if kind == "GRU" else {}
        return g.op(kind, [x, *weights], "recurrent", hidden_size=hidden, **more)

    return layer


def _scale_and_bias(g: GraphBuilder, x: str) -> tuple[str, str]:
    size = g.channels[x]
    return g.uniform("scale", size, 0.8, 1.2), g.normal("bias", (size,), 0.1)


# --- cases -----------------------------------------------------------------------------------------------------------

_NEAREST = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}

CASES = (
    image("conv 3x3 64", conv(64, 3), 64, 56, 56),
    image("conv 3x3 256", conv(256, 3), 256, 14, 14),
    image("conv 3x3 first", conv(16, 3, stride=2), 3, 160, 160),
    image("conv 3x3 stride 2", conv(96, 3, stride=2), 48, 40, 40),
    image("conv 3x3 dilated", conv(48, 3, dilation=2), 48, 40, 40),
    image("conv 3x3 grouped", conv(64, 3, groups=4), 64, 40, 40),
    image("conv 1x1", conv(96, 1), 48, 40, 40),
    image("conv 1x1 small", conv(96, 1), 96, 7, 7),
    image("conv 1x1 stride 2", conv(96, 1, stride=2), 48, 40, 40),
    image("conv 9x9", conv(24, 9), 24, 20, 20),
    image("depthwise 3x3", conv(96, 3, groups=96), 96, 40, 40),
    image("depthwise 5x5 stride 2", conv(96, 5, stride=2, groups=96), 96, 40, 40),
    image("transposed 2x2", conv(24, 2, stride=2, transposed=True), 48, 40, 40),
    image("transposed 4x4", conv(24, 4, stride=2, transposed=True), 24, 40, 40),
    between("max pool 2x2", pool("MaxPool", 2, 2), 64, 56, 56),
    between("max pool 5x5", pool("MaxPool", 5, 1), 64, 20, 20),
    between("average pool 3x3", pool("AveragePool", 3, 2), 64, 40, 40),
    between("gate channels", gate_channels, 96, 40, 40),
    between("resize nearest", resize("nearest", **_NEAREST), 64, 20, 20),
    between("resize linear", resize("linear"), 64, 20, 20),
    between("instance norm", instance_norm, 64, 40, 40),
    between("add channels", add_channels, 64, 40, 40),
    between("activations of an image", activations, 64, 40, 40),
    between("concat", concat, 48, 40, 40),
    between("pad", pad, 48, 40, 40),
    between("every other", every_other, 48, 40, 40),
    DynamicCase(
        "channels last",
        lambda g, x: g.op("Transpose", [x], "transpose", perm=[0, 2, 3, 1]),
        (1, 64, "h", "w"),
        {"h": 40, "w": 40},
        4,
    ),
    tokens("activations", activations, 384, 128),
    tokens("softmax", softmax, 384, 128),
    tokens("layer norm", layer_norm, 384, 128),
    tokens("attention 128", attention(12), 384, 128),
    tokens("attention 20", attention(12), 384, 20),
    *(rows(f"matmul {n} rows", matmul(1200), 400, n) for n in (*range(1, 17), 50, 128)),
    *(
        DynamicCase(f"{kind.lower()} batch {n}", recurrent(kind, 256), (10, "n", 256), {"n": n}, 4)
        for kind in ("GRU", "LSTM")
        for n in (1, 2, 4, 7)
    ),
)
