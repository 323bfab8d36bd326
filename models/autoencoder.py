"""The fully connected autoencoder of MLPerf Tiny's anomaly detection benchmark (269,992 parameters
with BatchNorm statistics).

Banbury et al. 2021, "MLPerf Tiny Benchmark": 640 → 4 x 128 → 8 → 4 x 128 → 640, BatchNorm
and ReLU after each hidden layer.
"""

from __future__ import annotations

import onnx

from models.graph import GraphBuilder

FEATURES = 640
HIDDEN = (128, 128, 128, 128, 8, 128, 128, 128, 128)


def fc_autoencoder() -> onnx.ModelProto:
    """x [1,640] (five stacked log-mel frames of 128 bands) → its reconstruction [1,640]."""
    g = GraphBuilder("fc_autoencoder")
    x = g.input("x", (1, FEATURES))
    for index, features in enumerate(HIDDEN):
        x = g.dense(x, f"dense{index}/gemm", features, gain=1.0 if index == 0 else 2.0)
        x = g.batch_norm(x, f"dense{index}/bn", epsilon=1e-3)
        x = g.relu(x, f"dense{index}/relu")
    x = g.dense(x, "output", FEATURES)
    return g.build({"y": (x, (1, FEATURES))})
