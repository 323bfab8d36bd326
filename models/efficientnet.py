"""EfficientNet-Lite0 (4.65 M parameters, ImageNet) with pretrained weights.

Tan & Le 2019, "EfficientNet"; the Lite variant drops squeeze-and-excitation and uses ReLU6. The graph is written
here from the published architecture; the weights come from a PyTorch state dict. Padding is TensorFlow's ``SAME``,
BatchNorm's epsilon 1e-3.
"""

from __future__ import annotations

from pathlib import Path

import onnx

from models.graph import GraphBuilder, same_padding
from models.torch_weights import read_state_dict

_BLOCKS = (  # repeats, kernel, stride of the first, expansion, output channels
    (1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112), (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)  # fmt: skip
SIZE = 224


def efficientnet_lite0(state_dict: Path) -> onnx.ModelProto:
    """x [1,3,224,224] (RGB, (pixel - 127) / 128) → logits [1,1000]."""
    weights = read_state_dict(state_dict)
    g = GraphBuilder("efficientnet_lite0")
    size = SIZE

    def conv(x: str, source: str, label: str, kernel: int, stride: int, groups: int = 1) -> str:
        array = weights[f"{source}.weight"]
        before, after = same_padding(size, kernel, stride)
        out = g.op(
            "Conv",
            [x, g.weight(f"{label}.weight", array)],
            label,
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[before, before, after, after],
            dilations=[1, 1],
            group=groups,
        )
        g.channels[out] = array.shape[0]
        return out

    def norm(x: str, source: str, label: str) -> str:
        parts = {"gamma": "weight", "beta": "bias", "mean": "running_mean", "variance": "running_var"}
        inputs = [x, *(g.weight(f"{label}.{ours}", weights[f"{source}.{theirs}"]) for ours, theirs in parts.items())]
        return g.op("BatchNormalization", inputs, label, epsilon=1e-3)

    def layer(x: str, names: tuple[str, str], scope: str, kernel: int = 1, stride: int = 1, groups: int = 1) -> str:
        return norm(conv(x, names[0], f"{scope}/conv", kernel, stride, groups), names[1], f"{scope}/bn")

    x = g.input("x", (1, 3, SIZE, SIZE))
    x = g.relu6(layer(x, ("_conv_stem", "_bn0"), "stem", 3, 2), "stem/relu6")
    size //= 2
    index = 0
    for repeats, kernel, first_stride, expansion, channels in _BLOCKS:
        for repeat in range(repeats):
            stride = first_stride if repeat == 0 else 1
            source, scope = f"_blocks.{index}", f"block{index}"
            y = x
            if expansion != 1:
                y = layer(y, (f"{source}._expand_conv", f"{source}._bn0"), f"{scope}/expand")
                y = g.relu6(y, f"{scope}/expand/relu6")
            depthwise = (f"{source}._depthwise_conv", f"{source}._bn1")
            y = layer(y, depthwise, f"{scope}/depthwise", kernel, stride, g.channels[y])
            y = g.relu6(y, f"{scope}/depthwise/relu6")
            y = layer(y, (f"{source}._project_conv", f"{source}._bn2"), f"{scope}/project")
            x = g.op("Add", [y, x], f"{scope}/add") if stride == 1 and channels == g.channels[x] else y
            size = -(-size // stride)
            index += 1
    x = g.relu6(layer(x, ("_conv_head", "_bn1"), "head"), "head/relu6")
    x = g.op("GlobalAveragePool", [x], "pool")
    x = g.op("Flatten", [x], "flatten", axis=1)
    fc = [x, g.weight("fc.weight", weights["_fc.weight"]), g.weight("fc.bias", weights["_fc.bias"])]
    return g.build({"logits": (g.op("Gemm", fc, "fc", transB=1), (1, 1000))})
