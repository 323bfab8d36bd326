"""What AVX-512 kernels compute, on a processor that Bochs emulates: everything here runs in one boot."""

from __future__ import annotations

import bochs
import numpy as np
import pytest

import models
from models.compare import error_ratio
from rillet import targets
from rillet.compiler import compile_to_bytes

pytest.importorskip("onnxruntime")

from rillet.verify.oracles import run_onnxruntime

TARGET = targets.get("x86-64-v4")
PROCESSOR = "corei7_skylake_x"
NETWORKS = ("mnist_cnn", "mobilenet_v1_025", "resnet_8", "ds_cnn", "fc_autoencoder")


def network(name: str) -> bochs.ModuleCase:
    model, feed = models.build(name), models.inputs(name)
    file = compile_to_bytes(model, targets=[TARGET])
    return bochs.ModuleCase(bytes(file), list(feed.values()), list(run_onnxruntime(model, feed).values()))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[bochs.Case, list[np.ndarray] | bochs.Failure]]:
    """Each case with what it gives."""
    bochs.require()
    cases: dict[str, bochs.Case] = {name: network(name) for name in NETWORKS}
    found = bochs.run(list(cases.values()), PROCESSOR, tmp_path_factory.mktemp("bochs"))
    return {name: (case, result) for (name, case), result in zip(cases.items(), found, strict=True)}


@pytest.mark.parametrize("name", NETWORKS)
def test_network(name: str, results: dict[str, tuple[bochs.Case, list[np.ndarray] | bochs.Failure]]) -> None:
    case, result = results[name]
    assert not isinstance(result, bochs.Failure), result
    assert error_ratio(result, case.like) <= 1
