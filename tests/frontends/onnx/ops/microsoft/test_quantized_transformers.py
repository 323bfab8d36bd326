"""QAttention and QEmbedLayerNormalization against ONNX Runtime, whose sums saturate unless weights are small."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rillet
from rillet.errors import CompileError, UnsupportedError
from tests.support.contrib_models import assert_close, contrib_model, run_both

_RANDOM = np.random.default_rng(8)
HEADS, WIDTH, B, S, INPUTS = 3, 8, 2, 5, 10
COLUMNS = 3 * HEADS * WIDTH


def scalar(value: float, dtype: type = np.float32) -> np.ndarray:
    return np.asarray(value, dtype)


def i32(values: Any) -> np.ndarray:
    return np.asarray(values, np.int32)


# --- QAttention ---


def attention(weights: type = np.int8, per_column: bool = False, **changed: np.ndarray | None) -> dict:
    middle = 0 if weights is np.int8 else 128
    parameters = (COLUMNS,) if per_column else ()
    return {
        "x": _RANDOM.integers(0, 256, (B, S, INPUTS)).astype(np.uint8),
        "w": (middle + _RANDOM.integers(-60, 61, (INPUTS, COLUMNS))).astype(weights),
        "c": _RANDOM.standard_normal(COLUMNS).astype(np.float32),
        "x_scale": scalar(0.02),
        "w_scale": _RANDOM.uniform(0.002, 0.01, parameters).astype(np.float32),
        "mask": None,
        "x_zero": scalar(120, np.uint8),
        "w_zero": np.full(parameters, middle, weights),
        "past": None,
    } | changed


CONSTANTS = ("w", "c", "x_scale", "w_scale", "x_zero", "w_zero")
OPEN = {"x": ["B", "S", INPUTS]}
STATE = _RANDOM.standard_normal((2, B, HEADS, 4, WIDTH)).astype(np.float32)

# Name → inputs, outputs, declared shapes, attributes.
ATTENTION: dict[str, tuple] = {
    "plain": (attention(), ("y",), OPEN, {}),
    "a scale for each column, causal": (attention(per_column=True), ("y",), OPEN, {"unidirectional": 1}),
    "unsigned weights, lengths": (attention(np.uint8, mask=i32([5, 3])), ("y",), OPEN | {"mask": ["B"]}, {}),
    "past": (
        attention(mask=i32(np.arange(9) < [[9], [8]]), past=STATE),
        ("y", "present"),
        OPEN | {"mask": ["B", "T"], "past": [2, "B", HEADS, "P", WIDTH]},
        {"unidirectional": 1},
    ),
    "no zero points": (attention(x_zero=None, w_zero=None, x_scale=scalar(0.004)), ("y",), {}, {}),
    "mask filter": (attention(mask=i32([[1, 1, 0, 1, 1]] * B)), ("y",), {}, {"mask_filter_value": -3.0, "scale": 0.2}),
}


@pytest.mark.parametrize("name", ATTENTION)
def test_quantized_attention(name: str) -> None:
    inputs, outputs, shapes, attributes = ATTENTION[name]
    known = [n for n in CONSTANTS if inputs[n] is not None]
    proto = contrib_model(
        "QAttention", inputs, outputs, shapes, known, dtypes=dict.fromkeys(outputs, np.float32), num_heads=HEADS,
        **attributes,
    )  # fmt: skip
    ((actual, expected),) = run_both(proto, inputs)
    assert_close(actual, expected, 3e-6)


def test_zero_points_of_columns() -> None:
    """Which ONNX Runtime's schema has, and its kernel refuses."""
    inputs = attention(per_column=True)
    inputs["w_zero"] = _RANDOM.integers(-9, 10, COLUMNS).astype(np.int8)
    shifted = inputs | {"w": (inputs["w"].astype(int) - inputs["w_zero"]).astype(np.int8), "w_zero": None}
    results = [
        rillet.compile(
            contrib_model(
                "QAttention", given, known=[n for n in CONSTANTS if given[n] is not None], dtypes={"y": np.float32},
                num_heads=HEADS,
            ),
            threads=1,
        ).run({"x": given["x"]})["y"]
        for given in (inputs, shifted)
    ]  # fmt: skip
    np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-6)


# --- QEmbedLayerNormalization ---


def embeddings(dtype: type, segments: bool, mask: bool) -> dict:
    ids = i32(_RANDOM.integers(0, 30, (2, 6)))
    middle = 0 if dtype is np.int8 else 128
    tables = {name: rows for name, rows in (("words", 30), ("places", 16), ("types", 2))}
    quantized: dict[str, np.ndarray | None] = {
        name: (middle + _RANDOM.integers(-100, 100, (rows, 24))).astype(dtype) for name, rows in tables.items()
    } | {name: (middle + _RANDOM.integers(-100, 100, 24)).astype(dtype) for name in ("gamma", "beta")}
    scales = {f"{name}_scale": scalar(0.01 + 0.003 * n) for n, name in enumerate(quantized)}
    zeros = {f"{name}_zero": scalar(middle + n - 2, dtype) for n, name in enumerate(quantized)}
    inputs = {"ids": ids, "segments": ids % 2, **quantized, "mask": i32(np.arange(6) < [[6], [4]]), **scales, **zeros}
    absent = ["segments", "types", "types_scale", "types_zero"] * (not segments) + ["mask"] * (not mask)
    return inputs | dict.fromkeys(absent)


@pytest.mark.parametrize(
    ("dtype", "segments", "mask"), [(np.uint8, True, True), (np.int8, True, False), (np.uint8, False, True)]
)
def test_quantized_embeddings(dtype: type, segments: bool, mask: bool) -> None:
    inputs = embeddings(dtype, segments, mask)
    known = [n for n, a in inputs.items() if a is not None and n not in ("ids", "segments", "mask")]
    shapes = {n: ["B", "S"] for n in ("ids", "segments", "mask")}
    proto = contrib_model(
        "QEmbedLayerNormalization", inputs, ("y", "counts"), shapes, known, dtypes={"y": np.float32}, epsilon=1e-5
    )
    ((actual, expected),) = run_both(proto, inputs)
    assert_close(actual, expected, 3e-6)


# --- refusals ---

REFUSED: dict[str, tuple] = {
    "shared buffer": ("QAttention", attention(), {"num_heads": 3, "past_present_share_buffer": 1}, "present share"),
    "rotation": ("QAttention", attention(), {"num_heads": 3, "do_rotary": 1}, "do_rotary; rotate with RotaryEmbedding"),
    "no heads": ("QAttention", attention(), {"num_heads": 0}, "num_heads is 0"),
    "bias": ("QAttention", attention(c=np.zeros(8, np.float32)), {"num_heads": 3}, "input 'bias' is .8., not .72"),
    "scale": ("QAttention", attention(w_scale=np.ones(8, np.float32)), {"num_heads": 3}, "of the weights' is .8., not"),
    "floats": ("QAttention", attention(x=np.ones((2, 3, 10), np.float32)), {"num_heads": 3}, "'X' is float32; the op"),
    "half": ("QEmbedLayerNormalization", embeddings(np.int8, True, True) | {"types_scale": None}, {}, "come together"),
    "table": ("QEmbedLayerNormalization", embeddings(np.int8, True, True) | {"words": None}, {}, "'W' is missing"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_cannot_be(name: str) -> None:
    operator, inputs, attributes, message = REFUSED[name]
    with pytest.raises((CompileError, UnsupportedError), match=rf"'n'.*{message}"):
        rillet.compile(contrib_model(operator, inputs, dtypes={"y": np.float32}, **attributes))
