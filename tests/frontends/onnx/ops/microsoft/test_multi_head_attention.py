"""Attention and MultiHeadAttention of ONNX Runtime's optimizers, against ONNX Runtime and against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rillet
from rillet.errors import CompileError, RunError, UnsupportedError
from tests.support.contrib_models import assert_close, contrib_model, run_both

_RANDOM = np.random.default_rng(6)
HEADS, WIDTH = 3, 8
HIDDEN = HEADS * WIDTH


def f32(*shape: int) -> np.ndarray:
    return _RANDOM.standard_normal(shape).astype(np.float32)


def i32(values: Any) -> np.ndarray:
    return np.asarray(values, np.int32)


def softmax_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, added: np.ndarray, scale: float) -> np.ndarray:
    """Attention of [B, N, S, D] to [B, N, T, D] as [B, S, N x D], in double precision."""
    scores = scale * (q.astype(np.float64) @ k.swapaxes(2, 3).astype(np.float64)) + added
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    result = powers / powers.sum(-1, keepdims=True) @ v.astype(np.float64)
    return result.swapaxes(1, 2).reshape(*q.shape[::2][:1], q.shape[2], -1)


def split(x: np.ndarray) -> np.ndarray:
    return x.reshape(*x.shape[:2], HEADS, -1).swapaxes(1, 2)


def causal(queries: int, keys: int) -> np.ndarray:
    return np.where(np.arange(keys) > np.arange(queries)[:, None] + keys - queries, -np.inf, 0)


# --- MultiHeadAttention ---

B, S, T = 2, 5, 7
QKV = {"q": f32(B, S, HIDDEN), "k": f32(B, T, HIDDEN), "v": f32(B, T, HIDDEN)}
SELF = {"q": f32(B, S, HIDDEN), "k": f32(B, S, HIDDEN), "v": f32(B, S, HIDDEN)}
NONE = dict.fromkeys(["bias", "mask", "added", "past_key", "past_value"])
PAST = {"past_key": f32(B, HEADS, 4, WIDTH), "past_value": f32(B, HEADS, 4, WIDTH)}
BIAS = f32(3 * HIDDEN)
DYNAMIC = {
    "q": ["B", "S", HIDDEN], "k": ["B", "T", HIDDEN], "v": ["B", "T", HIDDEN], "mask": ["B", "T"],
    "past_key": ["B", HEADS, "P", WIDTH], "past_value": ["B", HEADS, "P", WIDTH],
}  # fmt: skip
PADDED = i32([[1] * 7, [1, 1, 1, 0, 1, 0, 0]])
ONE, ALL = ("y",), ("y", "present_key", "present_value")

# Name → inputs, outputs, declared shapes, attributes.
MULTI_HEAD: dict[str, tuple] = {
    "bias and mask": (
        QKV | NONE | {"bias": BIAS, "mask": PADDED},
        ONE,
        DYNAMIC,
        {"mask_filter_value": -3.0, "scale": 0.2},
    ),
    "wider values, lengths": (
        QKV | NONE | {"v": f32(B, T, 2 * HIDDEN), "mask": i32([7, 4])},
        ONE,
        {"mask": ["lengths"]},
        {},
    ),
    "mask of queries, added": (
        QKV | NONE | {"mask": i32(_RANDOM.random((B, S, T)) < 0.7), "added": f32(B, HEADS, S, T)},
        ONE,
        {},
        {},
    ),
    "past": (
        SELF | NONE | PAST | {"mask": i32(np.arange(9) < [[9], [8]])},
        ALL,
        DYNAMIC | {n: ["B", "S", HIDDEN] for n in "kv"},
        {"unidirectional": 1},
    ),
    "cross": (
        {"q": f32(B, S, HIDDEN), "k": f32(B, HEADS, T, WIDTH), "v": f32(B, HEADS, T, WIDTH), "bias": BIAS},
        ONE,
        {n: ["B", HEADS, "T", WIDTH] for n in "kv"},
        {},
    ),
}


@pytest.mark.parametrize("name", MULTI_HEAD)
def test_multi_head_attention(name: str) -> None:
    inputs, outputs, shapes, attributes = MULTI_HEAD[name]
    proto = contrib_model(
        "MultiHeadAttention", inputs, outputs, shapes, [n for n in ("bias",) if inputs.get(n) is not None],
        num_heads=HEADS, **attributes,
    )  # fmt: skip
    ((actual, expected),) = run_both(proto, inputs)
    assert_close(actual, expected, 2e-6)
    if name == "past":
        keys, values = (np.concatenate([PAST[f"past_{n}"], split(SELF[n[0]])], 2) for n in ("key", "value"))
        added = causal(S, 9) + np.where(inputs["mask"], 0, -10000)[:, None, None]
        reference = softmax_attention(split(SELF["q"]), keys, values, added, WIDTH**-0.5)
        np.testing.assert_allclose(actual["y"], reference, rtol=1e-5, atol=1e-6)
        assert np.array_equal(actual["present_key"], keys) and np.array_equal(actual["present_value"], values)


@pytest.mark.parametrize("form", ["all", "keys and values"])
def test_packed(form: str) -> None:
    """What ONNX Runtime has for other processors only."""
    keys, values = (t.reshape(B, T, HEADS, 1, WIDTH) for t in (QKV["k"], QKV["v"]))
    queries = QKV["q"] if form != "all" else f32(B, T, HEADS, 1, WIDTH)
    packed = (
        {"q": queries, "k": np.concatenate([keys, values], 3)}
        if form != "all"
        else {"q": np.concatenate([queries, keys, values], 3)}
    )
    actual = rillet.compile(contrib_model("MultiHeadAttention", packed, num_heads=HEADS), threads=1).run(packed)["y"]
    q = split(queries.reshape(B, -1, HIDDEN))
    expected = softmax_attention(q, split(QKV["k"]), split(QKV["v"]), np.zeros(()), WIDTH**-0.5)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


# --- Attention ---

PROJECTION = {"x": f32(B, S, 10), "w": f32(10, 3 * HIDDEN) / 3, "c": BIAS}
X = {"x": ["B", "S", 10]}
STATE = f32(2, B, HEADS, 4, WIDTH)
UNEVEN = {"x": f32(B, S, 10), "w": f32(10, 2 * HIDDEN + HEADS * 5) / 3, "c": f32(2 * HIDDEN + HEADS * 5)}
ATTENTION: dict[str, tuple] = {
    "lengths": (PROJECTION | {"c": None, "mask": i32([5, 3])}, ONE, X | {"mask": ["B"]}, {"scale": 0.4}),
    "ends and starts": (
        PROJECTION | {"mask": i32([5, 4, 0, 2]), "past": None, "added": f32(B, HEADS, S, S)},
        ONE,
        {},
        {"mask_filter_value": -100.0},
    ),
    "past": (
        PROJECTION | {"mask": i32(np.arange(9) < [[9], [8]]), "past": STATE},
        ("y", "present"),
        X | {"past": [2, "B", HEADS, "P", WIDTH]},
        {"unidirectional": 1},
    ),
    "uneven": (UNEVEN, ONE, X, {"qkv_hidden_sizes": [HIDDEN, HIDDEN, HEADS * 5], "unidirectional": 1}),
}


@pytest.mark.parametrize("name", ATTENTION)
def test_attention(name: str) -> None:
    inputs, outputs, shapes, attributes = ATTENTION[name]
    known = [n for n in ("w", "c") if inputs[n] is not None]
    proto = contrib_model("Attention", inputs, outputs, shapes, known, num_heads=HEADS, **attributes)
    ((actual, expected),) = run_both(proto, inputs)
    assert_close(actual, expected, 2e-6)


def _past(batch: int, new: int, old: int, bias: int) -> dict[str, np.ndarray | None]:
    """Of MultiHeadAttention; ``bias`` of that many sequences."""
    inputs = {n: f32(batch, new, HIDDEN) for n in "qkv"} | NONE
    inputs["mask"] = i32(_RANDOM.random((batch, old + new)) < 0.7)
    inputs["added"] = f32(bias, 1 if bias == 1 else HEADS, new, old + new)
    return inputs | {n: f32(batch, HEADS, old, WIDTH) for n in PAST}


def _starts(batch: int, new: int, old: int, marks: int) -> dict[str, np.ndarray | None]:
    """Of Attention; the mask has ``marks`` numbers for each sequence: ends, and starts."""
    ends = _RANDOM.integers(old + 1, old + new + 1, batch)
    mask = np.concatenate([ends, _RANDOM.integers(0, old + 1, batch)])[: marks * batch]
    return PROJECTION | {"x": f32(batch, new, 10), "mask": i32(mask), "past": f32(2, batch, HEADS, old, WIDTH)}


# Sequences, new positions, old ones, and the last argument of the functions above.
LENGTHS = [(2, 5, 3, 1), (3, 1, 33, 2), (1, 1, 16, 1), (2, 20, 0, 2)]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("op", ["MultiHeadAttention", "Attention"])
def test_every_dimension_is_dynamic(op: str, threads: int) -> None:
    """Nothing says which dimensions are equal, nor which are 1."""
    make = _past if op == "MultiHeadAttention" else _starts
    feeds = [
        make(batch, new, old, batch if op != "Attention" and last == 2 else last) for batch, new, old, last in LENGTHS
    ]
    fixed = (
        {n: range(4) for n in ("w", "c")} | {n: (2,) for n in "qkvx"} | {n: (1, 3) for n in PAST} | {"past": (0, 2, 4)}
    )
    shapes = {
        n: [d if axis in fixed.get(n, ()) else f"{n}_{axis}" for axis, d in enumerate(a.shape)]
        for n, a in feeds[0].items()
        if a is not None
    }
    outputs = ALL if op == "MultiHeadAttention" else ("y", "present")
    proto = contrib_model(op, feeds[0], outputs, shapes, [], num_heads=HEADS, unidirectional=1)
    for actual, expected in run_both(proto, *feeds, threads=threads):
        assert_close(actual, expected, 2e-6)
    wrong = feeds[0] | ({"added": f32(3, 1, 5, 8)} if op == "MultiHeadAttention" else {"mask": i32([4, 4, 4])})
    message = (
        "'attention_bias' is 3, not 2 or 1" if op == "MultiHeadAttention" else "mask has 3 numbers, for 2 sequences"
    )
    module = rillet.compile(proto, threads=threads)
    with pytest.raises(RunError, match=message):
        module.run({n: a for n, a in wrong.items() if a is not None})


def test_half() -> None:
    """In half precision within the rounding of its inputs and of what passes between the products."""
    halves = {n: a.astype(np.float16) for n, a in QKV.items()}
    proto = contrib_model("MultiHeadAttention", halves, ONE, DYNAMIC, num_heads=HEADS)
    actual = rillet.compile(proto, threads=1).run(halves)["y"]
    expected = softmax_attention(*(split(halves[n]) for n in "qkv"), np.zeros(()), WIDTH**-0.5)
    assert actual.dtype == np.float16
    assert np.abs(actual - expected).max() <= 2e-3 * np.abs(expected).max()


REFUSED: dict[str, tuple] = {
    "heads": ("MultiHeadAttention", QKV, {"num_heads": 5}, "the query is 24 wide, which 5 heads do not divide"),
    "shared buffer": ("Attention", PROJECTION, {"num_heads": 3, "past_present_share_buffer": 1}, "present share"),
    "rotation": ("Attention", PROJECTION, {"num_heads": 3, "do_rotary": 1}, "do_rotary; rotate with RotaryEmbedding"),
    "sizes": ("Attention", PROJECTION, {"num_heads": 3, "qkv_hidden_sizes": [8, 8, 8]}, "the weights have 72 columns"),
    "mask": ("MultiHeadAttention", QKV | NONE | {"mask": i32([0] * 8)}, {"num_heads": 3}, "a mask of one dimension"),
    "unpacked": ("MultiHeadAttention", {"q": f32(B, S, HIDDEN)}, {"num_heads": 3}, "key and value are missing"),
    "half a past": ("MultiHeadAttention", QKV | NONE | PAST | {"past_value": None}, {"num_heads": 3}, "come together"),
    "keys of a bias": ("MultiHeadAttention", QKV | NONE | {"added": f32(1, 1, S, 8)}, {"num_heads": 3}, "5, 8., not"),
    "keys of a mask": ("MultiHeadAttention", QKV | NONE | {"mask": PADDED[:, :6]}, {"num_heads": 3}, "not .2, 7"),
    "no heads": ("MultiHeadAttention", QKV, {"num_heads": 0}, "num_heads is 0"),
    "short bias": ("MultiHeadAttention", QKV | NONE | {"bias": BIAS[:-1]}, {"num_heads": 3}, "is .71., not .72"),
    "bias": ("MultiHeadAttention", QKV | NONE | {"added": f32(S, T)}, {"num_heads": 3}, "is .5, 7., not"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_cannot_be(name: str) -> None:
    op, inputs, attributes, message = REFUSED[name]
    with pytest.raises((CompileError, UnsupportedError), match=rf"'n'.*{message}"):
        rillet.compile(contrib_model(op, inputs, **attributes))


def test_scores_are_no_output() -> None:
    with pytest.raises(UnsupportedError, match=r"'n'.*the scores as an output; remove output 'qk'"):
        rillet.compile(contrib_model("MultiHeadAttention", QKV, (*ALL, "qk"), num_heads=HEADS))
