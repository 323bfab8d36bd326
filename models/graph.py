"""A small builder for ONNX graphs with seeded random weights.

Weights follow He et al. 2015 ("Delving Deep into Rectifiers"): standard deviation ``sqrt(gain / fan_in)``, with
gain 2 where the layer reads a rectifier's output (half of the second moment is gone) and 1 where it reads a linear
one, so that the variance of activations stays near 1 through the whole depth.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
IR_VERSION = 8
_ELEM = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64}


def same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """Padding before and after one spatial axis for TensorFlow's ``SAME``: output size is ``ceil(size / stride)``."""
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


class GraphBuilder:
    """Collects nodes and initializers; every method returns the name of the value that it defines.

    Node names are the callers' labels, paths like ``block3/depthwise/conv``. The random stream is seeded by the model's
    name, so one model's weights never depend on which others were built before it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.graph_inputs: list[onnx.ValueInfoProto] = []
        self.channels: dict[str, int] = {}
        """Channel count of image-like values and feature count of matrices, by value name."""

    # Values ---------------------------------------------------------------------------------------------------------

    def input(self, name: str, shape: Sequence[int | str], dtype: str = "float32") -> str:
        """Declare a graph input; sizes with names are unknown. Axis 1 of a rank-2 or rank-4 input is its channel
        axis."""
        self.graph_inputs.append(helper.make_tensor_value_info(name, _ELEM[dtype], list(shape)))
        channels = shape[1] if len(shape) > 1 else shape[0]
        if isinstance(channels, int):
            self.channels[name] = channels
        return name

    def weight(self, name: str, array: np.ndarray) -> str:
        """Store an array as an initializer under `name`."""
        self.initializers.append(numpy_helper.from_array(np.array(array, order="C"), name))
        return name

    def normal(self, name: str, shape: Sequence[int], std: float) -> str:
        """A float32 initializer drawn from a normal distribution with mean 0."""
        return self.weight(name, self.rng.standard_normal(tuple(shape), dtype=np.float32) * np.float32(std))

    def uniform(self, name: str, size: int, low: float, high: float) -> str:
        """A float32 vector drawn uniformly from ``[low, high)``."""
        return self.weight(name, self.rng.uniform(low, high, size).astype(np.float32))

    def op(self, kind: str, inputs: Sequence[str], label: str, **attributes: object) -> str:
        """Append a single-output node named `label`; its value has the same name with ``:0`` appended."""
        out = f"{label}:0"
        self.nodes.append(helper.make_node(kind, list(inputs), [out], name=label, **attributes))
        if inputs and inputs[0] in self.channels:
            self.channels[out] = self.channels[inputs[0]]
        return out

    # Layers ---------------------------------------------------------------------------------------------------------

    def conv(
        self,
        x: str,
        label: str,
        out_channels: int,
        kernel: tuple[int, int],
        *,
        stride: tuple[int, int] = (1, 1),
        pads: Sequence[int] = (0, 0, 0, 0),
        groups: int = 1,
        bias: bool = False,
        gain: float = 2.0,
    ) -> str:
        """A 2-D convolution on NCHW with OIHW weights; `pads` is (top, left, bottom, right)."""
        per_group = self.channels[x] // groups
        std = (gain / (per_group * kernel[0] * kernel[1])) ** 0.5
        inputs = [x, self.normal(f"{label}.weight", (out_channels, per_group, *kernel), std)]
        if bias:
            inputs.append(self.normal(f"{label}.bias", (out_channels,), 0.05))
        out = self.op(
            "Conv",
            inputs,
            label,
            kernel_shape=list(kernel),
            strides=list(stride),
            pads=list(pads),
            dilations=[1, 1],
            group=groups,
        )
        self.channels[out] = out_channels
        return out

    def batch_norm(self, x: str, label: str, *, scale: float = 1.0, epsilon: float = 1e-5) -> str:
        """Inference BatchNormalization with random statistics around mean 0, variance 1; `scale` centres gamma."""
        size = self.channels[x]
        return self.op(
            "BatchNormalization",
            [
                x,
                self.uniform(f"{label}.gamma", size, 0.8 * scale, 1.2 * scale),
                self.normal(f"{label}.beta", (size,), 0.1),
                self.normal(f"{label}.mean", (size,), 0.1),
                self.uniform(f"{label}.variance", size, 0.7, 1.3),
            ],
            label,
            epsilon=epsilon,
        )

    def relu(self, x: str, label: str) -> str:
        """max(x, 0)."""
        return self.op("Relu", [x], label)

    def relu6(self, x: str, label: str) -> str:
        """min(max(x, 0), 6), as exporters write it: a Clip with constant bounds."""
        for bound, value in (("zero", 0.0), ("six", 6.0)):
            if all(tensor.name != bound for tensor in self.initializers):
                self.weight(bound, np.array(value, np.float32))
        return self.op("Clip", [x, "zero", "six"], label)

    def dense(self, x: str, label: str, features: int, *, gain: float = 2.0) -> str:
        """``x @ W.T + b`` as a Gemm with ``transB=1`` (the weight is [out, in], PyTorch's layout)."""
        size = self.channels[x]
        inputs = [x, self.normal(f"{label}.weight", (features, size), (gain / size) ** 0.5)]
        inputs.append(self.normal(f"{label}.bias", (features,), 0.05))
        out = self.op("Gemm", inputs, label, transB=1)
        self.channels[out] = features
        return out

    # Result ---------------------------------------------------------------------------------------------------------

    def build(self, outputs: Mapping[str, tuple[str, Sequence[int | str]]]) -> onnx.ModelProto:
        """The checked model; `outputs` maps a graph output's name to (value, shape), all float32."""
        infos = []
        for name, (value, shape) in outputs.items():
            infos.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)))
            self._rename(value, name)
        domains = sorted({node.domain for node in self.nodes} - {""})
        graph = helper.make_graph(self.nodes, self.name, self.graph_inputs, infos, self.initializers)
        model = helper.make_model(
            graph,
            producer_name="rillet-models",
            ir_version=IR_VERSION,
            opset_imports=[helper.make_opsetid("", OPSET), *(helper.make_opsetid(d, 1) for d in domains)],
        )
        onnx.checker.check_model(model, full_check=True)
        return model

    def _rename(self, old: str, new: str) -> None:
        for node in self.nodes:
            for names in (node.input, node.output):
                for index, value in enumerate(names):
                    if value == old:
                        names[index] = new
