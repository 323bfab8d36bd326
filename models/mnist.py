"""The classic MNIST CNN: two 5x5 convolutions, two poolings, one dense layer (5,994 parameters)."""

from __future__ import annotations

import onnx

from models.graph import GraphBuilder


def mnist_cnn() -> onnx.ModelProto:
    """x [1,1,28,28] → logits [1,10]."""
    g = GraphBuilder("mnist_cnn")
    x = g.input("x", (1, 1, 28, 28))
    x = g.conv(x, "conv1", 8, (5, 5), pads=(2, 2, 2, 2), bias=True)
    x = g.relu(x, "relu1")
    x = g.op("MaxPool", [x], "pool1", kernel_shape=[2, 2], strides=[2, 2])
    x = g.conv(x, "conv2", 16, (5, 5), pads=(2, 2, 2, 2), bias=True)
    x = g.relu(x, "relu2")
    x = g.op("MaxPool", [x], "pool2", kernel_shape=[3, 3], strides=[3, 3])
    x = g.op("Flatten", [x], "flatten", axis=1)
    g.channels[x] = 16 * 4 * 4
    x = g.dense(x, "fc", 10, gain=1.0)
    return g.build({"logits": (x, (1, 10))})
