"""The operators of domain com.microsoft that ONNX Runtime's quantizer writes, against ONNX Runtime itself."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import rillet
from rillet.errors import CompileError, UnsupportedError
from rillet.frontends.onnx.verification.oracles import run_onnxruntime

_RANDOM = np.random.default_rng(5)


def bytes_of(shape: tuple[int, ...], dtype: type = np.uint8, spread: int = 128) -> np.ndarray:
    middle = 128 if dtype == np.uint8 else 0
    return _RANDOM.integers(middle - spread, middle + spread, shape).astype(dtype)


def model(op: str, inputs: list[np.ndarray | None], variable: tuple[int, ...], **attributes: object) -> onnx.ModelProto:
    """One node; the inputs at the places ``variable`` are the model's, the others constants."""
    names = [f"i{n}" if a is not None else "" for n, a in enumerate(inputs)]
    while names and not names[-1]:
        names.pop()
    kept = {n: a for n, a in enumerate(inputs) if a is not None}
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], name="n", domain="com.microsoft", **attributes)],
        "one",
        [helper.make_tensor_value_info(names[n], helper.np_dtype_to_tensor_dtype(kept[n].dtype), kept[n].shape)
         for n in variable],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(a, names[n]) for n, a in kept.items() if n not in variable],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def compared(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """What Rillet and ONNX Runtime compute."""
    expected = run_onnxruntime(proto, feeds)["y"]
    typed = onnx.ModelProto()
    typed.CopyFrom(proto)
    code = helper.np_dtype_to_tensor_dtype(expected.dtype)
    typed.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", code, expected.shape))
    return np.asarray(rillet.compile(typed, threads=1).run(feeds)["y"]), expected


S, U8, I8 = np.float32, np.uint8, np.int8
X, Y = bytes_of((2, 6, 7, 9)), bytes_of((2, 6, 7, 9))
A, B = bytes_of((5, 12)), bytes_of((12, 8), np.int8, 64)
SCALES = _RANDOM.uniform(0.001, 0.01, 8).astype(S)
BIAS = _RANDOM.integers(-4000, 4000, 8).astype(np.int32)
ONE = [X, S(0.0312), U8(120), S(0.0517), U8(99)]
FILTERS = bytes_of((4, 9, 3, 3), np.int8, 64)
POOL = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}

