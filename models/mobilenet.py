"""MobileNetV1-0.25 at 96x96 (MLPerf Tiny visual wake words, 221,794 parameters with BatchNorm statistics) and
MobileNetV2-1.0 at 224x224 (3,504,872 parameters).

Howard et al. 2017, "MobileNets"; Sandler et al. 2018, "MobileNetV2". The first follows the Keras original: TensorFlow's
``SAME`` padding and convolution biases in front of BatchNorms; the second PyTorch's: symmetric padding, no biases.
"""

from __future__ import annotations

import onnx

from models.graph import GraphBuilder, same_padding

_V1_BLOCKS = (  # output channels at width 1.0, stride of the depthwise convolution
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1),
)  # fmt: skip

_V2_BLOCKS = (  # expansion, output channels, repeats, stride of the first
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip


def mobilenet_v1_025() -> onnx.ModelProto:
    """x [1,3,96,96] → class probabilities [1,2] (person, no person)."""
    g = GraphBuilder("mobilenet_v1_025")
    size = 96

    def layer(x: str, scope: str, channels: int, kernel: int, stride: int, groups: int = 1) -> str:
        before, after = same_padding(size, kernel, stride)
        pads = (before, before, after, after)
        x = g.conv(
            x, f"{scope}/conv", channels, (kernel, kernel), stride=(stride, stride), pads=pads, groups=groups, bias=True
        )
        return g.relu(g.batch_norm(x, f"{scope}/bn", epsilon=1e-3), f"{scope}/relu")

    x = layer(g.input("x", (1, 3, 96, 96)), "stem", 8, 3, 2)
    size //= 2
    for index, (channels, stride) in enumerate(_V1_BLOCKS):
        x = layer(x, f"block{index}/depthwise", g.channels[x], 3, stride, groups=g.channels[x])
        size = -(-size // stride)
        x = layer(x, f"block{index}/pointwise", channels // 4, 1, 1)
    x = g.op("AveragePool", [x], "pool", kernel_shape=[size, size], strides=[size, size])
    x = g.op("Flatten", [x], "flatten", axis=1)
    x = g.dense(x, "fc", 2, gain=1.0)
    return g.build({"probabilities": (g.op("Softmax", [x], "softmax", axis=1), (1, 2))})


def _inverted_residual(g: GraphBuilder, x: str, scope: str, expansion: int, channels: int, stride: int) -> str:
    y, hidden = x, g.channels[x] * expansion
    if expansion != 1:
        y = g.conv(y, f"{scope}/expand/conv", hidden, (1, 1), gain=1.0)
        y = g.relu6(g.batch_norm(y, f"{scope}/expand/bn"), f"{scope}/expand/relu6")
    y = g.conv(y, f"{scope}/depthwise/conv", hidden, (3, 3), stride=(stride, stride), pads=(1, 1, 1, 1), groups=hidden)
    y = g.relu6(g.batch_norm(y, f"{scope}/depthwise/bn"), f"{scope}/depthwise/relu6")
    y = g.conv(y, f"{scope}/project/conv", channels, (1, 1))
    y = g.batch_norm(y, f"{scope}/project/bn")
    if stride != 1 or channels != g.channels[x]:
        return y
    return g.op("Add", [x, y], f"{scope}/add")


def mobilenet_v2() -> onnx.ModelProto:
    """x [1,3,224,224] → logits [1,1000]."""
    g = GraphBuilder("mobilenet_v2")
    x = g.input("x", (1, 3, 224, 224))
    x = g.conv(x, "stem/conv", 32, (3, 3), stride=(2, 2), pads=(1, 1, 1, 1), gain=1.0)
    x = g.relu6(g.batch_norm(x, "stem/bn"), "stem/relu6")
    index = 0
    for expansion, channels, repeats, first_stride in _V2_BLOCKS:
        for repeat in range(repeats):
            stride = first_stride if repeat == 0 else 1
            x = _inverted_residual(g, x, f"block{index}", expansion, channels, stride)
            index += 1
    x = g.conv(x, "head/conv", 1280, (1, 1), gain=1.0)
    x = g.relu6(g.batch_norm(x, "head/bn"), "head/relu6")
    x = g.op("GlobalAveragePool", [x], "pool")
    x = g.op("Flatten", [x], "flatten", axis=1)
    return g.build({"logits": (g.dense(x, "fc", 1000, gain=1.0), (1, 1000))})
