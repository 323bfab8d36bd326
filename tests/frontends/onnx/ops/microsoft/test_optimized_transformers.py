"""An encoder that ONNX Runtime's transformer optimizer has been over, and a decoder as exporters for it write them."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.transformers import optimizer

import rillet

HEADS, WIDTH, HIDDEN, WORDS = 4, 16, 64, 50


class Graph:
    """Nodes and constants of a model that is being built."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(1)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}

    def weight(self, *shape: int) -> str:
        return self.constant((self.random.standard_normal(shape) / max(shape[0], 1) ** 0.5).astype(np.float32))

    def constant(self, array: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def op(self, kind: str, *inputs: str, outputs: str = "0", domain: str = "", **attributes: object) -> str:
        """Output 0. ``outputs`` names all by their number, which is also the end of their name; ``-`` is absent."""
        names = ["" if n == "-" else f"v{len(self.nodes)}_{n}" for n in outputs]
        self.nodes.append(helper.make_node(kind, inputs, names, f"n{len(self.nodes)}", domain=domain, **attributes))
        return names[0]

    def model(self, inputs: dict[str, tuple[int, list]], outputs: dict[str, str]) -> onnx.ModelProto:
        self.nodes += [helper.make_node("Identity", [value], [name]) for name, value in outputs.items()]
        graph = helper.make_graph(
            self.nodes,
            "g",
            [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
            [numpy_helper.from_array(a, n) for n, a in self.constants.items()],
        )
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9, producer_name="pytorch")


def encoder() -> onnx.ModelProto:
    """A layer of BERT as PyTorch exports it."""
    g = Graph()

    def dense(x: str, rows: int, columns: int) -> str:
        return g.op("Add", g.op("MatMul", x, g.weight(rows, columns)), g.weight(columns))

    def norm(x: str) -> str:
        return g.op("LayerNormalization", x, g.weight(HIDDEN), g.weight(HIDDEN), axis=-1, epsilon=1e-12)

    def heads(order: list[int]) -> str:
        return g.op("Transpose", g.op("Reshape", dense(x, HIDDEN, HIDDEN), split), perm=order)

    split, joined = (g.constant(np.array([0, 0, *s])) for s in ([HEADS, WIDTH], [HIDDEN]))
    one, half, root2, lowest, scale = (
        g.constant(np.float32(v)) for v in (1.0, 0.5, 2**0.5, np.finfo(np.float32).min, WIDTH**0.5)
    )
    wide = g.op("Unsqueeze", g.op("Unsqueeze", "mask", g.constant(np.array([1]))), g.constant(np.array([2])))
    mask = g.op("Mul", g.op("Sub", one, g.op("Cast", wide, to=TensorProto.FLOAT)), lowest)
    x = norm(g.op("Add", g.op("Gather", g.weight(WORDS, HIDDEN), "ids"), g.op("Gather", g.weight(2, HIDDEN), "types")))
    scores = g.op("Div", g.op("MatMul", heads([0, 2, 1, 3]), heads([0, 2, 3, 1])), scale)
    weights = g.op("Softmax", g.op("Add", scores, mask), axis=-1)
    context = g.op("Transpose", g.op("MatMul", weights, heads([0, 2, 1, 3])), perm=[0, 2, 1, 3])
    x = norm(g.op("Add", dense(g.op("Reshape", context, joined), HIDDEN, HIDDEN), x))
    hidden = dense(x, HIDDEN, 2 * HIDDEN)
    gelu = g.op("Mul", hidden, g.op("Add", g.op("Erf", g.op("Div", hidden, root2)), one))
    x = norm(g.op("Add", dense(g.op("Mul", gelu, half), 2 * HIDDEN, HIDDEN), x))
    return g.model({n: (TensorProto.INT64, ["B", "S"]) for n in ("ids", "mask", "types")}, {"y": x})


def test_optimized_encoder() -> None:
    """It is fused as intended, is all supported, and gives what the model gives that was not optimized."""
    proto = encoder()
    fused = optimizer.optimize_model(proto, "bert", HEADS, HIDDEN, opt_level=0).model
    kinds = [n.op_type for n in fused.graph.node if n.domain == "com.microsoft"]
    assert {"Attention", "SkipLayerNormalization", "BiasGelu"} <= set(kinds)
    assert not rillet.check(fused).unsupported
    module = rillet.compile(fused, threads=1)
    for batch, length in ((2, 7), (1, 19)):
        r = np.random.default_rng(length)
        feed = {"ids": r.integers(0, WORDS, (batch, length)), "types": r.integers(0, 2, (batch, length))}
        feed["mask"] = (np.arange(length) < np.array([[length], [length // 2]])[:batch]).astype(np.int64)
        (expected,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, feed)
        np.testing.assert_allclose(module.run(feed)["y"], expected, rtol=1e-4, atol=1e-5)


def decoder() -> onnx.ModelProto:
    """A layer of a decoder: lengths come from the attention mask, weights of four bits, keys shared by two heads."""
    g = Graph()
    ms = {"domain": "com.microsoft"}
    groups = HEADS // 2

    def dense(x: str, rows: int, columns: int) -> str:
        packed = g.constant(g.random.integers(0, 256, (columns, rows // 16, 8)).astype(np.uint8))
        scales = g.constant(g.random.uniform(0.02, 0.05, (columns, rows // 16)).astype(np.float32))
        return g.op("MatMulNBits", x, packed, scales, bits=4, block_size=16, K=rows, N=columns, **ms)

    counted = g.op("ReduceSum", "attention_mask", g.constant(np.array([1])), keepdims=0)
    lengths = g.op("Cast", g.op("Sub", counted, g.constant(np.array(1))), to=TensorProto.INT32)
    extent = g.op("Gather", g.op("Shape", "attention_mask"), g.constant(np.array(1)), axis=0)
    total = g.op("Cast", extent, to=TensorProto.INT32)
    turns = g.random.uniform(-3, 3, (32, WIDTH // 2)).astype(np.float32)
    caches = [g.constant(np.cos(turns)), g.constant(np.sin(turns))]

    embedded = g.op("Gather", g.weight(WORDS, HIDDEN), "ids")
    x = g.op("SimplifiedLayerNormalization", embedded, g.weight(HIDDEN), axis=-1, epsilon=1e-5, stash_type=1)
    parts = [dense(x, HIDDEN, n * WIDTH) for n in (HEADS, groups, groups)]
    attended = g.op(
        "GroupQueryAttention", *parts, "past_key", "past_value", lengths, total, *caches, outputs="012",
        num_heads=HEADS, kv_num_heads=groups, do_rotary=1, **ms,
    )  # fmt: skip
    keys, values = (attended.replace("_0", f"_{n}") for n in (1, 2))
    normed = g.op(
        "SkipSimplifiedLayerNormalization", embedded, dense(attended, HIDDEN, HIDDEN), g.weight(HIDDEN), outputs="0--3",
        epsilon=1e-5, **ms,
    )  # fmt: skip
    gate = dense(normed, HIDDEN, HIDDEN)
    gated = g.op("Mul", g.op("Mul", gate, g.op("Sigmoid", gate)), dense(normed, HIDDEN, HIDDEN))
    y = g.op("Add", normed.replace("_0", "_3"), dense(gated, HIDDEN, HIDDEN))
    cache = (TensorProto.FLOAT, ["B", groups, "P", WIDTH])
    inputs = {
        "ids": (TensorProto.INT64, ["B", "S"]),
        "attention_mask": (TensorProto.INT64, ["B", "T"]),
        "past_key": cache,
        "past_value": cache,
    }
    return g.model(inputs, {"y": y, "key": keys, "value": values})


def test_decoder_generates() -> None:
    """A prompt of two sequences, then token after token with the present as the next past."""
    r = np.random.default_rng(5)
    proto = decoder()
    assert not rillet.check(proto).unsupported
    module = rillet.compile(proto, threads=1)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    keys = values = np.zeros((2, HEADS // 2, 0, WIDTH), np.float32)
    for new, total in ((5, 5), (1, 6), (1, 7)):
        feed = {"ids": r.integers(0, WORDS, (2, new)), "attention_mask": np.ones((2, total), np.int64)}
        feed |= {"past_key": keys, "past_value": values}
        actual = module.run(feed)
        expected = session.run(["y", "key", "value"], feed)
        for name, want in zip(("y", "key", "value"), expected, strict=True):
            np.testing.assert_allclose(actual[name], want, rtol=1e-4, atol=1e-5, err_msg=name)
        keys, values = actual["key"], actual["value"]