# Name → operator, inputs, which of them vary, attributes.
CASES: dict[str, tuple] = {
    "add": ("QLinearAdd", [X, S(0.0312), U8(120), Y, S(0.0517), U8(7), S(0.0619), U8(99)], (0, 3), {}),
    "add int8": (
        "QLinearAdd",
        [X.view(I8), S(0.0312), I8(-9), Y.view(I8), S(0.0517), I8(7), S(0.0619), I8(-99)],
        (0, 3),
        {},
    ),
    "add a constant row": (
        "QLinearAdd",
        [X, S(0.0312), U8(0), Y[0, 0, 0], S(0.0517), U8(1), S(0.0619), U8(2)],
        (0,),
        {},
    ),
    "mul": ("QLinearMul", [X, S(0.0312), U8(120), Y, S(0.0517), U8(7), S(0.0619), U8(99)], (0, 3), {}),
    "sigmoid": ("QLinearSigmoid", [X, S(0.0312), U8(120), S(1 / 256), U8(0)], (0,), {}),
    "leaky": ("QLinearLeakyRelu", ONE, (0,), {"alpha": 0.2}),
    "softmax": ("QLinearSoftmax", [X, S(0.0312), U8(120), S(1 / 256), U8(0)], (0,), {"axis": -1, "opset": 17}),
    "softmax, flattened": (
        "QLinearSoftmax",
        [X, S(0.0312), U8(120), S(1 / 256), U8(0)],
        (0,),
        {"axis": 2, "opset": 11},
    ),
    "average": ("QLinearAveragePool", ONE, (0,), POOL),
    "average, padding counts": ("QLinearAveragePool", ONE, (0,), POOL | {"count_include_pad": 1}),
    "average, channels last": ("QLinearAveragePool", ONE, (0,), POOL | {"channels_last": 1}),
    "global average": ("QLinearGlobalAveragePool", ONE, (0,), {"channels_last": 0}),
    "global average, channels last": ("QLinearGlobalAveragePool", ONE, (0,), {"channels_last": 1}),
    "max, channels last": ("NhwcMaxPool", [X], (0,), POOL | {"dilations": [1, 2], "ceil_mode": 1}),
    "max of int8, channels last": (
        "NhwcMaxPool",
        [X.view(I8)],
        (0,),
        {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"},
    ),
    "conv, channels last": (
        "QLinearConv",
        [X, S(0.0312), U8(120), FILTERS, SCALES[:4], np.zeros(4, I8), S(0.0517), U8(99), BIAS[:4]],
        (0,),
        {"channels_last": 1, "group": 1, "pads": [1, 1, 1, 1], "strides": [2, 1], "kernel_shape": [3, 3]},
    ),
    "conv of groups, channels last": (
        "QLinearConv",
        [X[..., :8], S(0.0312), U8(120), FILTERS[:, :2], S(0.01), I8(0), S(0.0517), U8(99)],
        (0,),
        {"channels_last": 1, "group": 4},
    ),
    "conv": (
        "QLinearConv",
        [X[:, :3].view(I8), S(0.0312), I8(12), FILTERS[:, :3], S(0.01), I8(0), S(0.0517), I8(9)],
        (0,),
        {},
    ),
    "concat": (
        "QLinearConcat",
        [S(0.0619), U8(99), X, S(0.0312), U8(120), Y, S(0.0517), U8(7)],
        (2, 5),
        {"axis": 1},
    ),
    "where": (
        "QLinearWhere",
        [X > 90, X, S(0.0312), U8(120), Y, S(0.0517), U8(7), S(0.0619), U8(99)],
        (0, 1, 4),
        {},
    ),
    "gemm": ("QGemm", [A, S(0.02), U8(120), B, S(0.01), I8(0), BIAS, S(0.0517), U8(99)], (0,), {}),
    "gemm, turned, for each channel": (
        "QGemm",
        [A, S(0.02), U8(120), np.ascontiguousarray(B.T), SCALES, np.zeros(8, I8), BIAS, S(0.02), U8(99)],
        (0,),
        {"transB": 1, "alpha": 0.5},
    ),
    "gemm of floats": ("QGemm", [A, S(0.02), U8(120), B, S(0.01), I8(3)], (0,), {}),
    "matmul to floats": (
        "MatMulIntegerToFloat",
        [A, B, S(0.02), SCALES, U8(120), np.zeros(8, I8), _RANDOM.standard_normal(8).astype(S)],
        (0,),
        {},
    ),
    "dynamic matmul": (
        "DynamicQuantizeMatMul",
        [_RANDOM.standard_normal((5, 12)).astype(S), B, SCALES, np.zeros(8, I8)],
        (0,),
        {},
    ),
    "quantize": ("QuantizeLinear", [np.linspace(-4, 4, 24, dtype=S).reshape(4, 6), S(0.0312), U8(120)], (0,), {}),
    "dequantize": ("DequantizeLinear", [X, S(0.0312), U8(120)], (0,), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_onnx_runtime(case: str) -> None:
    op, inputs, variable, attributes = CASES[case]
    arrays = [None if a is None else np.asarray(a) for a in inputs]
    proto = model(op, arrays, variable, **attributes)
    actual, expected = compared(proto, {f"i{n}": arrays[n] for n in variable})
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)
        return
    apart = np.abs(actual.astype(int) - expected.astype(int))
    assert apart.max() <= 1 and np.mean(apart > 0) < 0.01  # ties of the rounding


@pytest.mark.parametrize(
    ("axes", "keeps", "out"), [([2, 3], 1, (2, 6, 1, 1)), ([-1, 1], 0, (2, 7)), ([], 1, (1, 1, 1, 1))]
)
def test_mean(axes: list[int], keeps: int, out: tuple[int, ...]) -> None:
    """ONNX Runtime's schema has the operator, which none of its kernels compute."""
    scales = [np.asarray(v) for v in (S(0.0312), U8(120), S(0.0031), U8(100))]
    attributes = ({"axes": axes} if axes else {}) | {"keepdims": keeps}
    actual = np.asarray(rillet.compile(model("QLinearReduceMean", [X, *scales], (0,), **attributes), threads=1)(X))
    means = ((X.astype(float) - 120) * 0.0312).mean(tuple(axes) or None)
    expected = np.clip(np.round(means / 0.0031) + 100, 0, 255).reshape(out)
    assert actual.dtype == np.uint8 and actual.shape == out
    assert np.abs(actual.astype(int) - expected.astype(int)).max() <= 1


def test_absent_zero_points_are_zero() -> None:
    """Where ONNX Runtime does not take them, though its schema does."""
    x, scales = X.view(I8), [np.asarray(S(0.03)), np.asarray(S(1 / 256))]
    absent = rillet.compile(model("QLinearSigmoid", [x, scales[0], None, scales[1]], (0,)))(x)
    zero = np.asarray(I8(0))
    np.testing.assert_array_equal(
        absent, rillet.compile(model("QLinearSigmoid", [x, scales[0], zero, scales[1], zero], (0,)))(x)
    )
    assert np.asarray(absent).dtype == I8


def test_inputs_are_checked() -> None:
    with pytest.raises(CompileError, match="QLinearAdd 'n': input 'B_scale' is missing"):
        rillet.compile(model("QLinearAdd", [X, np.asarray(S(1)), None, Y], (0, 3)))
    with pytest.raises(CompileError, match="QLinearSigmoid 'n': it has 6 inputs; the op takes at most 5"):
        rillet.compile(model("QLinearSigmoid", [*map(np.asarray, ONE), np.asarray(S(1))], (0,)))
    wide = [X.astype(np.int32), np.asarray(S(1)), None, np.asarray(S(1))]
    with pytest.raises(CompileError, match="input 'X' is int32; the op takes uint8 and int8"):
        rillet.compile(model("QLinearSigmoid", wide, (0,)))


def test_attributes_that_are_not_known_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="attribute 'slope' is not implemented"):
        rillet.compile(model("QLinearLeakyRelu", list(map(np.asarray, ONE)), (0,), slope=1))
