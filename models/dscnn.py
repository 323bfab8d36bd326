"""DS-CNN, the depthwise separable network of MLPerf Tiny's keyword spotting benchmark (24,908 parameters
with BatchNorm statistics).

Zhang et al. 2017, "Hello Edge", size S, as MLPerf Tiny trains it: a 10x4 convolution with stride 2, four separable
blocks of 64 channels, average pooling. Padding is TensorFlow's ``SAME``; convolutions have biases in front of their
BatchNorms.
"""

from __future__ import annotations

import onnx

from models.graph import GraphBuilder, same_padding

HEIGHT, WIDTH, CHANNELS, CLASSES, BLOCKS = 49, 10, 64, 12, 4


def ds_cnn() -> onnx.ModelProto:
    """x [1,1,49,10] (49 frames of 10 MFCCs) → class probabilities [1,12]."""
    g = GraphBuilder("ds_cnn")
    x = g.input("x", (1, 1, HEIGHT, WIDTH))
    (top, bottom), (left, right) = same_padding(HEIGHT, 10, 2), same_padding(WIDTH, 4, 2)
    x = g.conv(x, "stem/conv", CHANNELS, (10, 4), stride=(2, 2), pads=(top, left, bottom, right), bias=True)
    x = g.relu(g.batch_norm(x, "stem/bn", epsilon=1e-3), "stem/relu")
    for index in range(BLOCKS):
        scope = f"block{index}"
        x = g.conv(x, f"{scope}/depthwise/conv", CHANNELS, (3, 3), pads=(1, 1, 1, 1), groups=CHANNELS, bias=True)
        x = g.relu(g.batch_norm(x, f"{scope}/depthwise/bn", epsilon=1e-3), f"{scope}/depthwise/relu")
        x = g.conv(x, f"{scope}/pointwise/conv", CHANNELS, (1, 1), bias=True)
        x = g.relu(g.batch_norm(x, f"{scope}/pointwise/bn", epsilon=1e-3), f"{scope}/pointwise/relu")
    x = g.op("AveragePool", [x], "pool", kernel_shape=[25, 5], strides=[25, 5])
    x = g.op("Flatten", [x], "flatten", axis=1)
    x = g.dense(x, "fc", CLASSES, gain=1.0)
    return g.build({"probabilities": (g.op("Softmax", [x], "softmax", axis=1), (1, CLASSES))})
