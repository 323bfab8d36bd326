"""Classical models on an emulated microcontroller."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

import rillet
from tests.support import firmware
from tests.support.ml_models import MlGraph

INT, FLOAT = TensorProto.INT64, TensorProto.FLOAT


def classifiers(rows: np.ndarray) -> MlGraph:
    """Scaled rows into a logistic regression, and into a support vector machine with probabilities."""
    rng = np.random.default_rng(0)
    graph = MlGraph({"x": rows}, dynamic=False)
    (scaled,) = graph.add("Scaler", "x", scale=[0.5, 2.0, 1.0, 0.25], offset=[1.0, 0.0, -1.0, 3.0])
    graph.add(
        "LinearClassifier",
        scaled,
        INT,
        FLOAT,
        coefficients=rng.normal(size=12).tolist(),
        intercepts=[0.1, 0.0, -0.1],
        classlabels_ints=[3, 5, 8],
        post_transform="SOFTMAX",
    )
    graph.add(
        "SVMClassifier",
        scaled,
        INT,
        FLOAT,
        kernel_type="RBF",
        kernel_params=[0.25, 0.0, 0.0],
        vectors_per_class=[3, 2, 3],
        support_vectors=rng.normal(size=32).tolist(),
        coefficients=rng.normal(size=16).tolist(),
        rho=[0.1, -0.2, 0.3],
        prob_a=[-1.0, -2.0, -1.5],
        prob_b=[0.1, 0.0, -0.1],
        classlabels_ints=[0, 1, 2],
    )
    return graph


@pytest.mark.parametrize("mode", ["c", "static"])
def test_classifiers_on_a_microcontroller(mode: str, tmp_path: Path) -> None:
    firmware.require_emulator("cortex-m4")
    rows = np.random.default_rng(1).normal(size=(2, 4)).astype(np.float32)
    graph = classifiers(rows)
    module = rillet.compile(graph.model(), target="cortex-m4", jobs=1)
    found, _ = firmware.run(module, firmware.link(module, module.export(tmp_path, mode=mode)), [rows])
    for got, want in zip(found, graph.run_peer().values(), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
