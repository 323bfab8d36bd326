"""Concatenations of many tensors, written part by part."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest
from onnx import ModelProto, TensorProto, helper

import rillet
from rillet.dispatch import long_concats
from rillet.ir.structured import walk
from tests.support.importing import import_model
from tests.support.stages import passes

PARTS = long_concats.Options().parts + 8
Shapes = list[tuple[int | str, ...]]


def _model(shapes: Shapes, axis: int, *, computed: bool) -> ModelProto:
    names = [f"x{i}" for i in range(len(shapes))]
    parts = [f"r{i}" for i in range(len(shapes))] if computed else names
    nodes = [helper.make_node("Relu", [x], [r]) for x, r in zip(names, parts, strict=True) if computed]
    nodes.append(helper.make_node("Concat", [*reversed(parts), parts[0]], ["y"], axis=axis))
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in zip(names, shapes, strict=True)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


CASES: dict[str, tuple[Shapes, int]] = {
    "one size": ([(3, 4)] * PARTS, 1),
    "several sizes, one empty": ([(3, (0, 5, 2)[i % 3]) for i in range(PARTS)], 1),
    "an unknown size beside": ([("n", 2)] * PARTS, 1),
    "unknown sizes along": ([(("n", 2, "m")[i % 3], 2) for i in range(PARTS)], 0),
}


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_values(case: str, computed: bool) -> None:
    model = _model(*CASES[case], computed=computed)
    sizes = {"n": 3, "m": 1}
    random = np.random.default_rng(0)
    inputs = {
        f"x{i}": random.standard_normal([sizes[d] if isinstance(d, str) else d for d in shape]).astype(np.float32)
        for i, shape in enumerate(CASES[case][0])
    }
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(rillet.compile(model).run(inputs)["y"], session.run(None, inputs)[0])


def test_parts_of_one_size_have_one_kernel_and_no_copy() -> None:
    """All but the first, which starts from an empty tensor, and the part that is read twice."""
    program = import_model(_model(*CASES["one size"], computed=True))
    for step in passes("optimize", "dispatch"):
        step(program)
    calls = [str(op.attributes["callee"]) for op in walk(program.main()) if op.name == "func.call"]
    assert len(calls) <= PARTS + 2
    assert len(set(calls)) <= 4


def test_few_parts_stay_together() -> None:
    program = import_model(_model([(3, 4)] * (PARTS - 9), 1, computed=False))
    for step in passes("optimize", "dispatch"):
        step(program)
    assert sum(op.name == "func.call" for op in walk(program.main())) == 1
