"""ONNX graphs of any number of nodes, in which compile time must grow with that number only."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Dimensions = Sequence[int | str]
CHANNELS = 8


class _Graph:
    """Nodes and weights; a call adds a node and names its result."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def __call__(self, op: str, *inputs: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op, list(inputs), [f"v{len(self.nodes)}"], **attributes))
        return f"v{len(self.nodes) - 1}"

    def weight(self, *shape: int) -> str:
        scale = math.prod(shape[1:]) ** -0.5
        return self.constant((self.random.standard_normal(shape) * scale).astype(np.float32))

    def constant(self, array: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(array, f"w{len(self.weights)}"))
        return f"w{len(self.weights) - 1}"

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def model(self, inputs: dict[str, Dimensions], outputs: Sequence[str]) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "growing",
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            self.weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def chain(nodes: int) -> onnx.ModelProto:
    """Elementwise nodes behind each other."""
    g, x = _Graph(), "x"
    for i in range(nodes):
        x = g(("Relu", "Neg", "Sigmoid", "Abs", "Tanh")[i % 5], x)
    return g.model({"x": (8, 16)}, [x])


def fan_out(nodes: int) -> onnx.ModelProto:
    """Nodes that read one tensor and are all results."""
    g = _Graph()
    return g.model({"x": (8, 16)}, [g("Mul", "x", g.weight(16)) for _ in range(nodes)])


def fan_in(nodes: int) -> onnx.ModelProto:
    """Nodes that read one tensor, and their sum."""
    g = _Graph()
    return g.model({"x": (8, 16)}, [g("Sum", *[g("Mul", "x", g.weight(16)) for _ in range(nodes - 1)])])


def split(nodes: int) -> onnx.ModelProto:
    """One Split; its parts count as nodes."""
    g, parts = _Graph(), [f"y{i}" for i in range(nodes)]
    g.nodes.append(helper.make_node("Split", ["x"], parts, axis=1, num_outputs=nodes))
    return g.model({"x": (8, 4 * nodes)}, parts)


def concat(nodes: int) -> onnx.ModelProto:
    """One Concat of as many inputs."""
    g, parts = _Graph(), {f"x{i}": (8, 4) for i in range(nodes)}
    return g.model(parts, [g("Concat", *parts, axis=1)])  # type: ignore[arg-type]


def shuffle(nodes: int) -> onnx.ModelProto:
    """A Split, a node for each part, and a Concat of them in the opposite order."""
    g, parts = _Graph(), [f"y{i}" for i in range(nodes)]
    g.nodes.append(helper.make_node("Split", ["x"], parts, axis=1, num_outputs=nodes))
    return g.model({"x": ("n", 4 * nodes)}, [g("Concat", *[g("Relu", part) for part in reversed(parts)], axis=1)])


def attention(nodes: int, batch: int | str = 1, length: int | str = 8) -> onnx.ModelProto:
    """Transformer blocks, of 22 nodes each."""
    g, x, width, heads = _Graph(), "x", 16, 2
    apart, together = g.integers(0, 0, heads, width // heads), g.integers(0, 0, width)
    scale = g.constant(np.array(0.35, np.float32))
    for _ in range(max(1, nodes // 22)):
        normal = g("LayerNormalization", x, g.weight(width), g.weight(width))
        q, k, v = (
            g("Transpose", g("Reshape", g("MatMul", normal, g.weight(width, width)), apart), perm=order)
            for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        )
        mixed = g("MatMul", g("Softmax", g("Mul", g("MatMul", q, k), scale)), v)
        merged = g("Reshape", g("Transpose", mixed, perm=[0, 2, 1, 3]), together)
        x = g("Add", x, g("MatMul", merged, g.weight(width, width)))
        hidden = g("Relu", g("MatMul", x, g.weight(width, 2 * width)))
        x = g("Add", x, g("MatMul", hidden, g.weight(2 * width, width)))
    return g.model({"x": (batch, length, width)}, [x])


def convolutions(nodes: int, shape: Dimensions = (1, CHANNELS, 16, 16)) -> onnx.ModelProto:
    """Residual blocks, of four nodes each."""
    g, x = _Graph(), "x"
    for _ in range(max(1, nodes // 4)):
        x = g("Add", x, _convolution(g, g("Relu", _convolution(g, x))))
    return g.model({"x": shape}, [x])


def reshapes(nodes: int) -> onnx.ModelProto:
    """Blocks of eleven nodes that merge two unknown sizes, of strided windows, and split them again; the batch is what
    is left."""
    g, x = _Graph(), "x"
    rest, zero, one, two, four = (g.integers(value) for value in (-1, 0, 1, 2, 4))
    for _ in range(2):
        x = _convolution(g, x, strides=[2, 2])
    for _ in range(max(1, nodes // 11)):
        sizes = g("Shape", x)
        matrix = g("Concat", g("Slice", sizes, zero, two, zero), rest, axis=0)
        image = g("Concat", rest, g("Slice", sizes, one, four, zero), axis=0)
        y = g("Transpose", g("Reshape", _convolution(g, x), matrix), perm=[0, 2, 1])
        y = g("Transpose", g("MatMul", y, g.weight(CHANNELS, CHANNELS)), perm=[0, 2, 1])
        x = g("Reshape", y, image)
    return g.model({"x": ("n", CHANNELS, "h", "w")}, [x])


def _convolution(g: _Graph, x: str, **attributes: object) -> str:
    return g("Conv", x, g.weight(CHANNELS, CHANNELS, 3, 3), pads=[1] * 4, **attributes)


GRAPHS: dict[str, Callable[[int], onnx.ModelProto]] = {
    "chain": chain,
    "fan-out": fan_out,
    "fan-in": fan_in,
    "split": split,
    "concat": concat,
    "shuffle": shuffle,
    "attention": attention,
    "attention, unknown sizes": lambda nodes: attention(nodes, "n", "length"),
    "convolutions": convolutions,
    "convolutions, unknown sizes": lambda nodes: convolutions(nodes, ("n", CHANNELS, "h", "w")),
    "reshapes, unknown sizes": reshapes,
}
