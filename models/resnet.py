"""ResNet-8 (MLPerf Tiny image classification, 78,666 parameters with BatchNorm statistics) and ResNet-50 v1.5
(25,557,032 parameters).

He et al. 2015, "Deep Residual Learning". v1.5 puts a downsampling block's stride on its 3x3 convolution. The last
BatchNorm of a residual branch has a small gamma, as trained networks have, so that the sum over 16 blocks does not
grow.
"""

from __future__ import annotations

import onnx

from models.graph import GraphBuilder, same_padding

_BRANCH_SCALE = 0.4


def resnet_8() -> onnx.ModelProto:
    """x [1,3,32,32] → class probabilities [1,10]. Padding is TensorFlow's ``SAME``, as in the Keras original."""
    g = GraphBuilder("resnet_8")
    x = g.input("x", (1, 3, 32, 32))
    x = g.conv(x, "stem/conv", 16, (3, 3), pads=(1, 1, 1, 1), bias=True, gain=1.0)
    x = g.relu(g.batch_norm(x, "stem/bn", epsilon=1e-3), "stem/relu")
    size = 32
    for index, (channels, stride) in enumerate(((16, 1), (32, 2), (64, 2))):
        scope = f"stack{index}"
        before, after = same_padding(size, 3, stride)
        pads = (before, before, after, after)
        y = g.conv(x, f"{scope}/conv1", channels, (3, 3), stride=(stride, stride), pads=pads, bias=True)
        y = g.relu(g.batch_norm(y, f"{scope}/bn1", epsilon=1e-3), f"{scope}/relu1")
        y = g.conv(y, f"{scope}/conv2", channels, (3, 3), pads=(1, 1, 1, 1), bias=True)
        y = g.batch_norm(y, f"{scope}/bn2", scale=_BRANCH_SCALE, epsilon=1e-3)
        if stride != 1:
            x = g.conv(x, f"{scope}/shortcut", channels, (1, 1), stride=(stride, stride), bias=True)
        x = g.relu(g.op("Add", [x, y], f"{scope}/add"), f"{scope}/relu2")
        size //= stride
    x = g.op("AveragePool", [x], "pool", kernel_shape=[8, 8], strides=[8, 8])
    x = g.op("Flatten", [x], "flatten", axis=1)
    x = g.dense(x, "fc", 10, gain=1.0)
    return g.build({"probabilities": (g.op("Softmax", [x], "softmax", axis=1), (1, 10))})


def _bottleneck(g: GraphBuilder, x: str, scope: str, width: int, stride: int, project: bool) -> str:
    y = g.conv(x, f"{scope}/conv1", width, (1, 1))
    y = g.relu(g.batch_norm(y, f"{scope}/bn1"), f"{scope}/relu1")
    y = g.conv(y, f"{scope}/conv2", width, (3, 3), stride=(stride, stride), pads=(1, 1, 1, 1))
    y = g.relu(g.batch_norm(y, f"{scope}/bn2"), f"{scope}/relu2")
    y = g.conv(y, f"{scope}/conv3", 4 * width, (1, 1))
    y = g.batch_norm(y, f"{scope}/bn3", scale=_BRANCH_SCALE)
    if project:
        x = g.conv(x, f"{scope}/shortcut/conv", 4 * width, (1, 1), stride=(stride, stride))
        x = g.batch_norm(x, f"{scope}/shortcut/bn")
    return g.relu(g.op("Add", [y, x], f"{scope}/add"), f"{scope}/relu3")


def resnet_50() -> onnx.ModelProto:
    """x [1,3,224,224] → logits [1,1000]."""
    g = GraphBuilder("resnet_50")
    x = g.input("x", (1, 3, 224, 224))
    x = g.conv(x, "stem/conv", 64, (7, 7), stride=(2, 2), pads=(3, 3, 3, 3), gain=1.0)
    x = g.relu(g.batch_norm(x, "stem/bn"), "stem/relu")
    x = g.op("MaxPool", [x], "stem/pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            x = _bottleneck(g, x, f"stage{stage + 1}/block{block}", width, stride, project=block == 0)
    x = g.op("GlobalAveragePool", [x], "pool")
    x = g.op("Flatten", [x], "flatten", axis=1)
    return g.build({"logits": (g.dense(x, "fc", 1000, gain=1.0), (1, 1000))})
