"""Small quantized networks in QDQ form, built node by node with seeded parameters, and what ONNX's reference evaluator
makes of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator


class Graph:
    """Nodes and initializers. Tensors between nodes are float; ``q`` quantizes and dequantizes one."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def __call__(self, op: str, *inputs: str, **attributes: object) -> str:
        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def array(self, array: np.ndarray) -> str:
        name = f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def quantize(self, x: str, scale: float, zero: int, dtype: type = np.uint8) -> str:
        return self("QuantizeLinear", x, self.array(np.float32(scale)), self.array(dtype(zero)))

    def dequantize(self, x: str, scale: float, zero: int, dtype: type = np.uint8) -> str:
        return self("DequantizeLinear", x, self.array(np.float32(scale)), self.array(dtype(zero)))

    def q(self, x: str, scale: float = 0.05, zero: int = 113, dtype: type = np.uint8) -> str:
        return self.dequantize(self.quantize(x, scale, zero, dtype), scale, zero, dtype)

    def weights(
        self, *shape: int, axis: int | None = 0, dtype: type = np.int8, zero: int | None = 0, spread: int = 128
    ) -> str:
        """Dequantized integers with a scale for each index of ``axis``, or one for all."""
        limits = np.iinfo(dtype)
        middle = (int(limits.min) + int(limits.max) + 1) // 2
        low, high = max(int(limits.min), middle - spread), min(int(limits.max), middle + spread - 1)
        array = self.array(self.random.integers(low, high, shape, endpoint=True).astype(dtype))
        if axis is None:
            parameters = [np.float32(0.004)] + ([] if zero is None else [dtype(zero)])
            return self("DequantizeLinear", array, *[self.array(p) for p in parameters])
        count = shape[axis]
        scale = self.random.uniform(0.001, 0.01, count).astype(np.float32)
        zeros = [] if zero is None else [self.array(np.full(count, zero, dtype))]
        return self("DequantizeLinear", array, self.array(scale), *zeros, axis=axis)

    def conv(self, x: str, channels: int, filters: int, kernel: int = 3, stride: int = 1, group: int = 1) -> str:
        """A convolution with per-channel weights and an int32 bias, as quantizers write it."""
        w = self.weights(filters, channels // group, kernel, kernel)
        bias = self.array(self.random.integers(-4000, 4000, filters).astype(np.int32))
        scale = self.array(self.random.uniform(0.0001, 0.0005, filters).astype(np.float32))
        b = self("DequantizeLinear", bias, scale, axis=0)
        return self("Conv", x, w, b, pads=[kernel // 2] * 4, strides=[stride] * 2, group=group)

    def norm(self, x: str, channels: int) -> str:
        low = (0.5, -1.0, -1.0, 0.2)
        return self(
            "BatchNormalization",
            x,
            *[self.array(self.random.uniform(v, 1.5, channels).astype(np.float32)) for v in low],
        )


def dynamic(g: Graph, x: str) -> str:
    """A product as dynamic quantization writes it, of an input with 64 columns."""
    parts = ["quantized", "scale", "zero"]
    g.nodes.append(helper.make_node("DynamicQuantizeLinear", [x], parts, name="parts"))
    weights = g.array(g.random.integers(-127, 127, (64, 32)).astype(np.int8))
    scales = g.array(g.random.uniform(0.001, 0.01, 32).astype(np.float32))
    y = g("MatMulInteger", parts[0], weights, parts[2], g.array(np.zeros(32, np.int8)))
    return g("Mul", g("Cast", y, to=TensorProto.FLOAT), g("Mul", parts[1], scales))


Build = Callable[[Graph, str], str | Sequence[str]]


def model(build: Build, shape: Sequence[int | str], seed: int = 0, element: int = TensorProto.FLOAT) -> onnx.ModelProto:
    """The model whose nodes ``build(graph, "x")`` makes; it returns the name(s) of the output(s)."""
    graph = Graph(seed)
    outputs = build(graph, "x")
    outputs = [outputs] if isinstance(outputs, str) else list(outputs)
    proto = helper.make_graph(
        graph.nodes,
        "quantized",
        [helper.make_tensor_value_info("x", element, list(shape))],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        graph.initializers,
    )
    made = helper.make_model(proto, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return onnx.shape_inference.infer_shapes(made)


def reference(proto: onnx.ModelProto, x: np.ndarray) -> list[np.ndarray]:
    """What the reference evaluator computes."""
    return [np.asarray(y) for y in ReferenceEvaluator(proto).run(None, {"x": x})]
