"""Readers of a value that is padded too, which read the padded tensor instead."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnxruntime as ort
import pytest
from onnx.reference import ReferenceEvaluator

import rillet
from rillet import dispatch
from rillet.ir.structured import walk
from tests.support import optimize_graphs as graphs
from tests.support.optimize_graphs import Graph
from tests.support.stages import passes

CHANNELS, SIZE = 32, 16


def gated_residual(g: Graph, x: str) -> str:
    """Two readers of a padded value, the second of which reads the first: redirecting that changes its operand."""
    y = g("Relu", g.conv(x, CHANNELS, CHANNELS, 1))
    gate = g.conv(g.conv(y, CHANNELS, CHANNELS, 5, group=CHANNELS), CHANNELS, CHANNELS, 1)
    return g("Add", g("Mul", gate, y), y)


def gates_in_a_row(g: Graph, x: str) -> str:
    """Four readers, each of which reads the one before."""
    y = g("Relu", g.conv(x, CHANNELS, CHANNELS, 1))
    z = g.conv(g.conv(y, CHANNELS, CHANNELS, 5, group=CHANNELS), CHANNELS, CHANNELS, 1)
    for op in ("Mul", "Add", "Mul", "Add"):
        z = g(op, g("Sigmoid", z), y)
    return z


def gated_twice(g: Graph, x: str) -> str:
    """What the second pad is made from is itself a reader that was redirected."""
    return gated_residual(g, gated_residual(g, x))


def residual_blocks(g: Graph, x: str) -> str:
    """Each sum is a reader that was redirected, and what the next pad is made from."""
    for _ in range(5):
        x = g("Add", x, g.conv(g("Relu", g.conv(x, CHANNELS, CHANNELS, 3)), CHANNELS, CHANNELS, 3))
    return x


CASES = (gated_residual, gates_in_a_row, gated_twice, residual_blocks)
Build = Callable[[Graph, str], str]


@pytest.mark.parametrize("batch", [1, "batch"])
@pytest.mark.parametrize("build", CASES)
def test_readers_that_read_each_other(build: Build, batch: int | str) -> None:
    model = graphs.model(build, (batch, CHANNELS, SIZE, SIZE))
    compiled = rillet.compile(model)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    reference = ReferenceEvaluator(model)
    for count in (1,) if batch == 1 else (1, 3):
        x = np.random.default_rng(count).standard_normal((count, CHANNELS, SIZE, SIZE)).astype(np.float32)
        (actual,) = compiled.run({"x": x}).values()
        for expected in (session.run(None, {"x": x})[0], reference.run(None, {"x": x})[0]):
            np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("build", [gated_residual, residual_blocks])
def test_the_value_is_written_padded_only(build: Build) -> None:
    """All readers but the pad read the padded tensor, so the pad joins what makes its source."""
    program = graphs.program(build, (1, CHANNELS, SIZE, SIZE))
    for step in passes("optimize", "dispatch"):
        step(program)
    dispatch.check(program)
    calls = [str(op.attributes["callee"])[1:] for op in walk(program.main()) if op.name == "func.call"]
    assert not [name for name in calls if name.startswith("pad")]
