"""Normalizations of ONNX Runtime's transformer optimizer against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

import rillet
from rillet.errors import CompileError, UnsupportedError
from tests.support.contrib_models import assert_close, contrib_model, run_both

_RANDOM = np.random.default_rng(3)


def f32(*shape: int) -> np.ndarray:
    return _RANDOM.standard_normal(shape).astype(np.float32)


WIDTH = 24
GAMMA, BETA, BIAS = f32(WIDTH), f32(WIDTH), f32(WIDTH)
SKIP = {"x": f32(2, 5, WIDTH), "skip": f32(2, 5, WIDTH), "gamma": GAMMA, "beta": BETA, "bias": BIAS}
SHAPES = {"x": ["B", "S", WIDTH], "skip": ["B", "S", WIDTH]}
KNOWN = ("gamma", "beta", "bias")
ALL = ("y", "", "", "sum")


def as_half(arrays: dict) -> dict:
    return {n: a if a is None else a.astype(np.float16) for n, a in arrays.items()}


CASES = {
    "skip": ("SkipLayerNormalization", SKIP, ALL, {"epsilon": 1e-5}),
    "skip of one sequence": ("SkipLayerNormalization", SKIP | {"skip": f32(1, 5, WIDTH), "beta": None}, ALL, {}),
    "skip of a matrix": ("SkipLayerNormalization", SKIP | {"skip": f32(5, WIDTH), "bias": None}, ("y",), {}),
    "simplified": ("SkipSimplifiedLayerNormalization", {n: a for n, a in SKIP.items() if n != "beta"}, ALL, {}),
    "simplified, rows": (
        "SkipSimplifiedLayerNormalization",
        {"x": f32(7, WIDTH), "skip": f32(7, WIDTH), "gamma": GAMMA},
        ALL,
        {"epsilon": 1e-3},
    ),
}


@pytest.mark.parametrize(("name", "half"), [*((name, False) for name in CASES), ("skip", True), ("simplified", True)])
def test_of_sums(name: str, half: bool) -> None:
    op, inputs, outputs, attributes = CASES[name]
    inputs = as_half(inputs) if half else inputs
    known = [n for n in KNOWN if inputs.get(n) is not None]
    shapes = {n: s if inputs[n].shape == (2, 5, WIDTH) else inputs[n].shape for n, s in SHAPES.items()}
    proto = contrib_model(op, inputs, outputs, shapes, known, **attributes)
    ((actual, expected),) = run_both(proto, inputs)
    assert_close(actual, expected, 4e-3 if half else 2e-6)


@pytest.mark.parametrize("half", [False, True])
def test_without_mean(half: bool) -> None:
    inputs = {"x": f32(3, 4, WIDTH), "scale": GAMMA}
    inputs = as_half(inputs) if half else inputs
    proto = contrib_model(
        "SimplifiedLayerNormalization", inputs, ("y",), {"x": ["B", "S", WIDTH]}, ("scale",), "", axis=-1, epsilon=1e-5
    )
    ((actual, expected),) = run_both(proto, inputs)
    assert_close(actual, expected, 2e-3 if half else 2e-6)
    with_root = contrib_model(
        "SimplifiedLayerNormalization", {"x": inputs["x"], "scale": f32(4, WIDTH)}, ("y", "root"), axis=1,
        dtypes={"root": np.float32, "y": np.float32},
    )  # fmt: skip
    results = rillet.compile(with_root).run({"x": inputs["x"], "scale": f32(4, WIDTH)})
    squares = (inputs["x"].astype(np.float64) ** 2).mean((1, 2), keepdims=True)
    assert results["root"].shape == (3, 1, 1)
    np.testing.assert_allclose(results["root"], 1 / np.sqrt(squares + 1e-5), rtol=1e-3)


def test_before_opset_17() -> None:
    inputs = {"x": f32(3, 4, WIDTH), "scale": GAMMA, "beta": BETA}
    proto = contrib_model("LayerNormalization", inputs, ("y",), {}, ("scale", "beta"), "", 12, epsilon=1e-6)
    ((actual, expected),) = run_both(proto, inputs)
    assert_close(actual, expected, 2e-6)


@pytest.mark.parametrize("form", ["all", "no segments, positions", "no mask"])
def test_of_embeddings(form: str) -> None:
    ids = _RANDOM.integers(0, 30, (2, 6)).astype(np.int32)
    mask = (np.arange(6) < [[6], [4]]).astype(np.int32)
    segments = "no segments" not in form
    inputs = {
        "ids": ids,
        "segments": ids % 2 if segments else None,
        "words": f32(30, WIDTH),
        "places": f32(16, WIDTH),
        "types": f32(2, WIDTH) if segments else None,
        "gamma": GAMMA,
        "beta": BETA,
        "mask": None if form == "no mask" else mask,
        "positions": ids[:1] % 16 if "positions" in form else None,
    }
    known = [n for n in ("words", "places", "types", "gamma", "beta") if inputs[n] is not None]
    outputs = ("y", "counts", "sum")
    shapes = {n: ["B", "S"] for n in ("ids", "segments", "mask")} | {"positions": [1, "S"]}
    proto = contrib_model(
        "EmbedLayerNormalization", inputs, outputs, shapes, known, dtypes={"y": np.float32, "sum": np.float32}
    )
    ((actual, expected),) = run_both(proto, inputs)
    assert_close(actual, expected, 2e-6)


def test_what_it_cannot_be() -> None:
    proto = contrib_model("SkipLayerNormalization", SKIP, ("y", "mean"))
    with pytest.raises(UnsupportedError, match=r"'n'.*statistics that training saves; export the model for inference"):
        rillet.compile(proto)
    proto = contrib_model("SkipLayerNormalization", SKIP | {"skip": f32(1, 2, 5, WIDTH)})
    with pytest.raises(CompileError, match=r"'n'.*an input of rank 3 and a skip of rank 4"):
        rillet.compile(proto)
    with pytest.raises(CompileError, match=r"'n': it has 2 inputs; the op takes 3 to 5"):
        rillet.compile(contrib_model("SkipLayerNormalization", {n: SKIP[n] for n in ("x", "skip")}))
    with pytest.raises(CompileError, match=r"'n': input 'skip' is missing"):
        rillet.compile(contrib_model("SkipLayerNormalization", SKIP | {"skip": None}))
    inputs = {"x": f32(3, WIDTH), "scale": GAMMA}
    with pytest.raises(UnsupportedError, match=r"'n'.*attribute 'bias' is not implemented"):
        rillet.compile(contrib_model("LayerNormalization", inputs, domain="", opset=12, bias=1))
    ids = np.zeros((2, 3), np.int32)
    inputs = {"i": ids, "s": ids, "w": f32(4, 8), "p": f32(4, 8), "t": None, "gamma": f32(8), "beta": f32(8)}
    with pytest.raises(CompileError, match=r"'n'.*segment_ids and segment_embedding come together"):
        rillet.compile(contrib_model("EmbedLayerNormalization", inputs, dtypes={"y": np.float32}))
