"""Operands whose shapes contradict their operator are refused, and named, at import or when a call brings them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rillet
from rillet.errors import CompileError, RunError
from tests.support.contrib_models import contrib_model
from tests.support.importing import import_model

_RANDOM = np.random.default_rng(17)


def f32(*shape: int) -> np.ndarray:
    return _RANDOM.standard_normal(shape).astype(np.float32)


def u8(*shape: int) -> np.ndarray:
    return _RANDOM.integers(0, 255, shape).astype(np.uint8)


def ints(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.int64)


B, S, T, N, D = 2, 5, 7, 3, 8
H = N * D
SCALE, ZERO = np.float32(0.1), np.uint8(3)
IDS = np.zeros((B, 6), np.int32)
QKV = {"q": f32(B, S, H), "k": f32(B, T, H), "v": f32(B, T, H)}
PAST = {"pk": f32(B, 2, 7, 16), "pv": f32(B, 2, 7, 16)}
STEP = {"q": f32(B, 1, 96), "k": f32(B, 1, 32), "v": f32(B, 1, 32), **PAST}
NORMALIZED = {"x": f32(B, S, H), "skip": f32(B, S, H), "gamma": f32(H), "beta": f32(H), "bias": f32(H)}

# Operator → valid inputs and attributes.
VALID: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "SkipLayerNormalization": (NORMALIZED, {}),
    "SkipSimplifiedLayerNormalization": ({n: NORMALIZED[n] for n in ("x", "skip", "gamma", "bias")}, {}),
    "EmbedLayerNormalization": (
        {"ids": IDS, "segments": IDS, "words": f32(30, H), "places": f32(16, H), "types": f32(2, H), "gamma": f32(H),
         "beta": f32(H), "mask": IDS, "positions": IDS},
        {},
    ),
    "RotaryEmbedding": (
        {"x": f32(B, N, S, D), "positions": ints(B, S), "cos": f32(20, 3), "sin": f32(20, 3)},
        {"num_heads": N, "rotary_embedding_dim": 6},
    ),
    "MultiHeadAttention": (
        {**QKV, "bias": f32(3 * H), "mask": np.ones((B, T), np.int32), "added": f32(B, N, S, T)},
        {"num_heads": N},
    ),
    "Attention": (
        {"x": f32(B, S, 10), "w": f32(10, 3 * H), "bias": f32(3 * H), "mask": np.ones((B, S + 4), np.int32),
         "past": f32(2, B, N, 4, D)},
        {"num_heads": N},
    ),
    "GroupQueryAttention": (
        {**STEP, "lens": np.array([7, 5], np.int32), "total": np.array(8, np.int32), "cos": f32(20, 8),
         "sin": f32(20, 8), "positions": ints(B, 1), "added": f32(B, 6, 1, 8), "sink": f32(6)},
        {"num_heads": 6, "kv_num_heads": 2, "do_rotary": 1},
    ),
    "BiasGelu": ({"x": f32(B, S, H), "bias": f32(H)}, {}),
    "FastGelu": ({"x": f32(B, S, H), "bias": f32(H)}, {}),
    "BiasAdd": ({"x": f32(B, S, H), "bias": f32(H), "skip": f32(B, S, H)}, {}),
    "FusedConv": ({"x": f32(1, 4, 9, 9), "w": f32(6, 4, 3, 3), "bias": f32(6), "z": f32(1, 6, 7, 7)},
                  {"activation": "Relu"}),
    "GatherBlockQuantized": ({"data": u8(10, 16), "i": ints(2), "scales": f32(10, 2), "zeros": u8(10, 1)},
                             {"block_size": 16}),
    "QGemm": ({"a": u8(5, 8), "as": SCALE, "az": ZERO, "b": u8(8, 6), "bs": SCALE, "bz": ZERO}, {}),
    "QLinearAdd": (
        {"a": u8(5, 8), "as": SCALE, "az": ZERO, "b": u8(5, 8), "bs": SCALE, "bz": ZERO, "cs": SCALE, "cz": ZERO}, {}
    ),
    "QLinearConcat": ({"ys": SCALE, "yz": ZERO, "a": u8(5, 8), "as": SCALE, "az": ZERO, "b": u8(5, 8), "bs": SCALE,
                       "bz": ZERO}, {"axis": 1}),
    # Of ONNX itself.
    "NonMaxSuppression": (
        {"boxes": f32(2, 9, 4), "scores": f32(2, 3, 9), "limit": np.array([3]), "iou": np.float32(0.5)}, {}
    ),
    "TopK": ({"x": f32(4, 9), "k": np.array([3])}, {}),
    "OneHot": ({"i": ints(2), "depth": np.array([4]), "values": f32(2)}, {}),
    "Compress": ({"x": f32(4, 5), "condition": np.ones(4, bool)}, {"axis": 0}),
    "RoiAlign": ({"x": f32(2, 3, 9, 9), "rois": f32(3, 4), "images": ints(3)}, {}),
    "ScatterElements": ({"x": f32(4, 5), "i": ints(2, 2), "updates": f32(2, 2)}, {}),
    "ScatterND": ({"x": f32(4, 5, 6), "i": ints(2, 2), "updates": f32(2, 6)}, {}),
    "TensorScatter": ({"past": f32(2, 1, 4, 5), "update": f32(2, 1, 1, 5), "i": ints(2)}, {}),
    "Conv": ({"x": f32(1, 4, 9, 9), "w": f32(6, 4, 3, 3)}, {}),
    "ConvTranspose": ({"x": f32(1, 4, 9, 9), "w": f32(4, 6, 3, 3)}, {}),
    "RNN": ({"x": f32(5, 2, 4), "w": f32(1, 3, 4), "r": f32(1, 3, 3), "bias": f32(1, 6)}, {"hidden_size": 3}),
}  # fmt: skip
ONNX = set(list(VALID)[list(VALID).index("NonMaxSuppression") :])

# Operator, inputs and attributes that replace the valid ones, the message.
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    *[(op, {n: f32(1)}, rf"input '{n}' is \[1\], not \[24\]") for op in list(VALID)[:2] for n in ("gamma", "bias")],
    ("SkipLayerNormalization", {"beta": f32(1, H)}, r"input 'beta' is \[1, 24\], not \[24\]"),
    ("SkipLayerNormalization", {"skip": f32(3, S, H)}, r"input 'skip' is \[3, 5, 24\], not \[2, 5, 24\]"),
    ("SkipLayerNormalization", {"x": f32(1, S, H)}, r"input 'skip' is \[2, 5, 24\], not \[1, 5, 24\]"),
    ("SkipLayerNormalization", {"skip": f32(B, 1, H)}, r"input 'skip' is \[2, 1, 24\], not \[2, 5, 24\]"),
    ("SkipLayerNormalization", {"skip": f32(H)}, "a skip of rank 1; both have 2 or 3"),
    ("SkipLayerNormalization", {"@epsilon": -1.0}, "epsilon is -1; it is not negative"),
    ("EmbedLayerNormalization", {"ids": IDS[0]}, r"input 'input_ids' is \[6\], not \[\?, \?\]"),
    ("EmbedLayerNormalization", {"words": f32(30, H, 1)}, r"input 'word_embedding' is \[30, 24, 1\]"),
    ("EmbedLayerNormalization", {"segments": IDS[:1]}, r"input 'segment_ids' is \[1, 6\], not \[2, 6\]"),
    ("EmbedLayerNormalization", {"places": f32(16, 1)}, r"input 'position_embedding' is \[16, 1\], not \[\?, 24\]"),
    ("EmbedLayerNormalization", {"types": f32(2, 1)}, r"input 'segment_embedding' is \[2, 1\], not \[\?, 24\]"),
    ("EmbedLayerNormalization", {"gamma": f32(1)}, r"input 'gamma' is \[1\], not \[24\]"),
    ("EmbedLayerNormalization", {"mask": IDS[:, :5]}, r"input 'mask' is \[2, 5\], not \[2, 6\]"),
    ("EmbedLayerNormalization", {"positions": IDS[:, :1]}, r"input 'position_ids' is \[2, 1\], not \[2, 6\]"),
    ("RotaryEmbedding", {"positions": ints(1, S)}, r"input 'position_ids' is \[1, 5\], not \[2, 5\]"),
    ("RotaryEmbedding", {"cos": f32(20, 3, 1)}, r"input 'cos_cache' is \[20, 3, 1\], not"),
    ("RotaryEmbedding", {"sin": f32(19, 3)}, r"input 'sin_cache' is \[19, 3\], not \[20, 3\]"),
    ("RotaryEmbedding", {"@rotary_embedding_dim": 5}, "rotary_embedding_dim is 5; features turn in pairs"),
    ("RotaryEmbedding", {"@rotary_embedding_dim": -2}, "rotary_embedding_dim is -2"),
    ("RotaryEmbedding", {"@rotary_embedding_dim": 10}, "rotary_embedding_dim is 10, but heads have 8 features"),
    ("RotaryEmbedding", {"@rotary_embedding_dim": 4}, r"input 'cos_cache' is \[20, 3\], not \[\?, 2\]"),
    ("RotaryEmbedding", {"@num_heads": -1}, "num_heads is -1"),
    ("RotaryEmbedding", {"x": f32(B, S, 23)}, "the input is 23 wide, which 3 heads do not divide"),
    ("MultiHeadAttention", {"k": f32(1, T, H)}, r"input 'key' is \[1, 7, 24\], not \[2, \?, 24\]"),
    ("MultiHeadAttention", {"v": f32(B, 1, H)}, r"input 'value' is \[2, 1, 24\], not \[2, 7, \?\]"),
    ("MultiHeadAttention", {"k": f32(B, N, T, 1), "v": f32(B, N, T, D)}, r"input 'key' is \[2, 3, 7, 1\], not"),
    ("MultiHeadAttention", {"k": f32(B, N, T, D), "v": f32(B, 1, T, D)}, r"input 'value' is \[2, 1, 7, 8\], not"),
    ("MultiHeadAttention", {"k": f32(B, T, N, 3, D), "v": None}, r"input 'key' is \[2, 7, 3, 3, 8\], not"),
    ("MultiHeadAttention", {"q": f32(B, T, N, 2, D), "k": None, "v": None}, r"input 'query' is \[2, 7, 3, 2, 8\]"),
    ("MultiHeadAttention", {"bias": f32(3 * H + 1)}, r"input 'bias' is \[73\], not \[72\]"),
    ("MultiHeadAttention", {"mask": np.ones((1, T), np.int32)}, r"input 'mask' is \[1, 7\], not \[2, 7\]"),
    ("MultiHeadAttention", {"added": f32(B, N, 1, T)}, r"input 'attention_bias' is \[2, 3, 1, 7\], not"),
    ("Attention", {"bias": f32(3 * H + 1)}, r"input 'bias' is \[73\], not \[72\]"),
    ("Attention", {"past": f32(B, N, 4, D)}, r"input 'past' is \[2, 3, 4, 8\], not"),
    ("Attention", {"@qkv_hidden_sizes": [H, 2 * H, 0]}, r"qkv_hidden_sizes are \[24, 48, 0\]; they are positive"),
    ("Attention", {"mask": np.ones((B, 2, 9, 9), np.int32)}, r"input 'mask' is \[2, 2, 9, 9\], not \[\?, 1, \?, \?\]"),
    ("GroupQueryAttention", {"pv": f32(B, 2, 6, 16)}, r"input 'past_value' is \[2, 2, 6, 16\], not \[2, 2, 7, 16\]"),
    ("GroupQueryAttention", {"k": f32(B, 1, 2)}, r"input 'key' is \[2, 1, 2\], not \[2, 1, 32\]"),
    ("GroupQueryAttention", {"v": f32(1, 1, 32)}, r"input 'value' is \[1, 1, 32\], not \[2, 1, \?\]"),
    ("GroupQueryAttention", {"lens": np.zeros(3, np.int32)}, r"input 'seqlens_k' is \[3\], not \[2\]"),
    ("GroupQueryAttention", {"sin": f32(21, 8)}, r"input 'sin_cache' is \[21, 8\], not \[20, 8\]"),
    ("GroupQueryAttention", {"positions": ints(B, 1, 1)}, r"input 'position_ids' is \[2, 1, 1\], not \[2, 1\]"),
    ("GroupQueryAttention", {"added": f32(B, 6, 2, 8)}, r"input 'attention_bias' is \[2, 6, 2, 8\], not"),
    ("GroupQueryAttention", {"sink": f32(7)}, r"input 'head_sink' is \[7\], not \[6\]"),
    ("GroupQueryAttention", {"@local_window_size": 0}, "local_window_size is 0; it is positive, or -1"),
    *[(op, {"bias": f32(1)}, r"input 'bias' is \[1\], not \[24\]") for op in ("BiasGelu", "FastGelu", "BiasAdd")],
    ("BiasAdd", {"skip": f32(1, S, H)}, r"input 'skip' is \[1, 5, 24\], not \[2, 5, 24\]"),
    ("FusedConv", {"z": f32(1, 6, 1, 1)}, r"input 'Z' is \[1, 6, 1, 1\], not \[1, 6, 7, 7\]"),
    ("GatherBlockQuantized", {"zeros": u8(9, 1)}, r"input 'zero_points' is \[9, 1\], not \[10, 1\]"),
    ("QGemm", {"a": u8(1, 5, 8)}, r"input 'A' is \[1, 5, 8\], not \[\?, \?\]"),
    ("QGemm", {"b": u8(1, 8, 6)}, r"input 'B' is \[1, 8, 6\], not \[\?, \?\]"),
    ("QGemm", {"as": f32(5)}, r"input 'a_scale' is \[5\]; it is one number"),
    ("QGemm", {"bs": f32(6, 1)}, r"input 'b_scale' is \[6, 1\]; it is one number or a vector"),
    ("QGemm", {"bz": np.int8(1)}, "input 'b_zero_point' is int8, but what it belongs to is uint8"),
    ("QLinearAdd", {"as": f32(8)}, r"input 'A_scale' is \[8\]; it is one number"),
    ("QLinearAdd", {"cz": u8(8)}, r"input 'C_zero_point' is \[8\]; it is one number"),
    ("QLinearConcat", {"as": f32(8)}, r"input 'X_scale' is \[8\]; it is one number"),
    ("NonMaxSuppression", {"boxes": f32(1, 9, 4)}, r"input 'boxes' is \[1, 9, 4\], not \[2, 9, 4\]"),
    ("NonMaxSuppression", {"boxes": f32(2, 8, 4)}, r"input 'boxes' is \[2, 8, 4\], not \[2, 9, 4\]"),
    ("NonMaxSuppression", {"boxes": f32(2, 9, 5)}, r"input 'boxes' is \[2, 9, 5\], not \[2, 9, 4\]"),
    ("NonMaxSuppression", {"limit": np.array([3, 3])}, "a limit or threshold of 2 elements; it is one number"),
    ("NonMaxSuppression", {"@center_point_box": 2}, "center_point_box is 2, not 0 or 1"),
    ("TopK", {"k": np.array([3, 3])}, "k has 2 elements; it is one number"),
    ("OneHot", {"depth": np.array([3, 3])}, "depth has 2 elements; it is one number"),
    ("OneHot", {"values": f32(3)}, r"input 'values' is \[3\], not \[2\]"),
    ("Compress", {"condition": np.ones((), bool)}, r"input 'condition' is \[\], not \[\?\]"),
    ("RoiAlign", {"rois": f32(3, 5)}, r"input 'rois' is \[3, 5\], not \[\?, 4\]"),
    ("RoiAlign", {"images": ints(2)}, r"input 'batch_indices' is \[2\], not \[3\]"),
    ("RoiAlign", {"x": f32(2, 3, 9)}, r"input 'X' is \[2, 3, 9\], not"),
    ("RoiAlign", {"@mode": "min"}, "mode 'min' is not one of avg, max"),
    ("ScatterElements", {"updates": f32(2, 1)}, r"input 'updates' is \[2, 1\], not \[2, 2\]"),
    ("ScatterND", {"updates": f32(2, 5)}, r"input 'updates' is \[2, 5\], not \[2, 6\]"),
    ("TensorScatter", {"update": f32(2, 1, 1, 4)}, r"input 'update' is \[2, 1, 1, 4\], not \[2, 1, \?, 5\]"),
    ("TensorScatter", {"i": ints(3)}, r"input 'write_indices' is \[3\], not \[2\]"),
    ("Conv", {"@pads": [-1, 0, 0, 0]}, r"pads \[-1, 0, 0, 0\] are not all 0 or more"),
    ("ConvTranspose", {"@pads": [-1, 0, 0, 0]}, r"pads \[-1, 0, 0, 0\] are not all 0 or more"),
    ("ConvTranspose", {"@strides": [0, 1]}, r"strides \[0, 1\] must be 2 positive numbers"),
    ("ConvTranspose", {"@dilations": [1]}, r"dilations \[1\] must be 2 positive numbers"),
    ("RNN", {"@hidden_size": 2}, "hidden_size is 2, but R is of 3"),
    ("RNN", {"@direction": "sideways"}, "direction 'sideways' is not one of forward, reverse, bidirectional"),
    ("RNN", {"bias": f32(1, 3)}, r"input 'B' is \[1, 3\], not \[1, 6\]"),
]  # fmt: skip


def model(op: str, changes: dict[str, Any], shapes: dict[str, Any] | None = None) -> Any:
    valid, attributes = VALID[op]
    inputs = {n: None if a is None else np.asarray(a) for n, a in {**valid, **changes}.items() if n[0] != "@"}
    attributes = attributes | {n[1:]: v for n, v in changes.items() if n[0] == "@"}
    domain, opset = ("", 24) if op in ONNX else ("com.microsoft", 17)
    outputs = ("y", "indices") if op == "TopK" else ("y",)
    proto = contrib_model(op, inputs, outputs, shapes, (), domain, opset, **attributes)
    for output in proto.graph.output:
        output.ClearField("type")
    return proto


@pytest.mark.parametrize("op", VALID)
def test_valid(op: str) -> None:
    import_model(model(op, {}))


@pytest.mark.parametrize(("op", "changes", "message"), REFUSED, ids=lambda v: v if isinstance(v, str) else "-".join(v))
def test_refused(op: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CompileError, match=rf"^{op} 'n': .*{message}"):
        import_model(model(op, changes))


# Operator, declared shapes, inputs that a call brings, the message.
AT_RUN_TIME: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("SkipLayerNormalization", {"skip": ["M", S, H]}, {"skip": f32(3, S, H)}, "dimensions 3 and 2 do not broadcast"),
    ("SkipLayerNormalization", {"gamma": ["G"]}, {"gamma": f32(1)}, "dimension 0 of input 'gamma' is 1, not 24"),
    ("SkipLayerNormalization", {"skip": [B, "R", H]}, {"skip": f32(B, 1, H)}, "dimension 1 .* 'skip' is 1, not 5"),
    ("MultiHeadAttention", {"k": ["C", T, H]}, {"k": f32(1, T, H)}, "dimension 0 of input 'key' is 1, not 2"),
    ("NonMaxSuppression", {}, {"iou": np.float32(1.5)}, "iou_threshold is not from 0 to 1"),
    ("NonMaxSuppression", {}, {"iou": np.float32("nan")}, "iou_threshold is not from 0 to 1"),
    ("NonMaxSuppression", {"boxes": [2, "C", 4]}, {"boxes": f32(2, 8, 4)}, "dimension 1 of input 'boxes' is 8, not 9"),
    ("TopK", {}, {"k": np.array([-1])}, "k is -1; it is 0 or more"),
    ("RotaryEmbedding", {}, {"positions": ints(B, S) - 1}, "out of bounds"),
    ("EmbedLayerNormalization", {}, {"ids": IDS - 1}, "out of bounds"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "shapes", "given", "message"), AT_RUN_TIME)
def test_refused_at_run_time(op: str, shapes: dict[str, Any], given: dict[str, Any], message: str) -> None:
    module = rillet.compile(model(op, {}, shapes), threads=1)
    inputs = {n: np.asarray(a) for n, a in VALID[op][0].items()}
    module.run(inputs)
    with pytest.raises(RunError, match=message) as caught:
        module.run(inputs | {n: np.asarray(a) for n, a in given.items()})
    assert "'n'" in str(caught.value) or " n" in str(caught.value)


def test_a_known_threshold() -> None:
    inputs = VALID["NonMaxSuppression"][0] | {"iou": np.asarray(-0.1, np.float32)}
    proto = contrib_model("NonMaxSuppression", inputs, known=("iou",), domain="", dtypes={"y": np.int64})
    with pytest.raises(CompileError, match="'n': iou_threshold is not from 0 to 1"):
        import_model(proto)


def test_what_a_function_body_stands_for() -> None:
    """Its own attributes and shapes, which the body would broadcast."""
    heads = {"q_num_heads": N, "kv_num_heads": N}
    with pytest.raises(CompileError, match=r"^Attention 'n': Inputs 2 \(value\) shall be 3 or 4 dimensions"):
        import_model(contrib_model("Attention", QKV | {"v": f32(T, H)}, domain="", opset=23, **heads))
    with pytest.raises(CompileError, match=r"^Attention 'n': attribute 'window' is none of the op's"):
        import_model(contrib_model("Attention", QKV, domain="", opset=23, window=3, **heads))
