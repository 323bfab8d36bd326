"""Padded tensors that are inserted with steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import rillet


def _transposed(pads: Sequence[int], shape: Sequence[int | str], value: float) -> onnx.ModelProto:
    """A transposed convolution, with strides of two, of a padded image."""
    weights = np.random.default_rng(1).standard_normal((3, 4, 3, 2)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Pad", ["x", "pads", "value"], ["p"]),
            helper.make_node("ConvTranspose", ["p", "w"], ["y"], strides=[2, 2], pads=[0, 0, 2, 1]),
        ],
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)],
        [
            numpy_helper.from_array(np.array(pads), "pads"),
            numpy_helper.from_array(np.float32(value), "value"),
            numpy_helper.from_array(weights, "w"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.mark.parametrize("value", [0.0, 1.0])
@pytest.mark.parametrize("shape", [(2, 3, 5, 4), (2, 3, "h", "w")])
@pytest.mark.parametrize("pads", [(0, 0, 1, 2, 0, 0, 3, 0), (1, 0, 0, 1, 0, 0, 0, 0)])
def test_transposed_convolutions_of_padded_images(
    pads: Sequence[int], shape: Sequence[int | str], value: float
) -> None:
    model = _transposed(pads, shape, value)
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 4)).astype(np.float32)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(rillet.compile(model, threads=1)(x), expected, rtol=1e-5, atol=1e-5)
