"""Sum, Mean, Max and Min of more operands than one kernel takes."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import rillet

COUNT = 40


CASES = [(op, dtype) for op in ("Sum", "Mean", "Max", "Min") for dtype in (np.float32, np.float16)]


@pytest.mark.parametrize(("op", "dtype"), [*CASES, ("Max", np.int32), ("Min", np.int32)])
def test_many_operands(op: str, dtype: type) -> None:
    random = np.random.default_rng(0)
    shapes = [(3, 5), (5,), (3, 1)]
    inputs = {f"x{i}": (random.standard_normal(shapes[i % 3]) * 9).astype(dtype) for i in range(COUNT)}
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [helper.make_node(op, list(inputs), ["y"])],
        "test",
        [helper.make_tensor_value_info(name, element, x.shape) for name, x in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)],
    )
    graph.output[0].type.tensor_type.elem_type = element
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9)
    actual = rillet.compile(model).run(inputs)["y"]
    wide = {name: x.astype(np.float64) for name, x in inputs.items()}
    stacked = np.stack([np.broadcast_to(x, (3, 5)) for x in wide.values()])
    exact = {"Sum": np.sum, "Mean": np.mean, "Max": np.max, "Min": np.min}[op](stacked, axis=0)
    assert actual.dtype == dtype and actual.shape == (3, 5)
    if dtype is np.float32:
        np.testing.assert_allclose(actual, ReferenceEvaluator(model).run(None, inputs)[0], rtol=1e-5, atol=1e-5)
    # Rounded once: what is in between is kept in float32.
    tolerance = {np.float32: 1e-5, np.float16: 2.0**-10, np.int32: 0}[dtype]
    np.testing.assert_allclose(actual.astype(np.float64), exact, rtol=tolerance, atol=tolerance)
