"""Differences that rounding explains are told from others, ties included."""

from __future__ import annotations

import numpy as np
import onnx

from rillet.frontends.onnx.verification.oracles import run_reference

from .rounding import unstable


def _unstable(text: str, x: np.ndarray, actual: np.ndarray) -> bool:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]> {text}')
    feeds = {"x": x}
    oracle = run_reference(model, feeds)
    return unstable(model, feeds, [oracle], lambda m, f: [run_reference(m, f)], {"y": actual}, ["y"])


def test_a_tie_of_rounded_values_is_explained() -> None:
    text = "g (float16[4] x) => (int64[1] y) { s = Sigmoid (x) r = Sqrt (s) y = ArgMax <axis = 0> (r) }"
    x = np.array([1, 7.727, 13.55, -2], np.float16)  # roots of 0.9995 and of 1, half a place apart
    assert _unstable(text, x, np.array([1]))
    assert not _unstable(text, x, np.array([0]))


def test_a_tie_of_interpolated_numbers_is_explained() -> None:
    text = """g (float[1,1,7] x) => (float[1,1,10] y) <int64[3] n = {1, 1, 10}>
    { r = Resize <mode = "linear", coordinate_transformation_mode = "asymmetric"> (x, "", "", n) y = Round (r) }"""
    x = np.arange(7, dtype=np.float32).reshape(1, 1, 7)
    halves = x[..., 0] + 0.7 * np.arange(10)
    assert _unstable(text, x, np.array([[np.floor(halves + 0.5)]], np.float32).reshape(1, 1, 10))


def test_an_exact_tie_is_not() -> None:
    for x in ([1, 2, 2, -1], [0.3, 0.7, 0.7, 0.1]):
        for op in ("Identity", "Sigmoid"):
            text = f"g (float[4] x) => (int64[1] y) {{ s = {op} (x) y = ArgMax <axis = 0> (s) }}"
            assert not _unstable(text, np.array(x, np.float32), np.array([2]))


def test_a_difference_of_rounding_size_is_explained() -> None:
    text = "g (bfloat16[3] x) => (double[3] y) { s = HardSwish (x) y = Cast <to = 11> (s) }"
    x = np.array([0.3, -0.7, 2.1]).astype(onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.BFLOAT16))
    wide = x.astype(np.float64)
    exact = wide * np.clip(wide / 6 + 0.5, 0, 1)
    assert _unstable(text, x, exact)
    assert not _unstable(text, x, exact * 1.5)
