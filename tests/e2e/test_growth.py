"""The work of a compile grows with the number of nodes, and no faster; ``benchmarks/growth.py`` measures it in
seconds."""

from __future__ import annotations

import sys
from types import FrameType

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import rillet
from benchmarks.growing_graphs import GRAPHS
from rillet import targets
from rillet.driver.lowering import lower
from rillet.frontends.registry import open_model

SMALL, LARGE = 44, 176  # whole blocks of all graphs


@pytest.mark.parametrize("name", [name for name in GRAPHS if f"{name}, unknown sizes" not in GRAPHS])
def test_lowering_is_linear(name: str) -> None:
    """Calls are counted, since they do not depend on the machine: four times the nodes take four times the calls.

    They make no longer kernels, which would take more than linear time to compile, and few more of them. Only the
    kernels of a chain grow, up to some hundred operations, and with them what it takes to form them.
    """
    _lowered(GRAPHS[name](2))  # what is imported and set up once
    small, large = (_lowered(GRAPHS[name](nodes)) for nodes in (SMALL, LARGE))
    limit = 5.5 if name == "chain" else 4.6
    assert large[0] < limit * small[0], f"{small[0]:,} calls for {SMALL} nodes, {large[0]:,} for {LARGE}"
    assert len(large[1]) <= len(small[1]) + 3, large[1]
    if name != "chain":
        assert max(large[1].values()) <= max(1.5 * max(small[1].values()), 4000), large[1]


def _lowered(model: onnx.ModelProto) -> tuple[int, dict[str, int]]:
    """The number of calls that lowering takes, and the length of each kernel's text."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    opened = open_model(model, None, None)
    sys.setprofile(count)
    try:
        _, kernels = lower(opened, targets.get("x86-64-v3"))
    finally:
        sys.setprofile(None)
    return calls, {name: len(text) for name, text in kernels}


@pytest.mark.parametrize("name", ["fan-in", "split", "concat", "shuffle", "reshapes, unknown sizes"])
def test_values(name: str) -> None:
    """What is cut into parts, or shared, computes what it did."""
    model = GRAPHS[name](LARGE // 2)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    sizes = {"n": 3, "h": 21, "w": 34}
    random = np.random.default_rng(0)
    inputs = {
        i.name: random.standard_normal([sizes[d] if isinstance(d, str) else d for d in i.shape]).astype(np.float32)
        for i in session.get_inputs()
    }
    actual = rillet.compile(model).run(inputs)
    for output, expected in zip(session.get_outputs(), session.run(None, inputs), strict=True):
        assert actual[output.name].shape == expected.shape
        np.testing.assert_allclose(actual[output.name], expected, rtol=0, atol=1e-5 * np.abs(expected).max())
