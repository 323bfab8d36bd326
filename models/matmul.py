"""One square matrix product with a constant right-hand side: the plainest measure of a compiler's inner loop."""

from __future__ import annotations

import onnx

from models.graph import GraphBuilder

SIZE = 1024


def matmul_1024() -> onnx.ModelProto:
    """x [1024,1024] → y = x @ W [1024,1024]."""
    g = GraphBuilder("matmul_1024")
    x = g.input("x", (SIZE, SIZE))
    w = g.normal("W", (SIZE, SIZE), SIZE**-0.5)
    return g.build({"y": (g.op("MatMul", [x, w], "matmul"), (SIZE, SIZE))})
