"""Slices that differ in their place only."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

import rillet
from rillet.dispatch import slice_offsets
from rillet.ir.structured import walk
from tests.support.importing import import_model
from tests.support.stages import passes

MOST = slice_offsets.Options().alike


def _split(parts: int) -> ModelProto:
    names = [f"y{i}" for i in range(parts)]
    graph = helper.make_graph(
        [helper.make_node("Split", ["x"], names, axis=1, num_outputs=parts)],
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("n", 3 * parts))],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.mark.parametrize(("parts", "kernels"), [(MOST, MOST), (MOST + 1, 1)])
def test_many_share_a_kernel(parts: int, kernels: int) -> None:
    """Few keep a kernel each, which knows the place."""
    program = import_model(_split(parts))
    for step in passes("optimize", "dispatch"):
        step(program)
    calls = [str(op.attributes["callee"]) for op in walk(program.main()) if op.name == "func.call"]
    assert len(calls) == parts
    assert len(set(calls)) == kernels


@pytest.mark.parametrize("parts", [MOST, MOST + 5])
def test_values(parts: int) -> None:
    x = np.random.default_rng(0).standard_normal((4, 3 * parts)).astype(np.float32)
    results = rillet.compile(_split(parts)).run({"x": x})
    for i, expected in enumerate(np.split(x, parts, axis=1)):
        np.testing.assert_array_equal(results[f"y{i}"], expected)
