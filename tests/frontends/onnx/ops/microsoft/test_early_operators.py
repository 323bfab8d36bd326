"""Operators that ONNX Runtime had before ONNX did, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rillet
from rillet.errors import CompileError, UnsupportedError
from tests.support.contrib_models import assert_close, contrib_model, run_both

_RANDOM = np.random.default_rng(11)


def f32(*shape: int) -> np.ndarray:
    return _RANDOM.standard_normal(shape).astype(np.float32)


def i64(*values: Any) -> np.ndarray:
    return np.asarray(values, np.int64)


def scalar(value: float, dtype: type = np.int64) -> np.ndarray:
    return np.asarray(value, dtype)


# Name → operator, inputs, declared shapes, constants, attributes.
CASES: dict[str, tuple] = {
    "upper triangle": ("Trilu", {"x": f32(2, 4, 6)}, {"x": ["B", "R", "C"]}, [], {}),
    "lower triangle": ("Trilu", {"x": f32(5, 4), "k": scalar(-1)}, {}, [], {"upper": 0}),
    "gather": ("GatherND", {"x": f32(3, 4, 5), "at": i64([0, -1], [2, 1])}, {"x": ["A", "B", "C"]}, [], {}),
    "gather, int32": ("GatherND", {"x": f32(3, 4), "at": np.asarray([[[1, 2]], [[0, 3]]], np.int32)}, {}, [], {}),
    "range": ("Range", {n: scalar(v, np.int32) for n, v in (("a", 2), ("b", 11), ("d", 3))}, {}, [], {}),
    "range of floats, down": ("Range", {n: scalar(v, np.float32) for n, v in (("a", 2), ("b", -1), ("d", -0.4))},
                              {}, [], {}),
    "range of vectors, step 1": ("Range", {"a": i64(-2), "b": i64(4)}, {}, [], {}),
    "range of short integers": ("Range", {"a": scalar(3, np.int16), "b": scalar(7, np.int16)}, {}, ["a", "b"], {}),
    "pad": ("Pad", {"x": f32(3, 4), "pads": i64(1, 0, 2, 3), "v": scalar(0.5, np.float32)}, {"x": ["A", "B"]}, [], {}),
    "pad by a row": ("Pad", {"x": f32(3, 4), "pads": i64([1, -1, 0, 2]), "v": np.float32([2])}, {}, ["pads"], {}),
    "reflect": ("Pad", {"x": f32(3, 4), "pads": i64(1, 2, 2, 1)}, {}, ["pads"], {"mode": "reflect"}),
    "edge": ("Pad", {"x": f32(3, 4), "pads": i64(1, 2, 2, 1)}, {"x": ["A", 4]}, ["pads"], {"mode": "edge"}),
    "expand": ("ExpandDims", {"x": f32(3, 4), "axis": scalar(1, np.int32)}, {"x": ["A", "B"]}, ["axis"], {}),
    "expand at the end": ("ExpandDims", {"x": f32(3, 4), "axis": scalar(-1, np.int32)}, {}, ["axis"], {}),
    "sample": ("GridSample", {"x": f32(2, 3, 5, 4), "grid": f32(2, 3, 6, 2)}, {"x": ["N", 3, "H", "W"]}, [], {}),
    "sample, cubic": ("GridSample", {"x": f32(1, 2, 5, 4), "grid": f32(1, 3, 6, 2)}, {}, [],
                      {"mode": "bicubic", "padding_mode": "border", "align_corners": 1}),
    "sample, nearest": ("GridSample", {"x": f32(1, 2, 5, 4), "grid": f32(1, 3, 6, 2)}, {}, [],
                        {"mode": "nearest", "padding_mode": "reflection"}),
    "distance": ("CDist", {"a": f32(5, 7), "b": f32(4, 7)}, {"a": ["M", "K"], "b": ["N", "K"]}, [],
                 {"metric": "euclidean"}),
    "squares of distances": ("CDist", {"a": f32(9, 3), "b": f32(33, 3)}, {}, ["b"], {"metric": "sqeuclidean"}),
    "distance of doubles": ("CDist", {"a": f32(9, 3).astype(float), "b": f32(3, 3).astype(float)}, {}, [],
                            {"metric": "euclidean"}),
    "int16": ("MatMulInteger16", {n: _RANDOM.integers(-9000, 9000, s, np.int16) for n, s in
                                  (("a", (2, 3, 5)), ("b", (5, 4)))}, {"a": ["B", "M", 5]}, [], {}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_onnx_runtime(case: str) -> None:
    operator, inputs, shapes, known, attributes = CASES[case]
    dtypes = {"y": np.int32} if operator == "MatMulInteger16" else {}
    proto = contrib_model(operator, inputs, shapes=shapes, known=known, dtypes=dtypes, **attributes)
    ((actual, expected),) = run_both(proto, inputs)
    assert_close(actual, expected, 2e-6 if expected["y"].dtype.kind == "f" else 0)


def test_unique_elements_come_in_order_of_appearance() -> None:
    x = np.float32([2, 1, 1, 3, 4, 3, 2, -1])
    types = {"idx": np.int64, "counts": np.int64}
    proto = contrib_model("Unique", {"x": x}, ("y", "idx", "counts"), {"x": ["N"]}, dtypes=types)
    for actual, expected in run_both(proto, {"x": x}, {"x": x[:3]}):
        assert_close(actual, expected, 0)


def test_close_rows_have_a_distance() -> None:
    """ONNX Runtime's own, by way of the product, is 0 or far off."""
    a = np.float32([[1000, 1000]])
    b = a + np.float32([[0.125, 0]])
    proto = contrib_model("CDist", {"a": a, "b": b}, metric="euclidean")
    assert rillet.compile(proto, threads=1).run({"a": a, "b": b})["y"] == np.float32(0.125)


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "error", "message"),
    [
        ("CDist", {"a": f32(2, 3), "b": f32(2, 3)}, {"metric": "cosine"}, UnsupportedError, "metric 'cosine'; use"),
        ("CDist", {"a": f32(2, 3), "b": f32(2, 4)}, {}, CompileError, "input 'B' is .*4.*, not .*3"),
        ("Unique", {"x": f32(2, 3)}, {}, CompileError, "rank 2, not 1"),
        ("Pad", {"x": f32(2, 3), "p": i64([[1, 1, 1, 1]])[None]}, {}, CompileError, "the pads have rank"),
        ("Pad", {"x": f32(2, 3), "p": i64(1, 1, 1)}, {}, CompileError, "input 'pads' is"),
        ("ExpandDims", {"x": f32(2), "axis": scalar(1, np.int32)}, {}, UnsupportedError, "axis must be known"),
    ],
)  # fmt: skip
def test_refusals(operator: str, inputs: dict, attributes: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"'n'.*{message}"):
        rillet.compile(contrib_model(operator, inputs, **attributes), threads=1)
