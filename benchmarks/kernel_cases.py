"""Single operations as models: what the kernel section of the benchmarks measures.

Images are channels-last for Rillet, as they are inside every compiled model, and arrive padded, as the kernel before
would write them: the graph is ``Transpose, Conv, Transpose``, and the optimizer cancels the transposes. Peers get the
same convolution in the layout they like best, NCHW, without transposes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from models.graph import GraphBuilder

Builder = Callable[[], onnx.ModelProto]

_CACHE_LINE_BYTES = 64


@dataclass(frozen=True)
class KernelCase:
    """One operation. ``work`` counts multiplications and additions (0 where that says nothing), ``traffic`` the bytes
    it must at least move. ``peer_build`` is the graph for other engines where that differs.
    """

    name: str
    work: int
    traffic: int
    shape: tuple[int, ...]  # of the input, as Rillet takes it
    build: Builder
    peer_build: Builder | None = None
    second: tuple[int, ...] | None = None  # the shape of a second input

    def inputs(self) -> dict[str, np.ndarray]:
        """Seeded normal input arrays by name, at cache lines as a kernel before would leave them."""
        rng = np.random.default_rng(0)
        arrays = {"x": rng.standard_normal(self.shape, dtype=np.float32)}
        if self.second is not None:
            arrays["y"] = rng.standard_normal(self.second, dtype=np.float32)
        return {name: at_cache_line(array) for name, array in arrays.items()}


def at_cache_line(array: np.ndarray) -> np.ndarray:
    """A contiguous copy that begins at a cache line, where every other vector of any other array would cross one."""
    memory = np.empty(array.nbytes + _CACHE_LINE_BYTES, np.uint8)
    start = -memory.ctypes.data % _CACHE_LINE_BYTES
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def matmul(m: int, k: int, n: int, *, constant: bool = True) -> KernelCase:
    """``[m, k] @ [k, n]``; the right-hand side is a weight, or an input when not ``constant``."""
    name = f"matmul {m}x{k}x{n}" + ("" if constant else " computed B")

    def build() -> onnx.ModelProto:
        g = GraphBuilder(name)
        x = g.input("x", (m, k))
        w = g.normal("W", (k, n), k**-0.5) if constant else g.input("y", (k, n))
        return g.build({"z": (g.op("MatMul", [x, w], "matmul"), (m, n))})

    traffic = 4 * (m * k + k * n + m * n)
    return KernelCase(name, 2 * m * k * n, traffic, (m, k), build, second=None if constant else (k, n))


def narrow_weights(m: int, k: int, n: int, bits: int, block: int = 32) -> KernelCase:
    """``[m, k] @ [k, n]`` with weights of ``bits`` bits, a scale and a zero point for each ``block`` steps, computed in
    float32 (``accuracy_level`` 1).
    """
    name = f"matmul int{bits}/{block} {m}x{k}x{n}"
    blocks, rng = k // block, np.random.default_rng(0)

    def build() -> onnx.ModelProto:
        g = GraphBuilder(name)
        x = g.input("x", (m, k))
        weights = rng.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8)
        scales = rng.uniform(0.01, 0.02, (n, blocks)).astype(np.float32)
        zeros = rng.integers(0, 256, (n, blocks * bits // 8)).astype(np.uint8)
        operands = [x, g.weight("W", weights), g.weight("scales", scales), g.weight("zeros", zeros)]
        attributes = {"K": k, "N": n, "bits": bits, "block_size": block, "accuracy_level": 1}
        return g.build({"z": (g.op("MatMulNBits", operands, "matmul", domain="com.microsoft", **attributes), (m, n))})

    weight_bytes = k * n * bits // 8 + blocks * n * (4 + bits / 8)
    return KernelCase(name, 2 * m * k * n, int(4 * (m * k + m * n) + weight_bytes), (m, k), build)


def pointwise(m: int, k: int, n: int) -> KernelCase:
    """A 1x1 convolution of ``m`` pixels, bias and ReLU6 included: the product that it is, channels-last."""
    name = f"pointwise {m}x{k}x{n}"

    def build() -> onnx.ModelProto:
        g = GraphBuilder(name)
        product = g.op("MatMul", [g.input("x", (m, k)), g.normal("W", (k, n), k**-0.5)], "matmul")
        biased = g.op("Add", [product, g.normal("bias", (n,), 0.1)], "add")
        return g.build({"z": (g.relu6(biased, "clip"), (m, n))})

    return KernelCase(name, 2 * m * k * n, 4 * (m * k + k * n + m * n), (m, k), build)


def conv(
    inputs: int,
    outputs: int,
    size: int,
    *,
    kernel: int = 3,
    stride: int = 1,
    depthwise: bool = False,
    groups: int = 1,
) -> KernelCase:
    """A convolution with bias and ReLU whose input is ``size`` x ``size`` before padding; the padding is part of it."""
    padded, out = size + kernel - 1, -(-size // stride)
    kind = f"depthwise {kernel}x{kernel}" if depthwise else f"conv {kernel}x{kernel}"
    name = f"{kind} {inputs}" + ("" if depthwise else f"->{outputs}") + f" @{size}" + (f" s{stride}" * (stride > 1))
    name += f" g{groups}" * (groups > 1)
    groups = inputs if depthwise else groups

    def build(channels_last: bool) -> onnx.ModelProto:
        g = GraphBuilder(name)
        x = g.input("x", (1, padded, padded, inputs) if channels_last else (1, inputs, padded, padded))
        if channels_last:
            x = g.op("Transpose", [x], "in", perm=[0, 3, 1, 2])
            g.channels[x] = inputs
        y = g.conv(x, "conv", outputs, (kernel, kernel), stride=(stride, stride), groups=groups, bias=True)
        y = g.relu(y, "relu")
        if channels_last:
            y = g.op("Transpose", [y], "out", perm=[0, 2, 3, 1])
        return g.build({"z": (y, (1, out, out, outputs) if channels_last else (1, outputs, out, out))})

    per_output = kernel * kernel * inputs // groups
    weights = outputs * per_output
    return KernelCase(
        name,
        2 * out * out * outputs * per_output,
        4 * (padded * padded * inputs + weights + out * out * outputs),
        (1, padded, padded, inputs),
        lambda: build(True),
        lambda: build(False),
    )


def rowwise(
    name: str,
    shape: Sequence[int],
    body: Callable[[GraphBuilder, str], str],
    *,
    second: bool = False,
) -> KernelCase:
    """A memory-bound operation on ``x`` (and ``y`` of the same shape with ``second``); ``body`` adds its nodes."""
    shape = tuple(shape)
    name = f"{name} {'x'.join(map(str, shape))}"

    def build() -> onnx.ModelProto:
        g = GraphBuilder(name)
        x = g.input("x", shape)
        if second:
            g.input("y", shape)
        return g.build({"z": (body(g, x), shape)})

    traffic = 4 * math.prod(shape) * (3 if second else 2)
    return KernelCase(name, 0, traffic, shape, build, second=shape if second else None)


def _layer_norm(g: GraphBuilder, x: str) -> str:
    width = g.channels[x]
    return g.op("LayerNormalization", [x, g.normal("scale", (width,), 1.0), g.normal("bias", (width,), 1.0)], "norm")


def _gelu(g: GraphBuilder, x: str) -> str:
    """``0.5 x (1 + erf(x / sqrt 2))``, as exporters of transformers write it."""
    half, one, root = (g.weight(f"c{n}", np.array(c, np.float32)) for n, c in enumerate((0.5, 1.0, 2**-0.5)))
    probability = g.op("Add", [g.op("Erf", [g.op("Mul", [x, root], "scale")], "erf"), one], "shift")
    return g.op("Mul", [g.op("Mul", [x, probability], "gate"), half], "halve")


# M, K, N of the pointwise convolutions of MobileNetV2.
_POINTWISE = (
    (12544, 16, 96),
    (3136, 144, 32),
    (784, 192, 64),
    (196, 64, 384),
    (196, 576, 96),
    (49, 160, 960),
    (49, 320, 1280),
)
# Channels, size, stride of its depthwise ones.
_DEPTHWISE = (
    (32, 112, 1),
    (144, 56, 1),
    (192, 28, 1),
    (384, 14, 1),
    (576, 14, 1),
    (960, 7, 1),
    (96, 112, 2),
    (144, 56, 2),
    (192, 28, 2),
    (576, 14, 2),
)
# Beyond the caches, and as large as in a transformer of moderate size. Results of 32 MB and more would be new memory in
# every call and cost more than the operation.
_ROWWISE_SHAPES = ((7168, 1024), (128, 384))

CASES: tuple[KernelCase, ...] = (
    matmul(512, 512, 512),
    matmul(1024, 1024, 1024),
    matmul(2048, 2048, 2048),
    matmul(511, 513, 509),
    matmul(1024, 1024, 1024, constant=False),
    matmul(511, 513, 509, constant=False),
    matmul(1, 4096, 4096),
    matmul(7, 768, 3072),
    *(narrow_weights(m, 4096, 4096, bits) for bits in (4, 8) for m in (1, 8, 128)),
    conv(64, 64, 56),
    conv(256, 256, 14),
    conv(3, 64, 224, kernel=7, stride=2),
    conv(128, 128, 56, groups=32),
    *(pointwise(*shape) for shape in _POINTWISE),
    *(conv(channels, channels, size, stride=stride, depthwise=True) for channels, size, stride in _DEPTHWISE),
    *(rowwise("softmax", shape, lambda g, x: g.op("Softmax", [x], "softmax", axis=-1)) for shape in _ROWWISE_SHAPES),
    *(rowwise("layernorm", shape, _layer_norm) for shape in _ROWWISE_SHAPES),
    *(rowwise("gelu", shape, _gelu) for shape in _ROWWISE_SHAPES),
    *(rowwise("add", shape, lambda g, x: g.op("Add", [x, "y"], "add"), second=True) for shape in _ROWWISE_SHAPES),
)
