"""DynamicQuantizeLSTM against ONNX Runtime, whose sums of 8-bit products saturate unless weights are small."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import rillet
from rillet.frontends.onnx.verification.oracles import run_onnxruntime

_STEPS, _BATCH, _INPUTS, _SIZE = 5, 1, 12, 8


def _model(directions: int, per_column: bool, dtype: type, **extra: np.ndarray) -> onnx.ModelProto:
    random = np.random.default_rng(7)
    columns = 4 * _SIZE
    scales = (directions, columns) if per_column else (directions,)
    middle = 0 if dtype == np.int8 else 128

    def weights(rows: int) -> np.ndarray:
        return (middle + random.integers(-60, 61, (directions, rows, columns))).astype(dtype)

    constants: dict[str, np.ndarray] = {
        "W": weights(_INPUTS),
        "R": weights(_SIZE),
        "B": random.standard_normal((directions, 2 * columns)).astype(np.float32),
        "W_scale": random.uniform(0.002, 0.01, scales).astype(np.float32),
        "W_zero_point": np.full(scales, middle, dtype),
        "R_scale": random.uniform(0.002, 0.01, scales).astype(np.float32),
        "R_zero_point": np.full(scales, middle, dtype),
    } | extra
    names = [
        "X",
        "W",
        "R",
        "B",
        "",
        "initial_h",
        "initial_c",
        "P",
        "W_scale",
        "W_zero_point",
        "R_scale",
        "R_zero_point",
    ]
    given = [name if name == "X" or name in constants else "" for name in names]
    node = helper.make_node(
        "DynamicQuantizeLSTM",
        given,
        ["Y", "Y_h", "Y_c"],
        name="lstm",
        domain="com.microsoft",
        direction="bidirectional" if directions == 2 else "forward",
        hidden_size=_SIZE,
    )
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node],
        "g",
        [value("X", onnx.TensorProto.FLOAT, ["steps", _BATCH, _INPUTS])],
        [
            value("Y", onnx.TensorProto.FLOAT, ["steps", directions, _BATCH, _SIZE]),
            value("Y_h", onnx.TensorProto.FLOAT, [directions, _BATCH, _SIZE]),
            value("Y_c", onnx.TensorProto.FLOAT, [directions, _BATCH, _SIZE]),
        ],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def _state(directions: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal((directions, _BATCH, _SIZE)).astype(np.float32)


@pytest.mark.parametrize(
    ("directions", "per_column", "dtype", "extra"),
    [
        (1, False, np.int8, {}),
        (2, True, np.int8, {"initial_h": _state(2), "initial_c": _state(2)}),
        (2, False, np.uint8, {"P": np.linspace(-1, 1, 2 * 3 * _SIZE, dtype=np.float32).reshape(2, -1)}),
    ],
)
def test_it_agrees_with_onnx_runtime(directions: int, per_column: bool, dtype: type, extra: dict[str, Any]) -> None:
    model = _model(directions, per_column, dtype, **extra)
    x = np.random.default_rng(11).standard_normal((_STEPS, _BATCH, _INPUTS)).astype(np.float32)
    expected, module = run_onnxruntime(model, {"X": x}), rillet.compile(model, threads=1)
    for _ in range(2):
        for name, array in module.run({"X": x}).items():
            assert array.dtype == np.float32
            # A state next to a tie of its rounding may take the other step: 1/255 of the range times a weight.
            np.testing.assert_allclose(array, expected[name], atol=2e-5, err_msg=name)


def test_scales_of_another_rank_and_missing_ones_are_named() -> None:
    wrong = _model(1, False, np.int8, W_scale=np.ones((1, 1, 1), np.float32))
    with pytest.raises(rillet.CompileError, match=r"'lstm'.*a scale or zero point has rank 3, not 1 or 2"):
        rillet.compile(wrong)
    wrong = _model(1, False, np.int8)
    wrong.graph.node[0].input[8] = ""
    with pytest.raises(rillet.CompileError, match=r"'lstm'.*W_scale is missing"):
        rillet.compile(wrong)
    del wrong.graph.node[0].input[2:]
    with pytest.raises(rillet.CompileError, match=r"'lstm': it has 2 inputs; the op takes 3 or more"):
        rillet.compile(wrong)
