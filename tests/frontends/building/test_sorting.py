"""TopK and NonMaxSuppression: the order of extreme, equal and absent numbers, by insertion and by radix sort."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import rillet

_TYPES = {"float": np.float32, "double": np.float64, "int64": np.int64}
_FEW, _MANY, _LENGTH = 5, 40, 90


def _top_k(counts: tuple[int, ...]) -> rillet.Module:
    """Both orders of each type and each count; the results are v0, i0, v1, i1, ..."""
    cases = [(t, k, largest) for t in _TYPES for k in counts for largest in (0, 1)]
    inputs = ", ".join(f"{t}[n, {_LENGTH}] x_{t}" for t in _TYPES)
    outputs = ", ".join(f"{t}[n, {k}] v{j}, int64[n, {k}] i{j}" for j, (t, k, _) in enumerate(cases))
    constants = ", ".join(f"int64[1] k{k} = {{{k}}}" for k in counts)
    nodes = " ".join(f"v{j}, i{j} = TopK<largest = {a}>(x_{t}, k{k})" for j, (t, k, a) in enumerate(cases))
    text = f'<ir_version: 9, opset_import: ["": 21]> g ({inputs}) => ({outputs}) <{constants}> {{ {nodes} }}'
    return rillet.compile(onnx.parser.parse_model(text), threads=1, cache=False)


def _numbers(rng: np.random.Generator, dtype: type, rows: int) -> np.ndarray:
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        values = [info.min, info.max, info.max // 2, info.max // 2 + 1, 0, 1, 2, 255, 256, 1 << 40]
    else:
        values = [-np.inf, np.inf, -0.0, 0.0, np.nan, -np.nan, 1.0, 1.5, -1.0, -1.5, 6e-5, -6e-5]
    return rng.choice(np.array(values, dtype), (rows, _LENGTH))


def _order(x: np.ndarray, largest: int) -> np.ndarray:
    """Positions in order, the lower one first among equals; NaN is larger than any number."""
    ranks = np.searchsorted(np.unique(x), x)  # unique sorts NaN behind everything, and zeros are equal
    return np.argsort(-ranks if largest else ranks, axis=1, kind="stable")


def test_top_k_of_extremes() -> None:
    rng = np.random.default_rng(0)
    model = _top_k((_FEW, _MANY))
    for rows in (1, 3):
        arrays = {t: _numbers(rng, dtype, rows) for t, dtype in _TYPES.items()}
        results = iter(model(*arrays.values()))
        for x in arrays.values():
            for count in (_FEW, _MANY):
                for largest in (0, 1):
                    values, places = next(results), next(results)
                    expected = _order(x, largest)[:, :count]
                    np.testing.assert_array_equal(places, expected)
                    np.testing.assert_array_equal(values, np.take_along_axis(x, expected, 1))


def test_more_than_there_are() -> None:
    text = """<ir_version: 9, opset_import: ["": 21]> g (float[n] x) => (float[5] v, int64[5] i)
    <int64[1] k = {5}> { v, i = TopK (x, k) }"""
    model = rillet.compile(onnx.parser.parse_model(text), threads=1, cache=False)
    assert model(np.zeros(5, np.float32))[1].tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(rillet.RunError, match="5 elements are to be chosen of 4"):
        model(np.zeros(4, np.float32))


def test_fewer_than_none() -> None:
    text = """<ir_version: 9, opset_import: ["": 21]> g (float[n] x) => (float[m] v, int64[m] i)
    <int64[1] k = {-1}> { [t] v, i = TopK <sorted = 0> (x, k) }"""
    with pytest.raises(rillet.CompileError, match="'t': k is -1"):
        rillet.compile(onnx.parser.parse_model(text))


def test_boxes_below_the_threshold_take_no_part() -> None:
    text = """<ir_version: 9, opset_import: ["": 21]> g (float[1, n, 4] b, float[1, 2, n] s) => (int64[m, 3] y)
    <int64[1] most = {2}, float[1] overlap = {0.5}, float[1] least = {0.25}>
    { y = NonMaxSuppression (b, s, most, overlap, least) }"""
    model = rillet.compile(onnx.parser.parse_model(text), threads=1, cache=False)
    corners = np.arange(5, dtype=np.float32)[:, None] * 10 + np.array([0, 0, 4, 4], np.float32)
    scores = np.array([[0.25, 0.3, np.nan, 0.9, 0.4], [0.1, -np.inf, 0.2, 0.25, 0.0]], np.float32)
    assert model(corners[None], scores[None]).tolist() == [[0, 0, 3], [0, 0, 4]]
