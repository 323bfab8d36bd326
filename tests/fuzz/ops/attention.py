"""Attention as models have it: heads, masks, caches, rotations; spelled out, and as single ops of opset 23."""

from __future__ import annotations

import numpy as np

from tests.fuzz.maker import Dim, Maker, Stuck, Value, np_type
from tests.fuzz.ops.registry import applies

_LOW = {"float16": -65504.0, "float32": -1e9, "float64": -1e9, "bfloat16": -1e9}


@applies(2)
def multi_head(g: Maker) -> None:
    """Heads split off by Reshape and Transpose, a mask, a cache, and the way back, with or without a residual."""
    x = g.floating(3, 3)
    batch, _, width = x.dims
    if not isinstance(width, int) or not width:
        raise Stuck
    heads = g.one_of([n for n in (1, 2, 3, 4) if width % n == 0])
    memory = x if g.chance(0.6) else g.data(x.dtype, (batch, g.dim(), width))
    query, keys, values = (_heads(g, v, width, heads) for v in (x, memory, memory))
    if g.chance(0.3):
        past = (batch, heads, g.dim(), width // heads)
        keys = g.add("Concat", [g.data(x.dtype, past), keys], axis=2)[0]
        values = g.add("Concat", [g.data(x.dtype, past), values], axis=2)[0]
    turned = g.add("Transpose", [keys], perm=[0, 1, 3, 2])[0]
    scores = g.add("MatMul", [query, turned])[0]
    scores = g.add(g.one_of(["Mul", "Div"]), [scores, g.scalar(0.5, x.dtype)])[0]
    if g.chance(0.6):
        scores = _masked(g, scores)
    mixed = g.add("MatMul", [g.add("Softmax", [scores], axis=-1)[0], values])[0]
    joined = g.add("Reshape", [g.add("Transpose", [mixed], perm=[0, 2, 1, 3])[0], g.ints(0, 0, width)])[0]
    y = g.add("MatMul", [joined, g.data(x.dtype, (width, width))])[0]
    if g.chance(0.5):
        g.add("Add", [x, Value(y.name, y.dtype, x.dims)])


def _heads(g: Maker, x: Value, width: int, heads: int) -> Value:
    projected = g.add("MatMul", [x, g.data(x.dtype, (width, width))])[0] if g.chance(0.7) else x
    split = g.add("Reshape", [projected, g.ints(0, 0, heads, width // heads)])[0]
    return g.add("Transpose", [split], perm=[0, 2, 1, 3])[0]


def _masked(g: Maker, scores: Value) -> Value:
    """Scores with some positions out: by a lower triangle, by a choice, or by large negative numbers added.

    The first key always stays in: of none, implementations do not agree.
    """
    low = g.scalar(_LOW[scores.dtype] if g.chance(0.5) else -np.inf, scores.dtype)
    rows, columns = scores.dims[-2:]
    if not isinstance(columns, int) or not columns or not isinstance(rows, int) or g.chance(0.3):
        like = g.add("Trilu", [scores], upper=0)[0]  # zero above: what is zero goes
        kept = g.add("Not", [g.add("Equal", [like, g.scalar(0, scores.dtype)])[0]])[0]
        return g.add("Where", [kept, scores, g.scalar(_LOW[scores.dtype], scores.dtype)])[0]
    allowed = g.rng.random((rows, columns)) < 0.6
    allowed[:, 0] = True
    if g.chance(0.5):
        return g.add("Where", [g.constant(allowed), scores, low])[0]
    bias = np.where(allowed, 0, -1e4).astype(np.float32)
    return g.add("Add", [scores, g.constant(bias.astype(np_type(scores.dtype)))])[0]


@applies(1)
def rotate(g: Maker) -> None:
    """x cos + rotated x sin, as exporters spell it."""
    x = g.floating(2, 4)
    width = x.dims[-1]
    if not isinstance(width, int) or width < 2 or width % 2:
        raise Stuck
    left, right = g.add("Split", [x, g.ints(width // 2, width // 2)], 2, axis=-1)
    rotated = g.add("Concat", [g.add("Neg", [right])[0], left], axis=-1)[0]
    cos, sin = (g.data(x.dtype, x.dims[-2:]) for _ in range(2))
    g.add("Add", [g.add("Mul", [x, cos])[0], g.add("Mul", [rotated, sin])[0]])


@applies(2)
def attention_op(g: Maker) -> None:
    """Attention of opset 23: heads of queries share those of keys; masks, caps, a cache."""
    x = g.floating(3, 4)
    if x.rank == 3:
        width = x.dims[2]
        if not isinstance(width, int) or not width:
            raise Stuck
        heads = g.one_of([n for n in (1, 2, 3, 4) if width % n == 0])
        depth: Dim = width // heads
    else:
        if not isinstance(x.dims[1], int) or not x.dims[1]:
            raise Stuck
        heads, depth = x.dims[1], x.dims[3]
    g.filled(depth)  # the body that onnx defines reshapes to it, where 0 means another extent
    shared = g.one_of([n for n in range(1, heads + 1) if heads % n == 0])
    other, out = g.dim(), g.integer(1, 9)
    if x.rank == 3:
        assert isinstance(depth, int)
        keys = g.data(x.dtype, (x.dims[0], other, shared * depth))
        values = g.data(x.dtype, (x.dims[0], other, shared * out))
        attributes: dict = {"q_num_heads": heads, "kv_num_heads": shared}
    else:
        keys, values = (g.data(x.dtype, (x.dims[0], shared, other, d)) for d in (depth, out))
        attributes = {}
    operands: list[Value | str] = [x, keys, values]
    rows = x.dims[-2]
    if g.chance(0.4) and isinstance(rows, int) and isinstance(other, int) and rows and other:
        allowed = g.rng.random((rows, other)) < 0.6
        allowed[:, 0] = True
        bias = np.where(allowed, g.rng.standard_normal(allowed.shape), -1e4)
        operands.append(g.constant(allowed if g.chance(0.5) else bias.astype(np_type(x.dtype))))
    elif g.chance(0.4):
        attributes["is_causal"] = 1
    if g.chance(0.3) or x.dtype == "float64":  # the factor that the op computes itself is rounded to float32 by some
        attributes["scale"] = g.one_of([0.25, 1.0])
    if g.chance(0.2):
        attributes["softcap"] = 2.0
    g.add("Attention", operands, 1, **attributes)


@applies(1)
def rms_normalization(g: Maker) -> None:
    x = g.value(("float32", "float16"), 1)
    if g.opset >= 23 and g.chance(0.5):
        axis = g.fixed_axis(x)
        if not all(isinstance(d, int) for d in x.dims[axis:]):
            raise Stuck
        g.add("RMSNormalization", [x, g.data(x.dtype, x.dims[axis:])], axis=axis)
        return
    g.filled(x.dims[-1])
    squares = g.add("Mul", [x, x])[0] if g.chance(0.5) else g.add("Pow", [x, g.scalar(2, x.dtype)])[0]
    mean = g.add("ReduceMean", [squares, g.ints(-1)], keepdims=1)[0]
    root = g.add("Sqrt", [g.add("Add", [mean, g.scalar(1e-3, x.dtype)])[0]])[0]
    scaled = g.add("Div", [x, root]) if g.chance(0.5) else g.add("Mul", [x, g.add("Reciprocal", [root])[0]])
    if isinstance(x.dims[-1], int):
        g.add("Mul", [scaled[0], g.data(x.dtype, x.dims[-1:])])


@applies(0.7)
def rotary_op(g: Maker) -> None:
    x = g.floating(4, 4)
    half = x.dims[3]
    if g.opset < 23 or not isinstance(half, int) or half < 2 or half % 2:
        raise Stuck
    tables = (g.data(x.dtype, (x.dims[0], x.dims[2], half // 2)) for _ in range(2))
    g.add("RotaryEmbedding", [x, *tables], interleaved=g.integer(0, 1))


@applies(1)
def gated(g: Maker) -> None:
    """x sigmoid(x) times a gate; Swish of opset 24."""
    x = g.floating()
    if g.opset >= 24 and g.chance(0.5):
        y = g.add("Swish", [x], alpha=g.one_of([1.0, 1.5]))[0]
    else:
        y = g.add("Mul", [x, g.add("Sigmoid", [x])[0]])[0]
    if g.chance(0.5):
        g.add("Mul", [y, g.partner(y)])
