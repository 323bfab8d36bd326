"""Operators of ONNX Runtime without a kernel on the CPU, against numpy in double precision."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rillet
from rillet.errors import CompileError
from tests.support.contrib_models import contrib_model

_RANDOM = np.random.default_rng(12)
N, H, W, C, GROUPS = 2, 3, 5, 12, 4


def f32(*shape: int) -> np.ndarray:
    return _RANDOM.standard_normal(shape).astype(np.float32)


PARAMETERS = {"gamma": f32(C), "beta": f32(C)}
OPEN = {"x": ["N", "H", "W", C], "skip": ["N", "H", "W", C]}


def normalized(x: np.ndarray, silu: bool, epsilon: float) -> np.ndarray:
    """GroupNorm of [N, H, W, C]."""
    grouped = x.astype(np.float64).reshape(N, H, W, GROUPS, -1)
    mean, variance = (f((1, 2, 4), keepdims=True) for f in (grouped.mean, grouped.var))
    y = ((grouped - mean) / np.sqrt(variance + epsilon)).reshape(x.shape) * PARAMETERS["gamma"] + PARAMETERS["beta"]
    return y / (1 + np.exp(-y)) if silu else y


@pytest.mark.parametrize(("last", "silu", "half"), [(1, 0, False), (1, 1, False), (0, 1, False), (1, 1, True)])
def test_group_norm(last: int, silu: int, half: bool) -> None:
    x = (3 + 2 * f32(N, H, W, C)).astype(np.float16 if half else np.float32)
    expected = normalized(x, bool(silu), 1e-3)
    given = x if last else np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    inputs = {"x": given, **PARAMETERS}
    shapes = OPEN if last else {"x": ["N", C, "H", "W"]}
    # Channels come last by default.
    attributes = {} if last else {"channels_last": 0}
    proto = contrib_model("GroupNorm", inputs, shapes=shapes, known=list(PARAMETERS), groups=GROUPS, epsilon=1e-3,
                          activation=silu, **attributes)  # fmt: skip
    actual = rillet.compile(proto, threads=1).run({"x": given})["y"]
    assert actual.dtype == x.dtype
    actual = actual if last else actual.transpose(0, 2, 3, 1)
    np.testing.assert_allclose(actual, expected, rtol=2e-3 if half else 1e-5, atol=2e-3 if half else 2e-6)


@pytest.mark.parametrize(
    ("skip", "bias", "last"), [((N, H, W, C), True, 1), ((N, 1, 1, C), False, 1), ((N, C), True, 1), ((N, C), True, 0)]
)
def test_skip_group_norm(skip: tuple[int, ...], bias: bool, last: int) -> None:
    x, added, shift = f32(N, H, W, C), f32(*skip), f32(C)
    total = x + added.reshape((N, 1, 1, C) if len(skip) == 2 else skip) + (shift if bias else 0)
    expected = normalized(total, True, 1e-5)
    given = x if last else np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    inputs = {"x": given, **PARAMETERS, "skip": added, "bias": shift if bias else None}
    shapes = {"x": OPEN["x"]} if last else {"x": ["N", C, "H", "W"]}
    known = [*PARAMETERS, *(["bias"] if bias else [])]
    proto = contrib_model("SkipGroupNorm", inputs, ("y", "s"), shapes, known, groups=GROUPS, activation=1,
                          channels_last=last)  # fmt: skip
    results = rillet.compile(proto, threads=1).run({"x": given, "skip": added})
    y, s = (t if last else t.transpose(0, 2, 3, 1) for t in (results["y"], results["s"]))
    np.testing.assert_allclose(s, total, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=5e-6)


def test_gated_halves() -> None:
    inputs = {"x": f32(2, 3, 16), "bias": f32(16)}
    proto = contrib_model("BiasSplitGelu", inputs, shapes={"x": ["N", "S", 16]}, known=["bias"])
    left, right = np.split((inputs["x"] + inputs["bias"]).astype(np.float64), 2, -1)
    expected = left * right / 2 * (1 + np.vectorize(math.erf)(right / math.sqrt(2)))
    actual = rillet.compile(proto, threads=1).run({"x": inputs["x"]})["y"]
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("axis", "bias", "inner"), [(3, (2, 1, 1, 6), 1), (2, (4, 5, 6), 0), (-1, (1, 1, 1, 6), 0), (3, (2, 4, 5, 6), 1)]
)
def test_softmax_of_biased(axis: int, bias: tuple[int, ...], inner: int) -> None:
    inputs = {"x": f32(2, 4, 5, 6), "bias": f32(*bias)}
    proto = contrib_model("BiasSoftmax", inputs, shapes={"x": ["B", 4, "S", 6]}, axis=axis, is_inner_broadcast=inner)
    total = inputs["x"].astype(np.float64) + inputs["bias"]
    axes = tuple(range(axis % 4, 4))
    powers = np.exp(total - total.max(axes, keepdims=True))
    actual = rillet.compile(proto, threads=1).run(inputs)["y"]
    np.testing.assert_allclose(actual, powers / powers.sum(axes, keepdims=True), rtol=1e-5, atol=1e-7)


NORM = {"x": f32(N, H, W, C), **PARAMETERS}
REFUSED: dict[str, tuple] = {
    "groups": ("GroupNorm", NORM, {"groups": 5, "activation": 0}, "12 channels do not divide into 5 groups"),
    "no groups": ("GroupNorm", NORM, {"groups": 0, "activation": 0}, "12 channels do not divide into 0 groups"),
    "activation": ("GroupNorm", NORM, {"groups": 4, "activation": 2}, "activation is 2; it is 0"),
    "rank": ("GroupNorm", NORM | {"x": f32(2, 3, C)}, {"groups": 4, "activation": 0}, "rank 3, not 4"),
    "gamma": ("GroupNorm", NORM | {"gamma": f32(4)}, {"groups": 4, "activation": 0}, "input 'gamma' is .4., not .12."),
    "skip": (
        "SkipGroupNorm",
        NORM | {"skip": f32(N, 3)},
        {"groups": 4, "activation": 0},
        "input 'skip' is .2, 3., not",
    ),
    "odd": ("BiasSplitGelu", {"x": f32(2, 3, 5), "bias": f32(5)}, {}, "the last dimension is 5; it has two halves"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_cannot_be(name: str) -> None:
    operator, inputs, attributes, message = REFUSED[name]
    with pytest.raises(CompileError, match=rf"'n'.*{message}"):
        rillet.compile(contrib_model(operator, inputs, **attributes))
