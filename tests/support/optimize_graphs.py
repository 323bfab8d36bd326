"""Small ONNX graphs with seeded weights, built for what they make the optimizer do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from rillet import optimize
from rillet.ir import Program
from tests.support.importing import import_model
from tests.support.stages import passes


class Graph:
    """Nodes, initializers and the one running value names."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.count = 0

    def __call__(self, op: str, *inputs: str, **attributes: object) -> str:
        self.count += 1
        name = f"{op.lower()}_{self.count}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def weights(self, *shape: int, low: float = -1.0) -> str:
        array = self.random.uniform(low, 1.0, shape).astype(np.float32)
        return self.array(array / np.float32(max(1, np.prod(shape[1:])) ** 0.5))

    def array(self, array: np.ndarray) -> str:
        name = f"w{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def conv(self, x: str, channels: int, filters: int, kernel: int = 3, stride: int = 1, group: int = 1) -> str:
        pad = kernel // 2
        w = self.weights(filters, channels // group, kernel, kernel)
        return self("Conv", x, w, self.weights(filters), pads=[pad] * 4, strides=[stride] * 2, group=group)

    def norm(self, x: str, channels: int) -> str:
        parameters = [
            self.weights(channels),
            self.weights(channels),
            self.weights(channels),
            self.weights(channels, low=0.1),
        ]
        return self("BatchNormalization", x, *parameters)


def model(
    build: Callable[[Graph, str], str | Sequence[str]], shape: Sequence[int | str], seed: int = 0
) -> onnx.ModelProto:
    """The model whose nodes ``build(graph, input name)`` makes; it returns the name(s) of the output(s)."""
    graph = Graph(seed)
    outputs = build(graph, "x")
    outputs = [outputs] if isinstance(outputs, str) else list(outputs)
    proto = helper.make_graph(
        graph.nodes,
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        graph.initializers,
    )
    result = helper.make_model(proto, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    inferred = onnx.shape_inference.infer_shapes(result)
    for output in inferred.graph.output:
        assert output.type.tensor_type.elem_type, f"no type inferred for {output.name}"
    return inferred


def program(build: Callable[[Graph, str], str | Sequence[str]], shape: Sequence[int | str], seed: int = 0) -> Program:
    """The model in tensor form."""
    return import_model(model(build, shape, seed))


def optimized(build: Callable[[Graph, str], str | Sequence[str]], shape: Sequence[int | str]) -> Program:
    """The model after all passes of the optimizer, checked."""
    result = program(build, shape)
    for step in passes("optimize"):
        step(result)
    optimize.check(result)
    return result


def residual(g: Graph, x: str) -> str:
    """Convolution, normalization, a residual block, pooling, a classifier."""
    y = g("Relu", g.norm(g.conv(x, 3, 16, 3, 2), 16))
    y = g("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    z = g("Relu", g.norm(g.conv(y, 16, 16), 16))
    z = g.norm(g.conv(z, 16, 16), 16)
    y = g("Relu", g("Add", z, y))
    y = g("Flatten", g("GlobalAveragePool", y))
    y = g("Gemm", y, g.weights(10, 16), g.weights(10), transB=1)
    return g("Softmax", y, axis=1)


def mobile(g: Graph, x: str) -> str:
    """Pointwise and depthwise convolutions, squeeze-and-excitation, concatenation, flatten."""
    y = g("Clip", g.conv(x, 3, 8, 3, 2), g.array(np.float32(0)), g.array(np.float32(6)))
    e = g("HardSwish", g.norm(g.conv(y, 8, 24, 1), 24))
    d = g("Relu", g.norm(g.conv(e, 24, 24, 3, 1, group=24), 24))
    s = g("GlobalAveragePool", d)
    s = g("Sigmoid", g.conv(g("Relu", g.conv(s, 24, 6, 1)), 6, 24, 1))
    p = g("Add", g.conv(g("Mul", d, s), 24, 8, 1), y)
    q = g("Concat", p, g("Relu", g.conv(p, 8, 8, 1)), axis=1)
    return g("Gemm", g("Flatten", q), g.weights(16 * 8 * 8, 5))


def shuffle(g: Graph, x: str) -> str:
    """Grouped convolutions with a channel shuffle in between, average pooling, a spatial output."""
    y = g.conv(g.conv(x, 3, 12, 3), 12, 12, 1, group=3)
    y = g("Reshape", y, g.array(np.array([1, 3, 4, 16, 16], np.int64)))
    y = g("Transpose", y, perm=[0, 2, 1, 3, 4])
    y = g("Reshape", y, g.array(np.array([1, 12, 16, 16], np.int64)))
    y = g.conv(g("AveragePool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), 12, 12, 3, group=3)
    return g("Slice", y, g.array(np.array([2])), g.array(np.array([9])), g.array(np.array([1])))


def encoder(g: Graph, x: str) -> str:
    """One transformer layer: 2 heads of 8, sequence 12."""

    def project(v: str) -> str:
        h = g("Add", g("MatMul", v, g.weights(16, 16)), g.weights(16))
        return g("Transpose", g("Reshape", h, g.array(np.array([1, 12, 2, 8]))), perm=[0, 2, 1, 3])

    q, k, v = project(x), project(x), project(x)
    scores = g("Mul", g("MatMul", q, g("Transpose", k, perm=[0, 1, 3, 2])), g.array(np.float32(0.35)))
    mixed = g("MatMul", g("Softmax", scores, axis=-1), v)
    mixed = g("Reshape", g("Transpose", mixed, perm=[0, 2, 1, 3]), g.array(np.array([1, 12, 16])))
    y = g("Add", g("Add", g("MatMul", mixed, g.weights(16, 16)), g.weights(16)), x)
    y = g("LayerNormalization", y, g.weights(16), g.weights(16), axis=-1)
    h = g("Add", g("MatMul", y, g.weights(16, 32)), g.weights(32))
    h = g("Mul", g("Mul", h, g.array(np.float32(0.5))), g("Add", g("Erf", h), g.array(np.float32(1))))
    return g("LayerNormalization", g("Add", g("MatMul", h, g.weights(32, 16)), y), g.weights(16), g.weights(16))


def dynamic_encoder(g: Graph, x: str) -> str:
    """Attention with one head, and a feed-forward layer, for any batch and sequence."""
    q, k, v = (g("MatMul", x, g.weights(16, 16)) for _ in range(3))
    scores = g("Softmax", g("MatMul", q, g("Transpose", k, perm=[0, 2, 1])), axis=-1)
    y = g("Add", g("MatMul", g("MatMul", scores, v), g.weights(16, 16)), x)
    y = g("LayerNormalization", y, g.weights(16), g.weights(16))
    return g("Add", g("Relu", g("Add", g("MatMul", y, g.weights(16, 40)), g.weights(40))), g.weights(1, 40))


def segmentation(g: Graph, x: str) -> str:
    """Down, up again by a transposed convolution, a skip connection, a per-pixel softmax."""
    y = g("Relu", g.norm(g.conv(x, 3, 8), 8))
    z = g("LeakyRelu", g.norm(g.conv(y, 8, 8, 3, 2), 8), alpha=0.1)
    z = g("ConvTranspose", z, g.weights(8, 8, 2, 2), strides=[2, 2])
    return g("Softmax", g.conv(g("Concat", y, z, axis=1), 16, 4, 1), axis=1)


def channels_last_blocks(g: Graph, x: str) -> str:
    """Depthwise convolutions and a residual sum in the model's layout; normalization and dense layers with channels
    last, by the model's own transpositions.
    """

    def normalized(y: str) -> str:
        return g("LayerNormalization", g("Transpose", y, perm=[0, 2, 3, 1]), g.weights(8), g.weights(8), axis=-1)

    y = g("Transpose", normalized(g.conv(x, 3, 8)), perm=[0, 3, 1, 2])
    for _ in range(2):
        z = g("Relu", g("MatMul", normalized(g.conv(y, 8, 8, 3, group=8)), g.weights(8, 32)))
        z = g("MatMul", z, g.weights(32, 8))
        y = g("Add", y, g("Transpose", z, perm=[0, 3, 1, 2]))
    z = g("Transpose", normalized(y), perm=[0, 3, 1, 2])
    return g("GlobalAveragePool", g.conv(z, 8, 16, 1))


def pool_first(g: Graph, x: str) -> str:
    """A pool of the model's input before a padded convolution."""
    return g.conv(g("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), 3, 8)
