"""GroupQueryAttention of ONNX Runtime, against ONNX Runtime and against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rillet
from rillet.errors import CompileError, RunError, UnsupportedError
from tests.support.contrib_models import assert_close, contrib_model, run_both
from tests.support.importing import import_model

_RANDOM = np.random.default_rng(9)
HEADS, GROUPS, WIDTH = 6, 2, 16
OUTPUTS = ("y", "key", "value")
ANGLES = _RANDOM.uniform(-3, 3, (40, WIDTH // 2)).astype(np.float32)
CACHES = {"cos": np.cos(ANGLES), "sin": np.sin(ANGLES)}
DYNAMIC = {
    "q": ["B", "S", HEADS * WIDTH], "k": ["B", "S", GROUPS * WIDTH], "v": ["B", "S", GROUPS * WIDTH],
    "past_key": ["B", GROUPS, "P", WIDTH], "past_value": ["B", GROUPS, "P", WIDTH], "lens": ["B"],
}  # fmt: skip
COUNTS = {"num_heads": HEADS, "kv_num_heads": GROUPS}


def f32(*shape: int) -> np.ndarray:
    return _RANDOM.standard_normal(shape).astype(np.float32)


def inputs_of(batch: int, new: int, room: int, lengths: list[int], **more: Any) -> dict[str, np.ndarray | None]:
    """Sequences of ``lengths``, ``new`` positions of each new; a past of ``room`` positions."""
    inputs: dict[str, np.ndarray | None] = {
        "q": f32(batch, new, HEADS * WIDTH),
        "k": f32(batch, new, GROUPS * WIDTH),
        "v": f32(batch, new, GROUPS * WIDTH),
        "past_key": f32(batch, GROUPS, room, WIDTH),
        "past_value": f32(batch, GROUPS, room, WIDTH),
        "lens": np.array(lengths, np.int32) - 1,
        "total": np.array(max(lengths), np.int32),
        **dict.fromkeys(["cos", "sin", "positions", "added", "sink", "ks", "vs", "q_norm", "k_norm", "q_lens"]),
    }
    return inputs | more


def model(inputs: dict[str, Any], shapes: dict | None = None, **attributes: Any) -> Any:
    known = [n for n in ("cos", "sin", "sink", "q_norm", "k_norm") if inputs.get(n) is not None]
    return contrib_model("GroupQueryAttention", inputs, OUTPUTS, shapes, known, **(COUNTS | attributes))


def valid(results: dict[str, np.ndarray], lengths: list[int], new: int) -> dict[str, np.ndarray]:
    """The results without what is unspecified: queries and cached positions behind a sequence's end."""
    queries = np.array([min(new, n) for n in lengths])[:, None]
    seen = np.arange(results["key"].shape[2]) < np.array(lengths)[:, None]
    clean = {n: np.where(seen[:, None, :, None], results[n], 0) for n in ("key", "value")}
    return clean | {"y": np.where((np.arange(new) < queries)[:, :, None], results["y"], 0)}


