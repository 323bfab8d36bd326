"""A six-layer BERT encoder (Devlin et al. 2018): width 384, 12 heads, feed-forward 1536, the shape of MiniLM-L6.

Written as PyTorch exports it: separate Q, K, V projections, an additive attention mask, the exact GELU with Erf.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from models.graph import GraphBuilder

SEQUENCE, WIDTH, HEADS, FFN, LAYERS, VOCABULARY, POSITIONS = 128, 384, 12, 1536, 6, 30522, 512
_HEAD_WIDTH = WIDTH // HEADS


def _linear(g: GraphBuilder, x: str, label: str, inputs: int, outputs: int) -> str:
    y = g.op("MatMul", [x, g.normal(f"{label}.weight", (inputs, outputs), inputs**-0.5)], f"{label}/matmul")
    return g.op("Add", [g.normal(f"{label}.bias", (outputs,), 0.02), y], f"{label}/add")


def _layer_norm(g: GraphBuilder, x: str, label: str) -> str:
    inputs = [x, g.uniform(f"{label}.gamma", WIDTH, 0.8, 1.2), g.normal(f"{label}.beta", (WIDTH,), 0.05)]
    return g.op("LayerNormalization", inputs, label, axis=-1, epsilon=1e-12)


def _gelu(g: GraphBuilder, x: str, scope: str) -> str:
    y = g.op("Erf", [g.op("Div", [x, "sqrt2"], f"{scope}/div")], f"{scope}/erf")
    y = g.op("Mul", [x, g.op("Add", [y, "one"], f"{scope}/add")], f"{scope}/mul")
    return g.op("Mul", [y, "half"], f"{scope}/half")


def _attention(g: GraphBuilder, x: str, mask: str, scope: str) -> str:
    def heads(name: str, perm: list[int]) -> str:
        y = _linear(g, x, f"{scope}/{name}", WIDTH, WIDTH)
        y = g.op("Reshape", [y, "split_heads"], f"{scope}/{name}/reshape")
        return g.op("Transpose", [y], f"{scope}/{name}/transpose", perm=perm)

    query, key, value = heads("query", [0, 2, 1, 3]), heads("key", [0, 2, 3, 1]), heads("value", [0, 2, 1, 3])
    scores = g.op("MatMul", [query, key], f"{scope}/scores")
    scores = g.op("Div", [scores, "sqrt_head_width"], f"{scope}/scale")
    scores = g.op("Add", [scores, mask], f"{scope}/mask")
    weights = g.op("Softmax", [scores], f"{scope}/softmax", axis=-1)
    context = g.op("MatMul", [weights, value], f"{scope}/context")
    context = g.op("Transpose", [context], f"{scope}/transpose", perm=[0, 2, 1, 3])
    context = g.op("Reshape", [context, "merge_heads"], f"{scope}/reshape")
    return _linear(g, context, f"{scope}/output", WIDTH, WIDTH)


def bert_384() -> onnx.ModelProto:
    """input_ids [1,128] i64, attention_mask [1,128] i64 → last_hidden_state [1,128,384]."""
    g = GraphBuilder("bert_384")
    ids = g.input("input_ids", (1, SEQUENCE), "int64")
    mask = g.input("attention_mask", (1, SEQUENCE), "int64")
    for name, value in (("sqrt2", 2**0.5), ("one", 1.0), ("half", 0.5), ("sqrt_head_width", _HEAD_WIDTH**0.5)):
        g.weight(name, np.array(value, np.float32))
    g.weight("lowest", np.array(np.finfo(np.float32).min))
    g.weight("split_heads", np.array([1, SEQUENCE, HEADS, _HEAD_WIDTH], np.int64))
    g.weight("merge_heads", np.array([1, SEQUENCE, WIDTH], np.int64))
    g.weight("mask_axes", np.array([1, 2], np.int64))
    g.weight("positions", np.arange(SEQUENCE, dtype=np.int64)[None])
    g.weight("token_types", np.zeros((1, SEQUENCE), np.int64))

    additive = g.op("Unsqueeze", [mask, "mask_axes"], "mask/unsqueeze")
    additive = g.op("Cast", [additive], "mask/cast", to=TensorProto.FLOAT)
    additive = g.op("Mul", [g.op("Sub", ["one", additive], "mask/sub"), "lowest"], "mask/mul")

    tables = {
        "word": (VOCABULARY, 0.6, ids),
        "type": (2, 0.1, "token_types"),
        "position": (POSITIONS, 0.2, "positions"),
    }
    words, types, places = (
        g.op("Gather", [g.normal(f"embeddings/{name}.weight", (rows, WIDTH), std), indices], f"embeddings/{name}")
        for name, (rows, std, indices) in tables.items()
    )
    x = g.op("Add", [g.op("Add", [words, types], "embeddings/add1"), places], "embeddings/add2")
    x = _layer_norm(g, x, "embeddings/norm")
    for index in range(LAYERS):
        scope = f"layer{index}"
        attended = _attention(g, x, additive, f"{scope}/attention")
        x = _layer_norm(g, g.op("Add", [attended, x], f"{scope}/attention/residual"), f"{scope}/attention/norm")
        hidden = _gelu(g, _linear(g, x, f"{scope}/intermediate", WIDTH, FFN), f"{scope}/gelu")
        hidden = _linear(g, hidden, f"{scope}/output", FFN, WIDTH)
        x = _layer_norm(g, g.op("Add", [hidden, x], f"{scope}/residual"), f"{scope}/norm")
    return g.build({"last_hidden_state": (x, (1, SEQUENCE, WIDTH))})
