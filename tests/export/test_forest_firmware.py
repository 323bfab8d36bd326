"""A forest on emulated microcontrollers: its tables are constants, and no memory is taken for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

import rillet
from tests.support import firmware
from tests.support.forests import forest
from tests.support.ml_models import MlGraph, assert_same


def classifier(rows: int) -> MlGraph:
    """Three classes, features that may be NaN, and all tests."""
    random = np.random.default_rng(3)
    x = random.integers(-4, 5, (rows, 6)).astype(np.float32)
    x[random.random(x.shape) < 0.2] = np.nan
    graph = MlGraph({"x": x}, opset=3, dynamic=False)
    modes = ["BRANCH_LEQ", "BRANCH_GT"]
    attributes = forest(9, 5, 6, modes=modes, missing=(0, 1), targets=lambda random, tree: [0, 1, 2], kind="class")
    graph.add(
        "TreeEnsembleClassifier",
        "x",
        TensorProto.INT64,
        TensorProto.FLOAT,
        classlabels_int64s=[0, 1, 2],
        post_transform="SOFTMAX",
        **attributes,
    )
    return graph


@pytest.mark.parametrize(("target", "rows"), [("cortex-m4", 1), ("cortex-m55", 9), ("riscv32imf", 3)])
def test_forest(target: str, rows: int, tmp_path: Path) -> None:
    firmware.require_emulator(target)
    graph = classifier(rows)
    module = rillet.compile(graph.model(), target=target)
    exported = module.export(tmp_path / "model")
    (labels, scores), _ = firmware.run(module, firmware.link(module, exported), [graph.arrays["x"]])
    expected = graph.run_peer()
    assert_same(labels, expected["y0_0"])
    assert_same(scores, expected["y0_1"])
    assert module.stats["arena_bytes"] == -(-rows * 3 * 4 // 64) * 64, "nothing but the scores"