def reference(inputs: dict[str, Any], lengths: list[int], **at: Any) -> dict[str, np.ndarray]:
    """What the operator computes, sequence by sequence and query by query, in double precision."""
    new = inputs["q"].shape[1]
    room = max(inputs["past_key"].shape[2], max(lengths))
    result = np.zeros((len(lengths), new, HEADS, WIDTH))
    present = {n: np.zeros((len(lengths), GROUPS, room, WIDTH)) for n in ("key", "value")}
    for b, length in enumerate(lengths):
        count = min(new, length) if inputs["q_lens"] is None else inputs["q_lens"][b]
        old = length - count
        q = _head_wise(inputs["q"][b], inputs["q_norm"], old, at)
        k = _head_wise(inputs["k"][b], inputs["k_norm"], old, at)
        for name, own in (("key", k), ("value", inputs["v"][b].reshape(new, GROUPS, WIDTH))):
            present[name][b, :, :old] = inputs[f"past_{name}"][b, :, :old]
            present[name][b, :, old:length] = own[:count].swapaxes(0, 1)
        for s in range(count):
            last = old + s + 1 if at.get("causal", 1) else length
            first = max(0, last - at["local_window_size"]) if "local_window_size" in at else 0
            for n in range(HEADS):
                keys, values = (present[t][b, n // (HEADS // GROUPS), first:last] for t in ("key", "value"))
                scores = at.get("scale", WIDTH**-0.5) * (keys @ q[s, n])
                scores = at["softcap"] * np.tanh(scores / at["softcap"]) if "softcap" in at else scores
                if inputs["added"] is not None:
                    scores = scores + inputs["added"][0, n % inputs["added"].shape[1], s, first:last]
                sink = inputs["sink"][n] if inputs["sink"] is not None else 0.0 if "smooth_softmax" in at else -np.inf
                powers = np.exp(scores)
                result[b, s, n] = powers @ values / (powers.sum() + np.exp(sink))
    return {"y": result.reshape(len(lengths), new, -1), **present}


def _head_wise(x: np.ndarray, norm: np.ndarray | None, old: int, at: dict[str, Any]) -> np.ndarray:
    """[sequence, heads, width], normalized and rotated as told."""
    x = x.astype(np.float64).reshape(x.shape[0], -1, WIDTH)
    if norm is not None:
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + at.get("qk_norm_epsilon", 1e-6)) * norm
    if not at.get("do_rotary"):
        return x
    half = WIDTH // 2
    turn = np.exp(1j * ANGLES[old : old + x.shape[0], None].astype(np.float64))
    if at.get("rotary_interleaved"):
        product = (x[..., 0::2] + 1j * x[..., 1::2]) * turn
        return np.stack([product.real, product.imag], -1).reshape(x.shape)
    product = (x[..., :half] + 1j * x[..., half:]) * turn
    return np.concatenate([product.real, product.imag], -1)


# Name → batch, new positions, room of the past, lengths, more inputs, attributes.
CASES: dict[str, tuple] = {
    "cap, scale, bias": (1, 4, 5, [9], {"added": f32(1, HEADS, 4, 9)}, {"softcap": 1.5, "scale": 0.7}),
    "window, smooth, bias of all": (
        1,
        6,
        4,
        [10],
        {"added": f32(1, 1, 6, 10)},
        {"local_window_size": 3, "smooth_softmax": 1},
    ),
    "sinks, both ways": (2, 5, 0, [5, 3], {"sink": f32(HEADS)}, {"causal": 0}),
}


@pytest.mark.parametrize("name", CASES)
def test_as_onnx_runtime_and_numpy(name: str) -> None:
    batch, new, room, lengths, more, attributes = CASES[name]
    inputs = inputs_of(batch, new, room, lengths, **more)
    ((actual, expected),) = run_both(model(inputs, {}, **attributes), inputs)
    actual = valid(actual, lengths, new)
    assert_close(actual, valid(expected, lengths, new), 2e-6)
    for output, want in reference(inputs, lengths, **attributes).items():
        np.testing.assert_allclose(actual[output], want, rtol=1e-4, atol=1e-5, err_msg=output)


def test_one_module_for_prompt_and_generation() -> None:
    """Batch, new positions and room of the past are what they are at run time, and so are the lengths."""
    steps = [
        (2, 5, 0, [5, 3]),  # a prompt, one sequence padded
        (2, 1, 5, [6, 4]),  # a token for each
        (2, 1, 16, [6, 4]),  # in a buffer with more room
        (1, 3, 16, [11]),  # several tokens at once
        (1, 1, 0, [1]),
    ]
    feeds = [inputs_of(*step, **CACHES) for step in steps]
    proto = model(feeds[0], DYNAMIC, do_rotary=1, rotary_interleaved=1)
    results = run_both(proto, *feeds)
    for (actual, expected), inputs, (_, new, _, lengths) in zip(results, feeds, steps, strict=True):
        actual = valid(actual, lengths, new)
        assert_close(actual, valid(expected, lengths, new), 2e-6)
        for name, want in reference(inputs, lengths, do_rotary=1, rotary_interleaved=1).items():
            np.testing.assert_allclose(actual[name], want, rtol=1e-4, atol=1e-5, err_msg=name)
    module = rillet.compile(proto, threads=1)
    given = {i.name: feeds[3][i.name] for i in module.inputs}
    with pytest.raises(RunError, match="'n': total_sequence_length is 2, but there are 3 new positions"):
        module.run(given | {"total": np.array(2, np.int32)})
    for length in (-1, 11, 30):
        with pytest.raises(
            RunError, match="'n': seqlens_k has a number that is not from 0 to total_sequence_length - 1"
        ):
            module.run(given | {"lens": np.array([length], np.int32)})


def test_one_token_has_few_rows() -> None:
    """Behind a past, the scores of one token are known to be so few rows that keys are read where they lie; and what is
    seen of a present is copied only where there is more.
    """
    inputs = inputs_of(2, 1, 5, [6, 4])
    *seen, attended = str(import_model(model(inputs, DYNAMIC)).module).split("= scf.if")[1:]
    assert all("extract_slice" not in s.split("} else {")[0] and "extract_slice" in s for s in seen) and len(seen) == 2
    one, many = attended.split("} else {")
    assert "tensor<?x2x3x?xf32>" in one and "tensor<?x2x3x?xf32>" not in many
    prompt = model(inputs | {"past_key": None, "past_value": None}, DYNAMIC)
    assert "scf.if" not in str(import_model(prompt).module)


def test_packed_with_positions() -> None:
    """Of a prompt's positions the first one counts; without a past the present is what is new."""
    width = (HEADS + 2 * GROUPS) * WIDTH
    inputs = inputs_of(2, 5, 0, [5, 5], **CACHES, positions=_RANDOM.integers(0, 20, (2, 5)))
    inputs |= {"q": f32(2, 5, width), "k": None, "v": None, "past_key": None, "past_value": None}
    ((actual, expected),) = run_both(model(inputs, {}, do_rotary=1), inputs)
    assert_close(actual, expected, 2e-6)


def test_as_numpy() -> None:
    """Norms of queries and keys, and queries of unequal number, which ONNX Runtime lacks here or may lack."""
    lengths = [9, 6]
    inputs = inputs_of(2, 3, 12, lengths, **CACHES, q_norm=f32(WIDTH), k_norm=f32(WIDTH))
    inputs["q_lens"] = np.array([3, 2], np.int32)
    attributes = {"do_rotary": 1, "qk_norm_epsilon": 1e-3}
    module = rillet.compile(model(inputs, {}, **attributes), threads=1)
    wanted = {i.name for i in module.inputs}
    actual = module.run({n: a for n, a in inputs.items() if n in wanted})
    expected = reference(inputs, lengths, **attributes)
    for name, want in expected.items():
        seen = np.zeros(want.shape, bool)
        for b, (length, count) in enumerate(zip(lengths, inputs["q_lens"], strict=True)):
            seen[b, ..., : (count if name == "y" else length), :] = True
        np.testing.assert_allclose(np.where(seen, actual[name], 0), np.where(seen, want, 0), rtol=1e-4, atol=1e-5)


def test_half() -> None:
    lengths = [6, 4]
    inputs = inputs_of(2, 1, 8, lengths, **CACHES)
    halves = {n: a.astype(np.float16) if a is not None and a.dtype == np.float32 else a for n, a in inputs.items()}
    module = rillet.compile(model(halves, {}, do_rotary=1), threads=1)
    actual = module.run({n: a for n, a in halves.items() if a is not None and n not in CACHES})
    expected = reference(inputs, lengths, do_rotary=1)
    for name, got in valid(actual, lengths, 1).items():
        assert actual[name].dtype == np.float16
        assert np.abs(got - expected[name]).max() <= 6e-3 * np.abs(expected[name]).max()


REFUSED: dict[str, tuple] = {
    "heads": ({}, {"num_heads": 5}, "5 heads do not divide into 2 groups"),
    "no groups": ({}, {"kv_num_heads": 0}, "kv_num_heads is 0"),
    "window": ({}, {"local_window_size": 3, "causal": 0}, "a window needs causal=1"),
    "rotation": ({}, {"do_rotary": 1}, "do_rotary needs the caches"),
    "quantized": ({}, {"k_quant_type": "PER_TENSOR"}, "a quantized cache; keep keys and values as floats"),
    "scale of a cache": ({"ks": f32(1)}, {}, "a quantized cache"),
    "eviction": ({}, {"sliding_window_cache": 1, "local_window_size": 4}, "sliding_window_cache; give the cache room"),
    "half a past": ({"past_value": None}, {}, "past_key and past_value come together"),
    "a key": ({"v": None}, {}, "key and value come together"),
    "a norm": ({"q_norm": f32(WIDTH)}, {}, "q_norm_weight and k_norm_weight come together"),
    "lengths": ({"lens": np.zeros((1, 1, 1), np.int32)}, {}, "seqlens_k has rank 3"),
    "heads of the past": (
        {"past_key": f32(1, 3, 4, WIDTH), "past_value": f32(1, 3, 4, WIDTH)},
        {},
        r"input 'past_key' is \[1, 3, 4, 16\], not \[1, 2, 4, 16\]",
    ),
    "new keys": ({"k": f32(1, 3, GROUPS * WIDTH)}, {}, r"input 'key' is \[1, 3, 32\], not \[1, 2, 32\]"),
    "past": ({"past_key": f32(2, 4, WIDTH), "past_value": f32(2, 4, WIDTH)}, {}, "the past has rank 3"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_cannot_be(name: str) -> None:
    more, attributes, message = REFUSED[name]
    with pytest.raises((CompileError, UnsupportedError), match=rf"'n'.*{message}"):
        rillet.compile(model(inputs_of(1, 2, 4, [6], **more), **attributes))


def test_scores_are_no_output() -> None:
    proto = contrib_model("GroupQueryAttention", inputs_of(1, 2, 4, [6]), (*OUTPUTS, "scores"), **COUNTS, qk_output=1)
    with pytest.raises(UnsupportedError, match=r"'n'.*the scores as an output; remove output 'output_qk'"):
        rillet.compile(proto)
