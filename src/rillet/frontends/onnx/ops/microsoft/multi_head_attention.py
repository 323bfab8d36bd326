"""Attention and MultiHeadAttention of ONNX Runtime (domain ``com.microsoft``), which its transformer optimizer writes.

Source: github.com/microsoft/onnxruntime, docs/ContribOperators.md. Masked scores get ``mask_filter_value`` added rather
than minus infinity, so rows in which all keys are masked have finite weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import accumulate

from torch_mlir import ir

from rillet.frontends.building.conversions import convert
from rillet.frontends.building.loops import scalar_of
from rillet.frontends.building.scalars import Scalar, constant, select
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.matmul import multiply
from rillet.frontends.onnx.ops.microsoft.attention_product import Place, Step, attend, bias_step, head_count, heads
from rillet.frontends.onnx.registry import op
from rillet.ir.builders import Extent

_DOMAIN = "com.microsoft"


@op("Attention", domain=_DOMAIN)
def attention(
    node: Node,
    x: Tensor,
    weights: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    past: Tensor | None = None,
    attention_bias: Tensor | None = None,
    past_length: Tensor | None = None,
) -> list[Tensor | None]:
    """Self-attention of ``x`` with one weight for the projections to queries, keys and values.

    Raises UnsupportedFeature for a shared buffer or ``do_rotary``, and InvalidNode for weights that do not fit.
    """
    b = node.b
    if past_length is not None:
        raise UnsupportedFeature("a buffer that past and present share", "export the model without it")
    node.attr("rotary_embedding_dim", 0)  # of a rotation, which there is none
    bias = None if bias is None else b.refine(bias, weights.shape[1:], "bias")

    def project(first: int, size: int) -> Tensor:
        product = multiply(node, x, b.slice_axis(weights, 1, first, size))
        return product if bias is None else b.map(lambda v, c: v + c, product, b.slice_axis(bias, 0, first, size))

    return attend_to_itself(node, weights, project, mask, past, attention_bias)


def attend_to_itself(
    node: Node,
    weights: Tensor,
    project: Callable[[int, int], Tensor],
    mask: Tensor | None,
    past: Tensor | None,
    attention_bias: Tensor | None = None,
) -> list[Tensor | None]:
    """The outputs of Attention. ``project(first, size)`` is the projection by ``size`` columns of the weights from the
    ``first`` on, as [batch, sequence, size].

    Raises UnsupportedFeature for a shared buffer or ``do_rotary``, and InvalidNode for weights that do not fit.
    """
    b = node.b
    if node.attr("past_present_share_buffer", 0):
        raise UnsupportedFeature("a buffer that past and present share", "export the model without it")
    if node.attr("do_rotary", 0):
        raise UnsupportedFeature("do_rotary", "rotate with RotaryEmbedding")
    if weights.rank != 2 or not isinstance(weights.shape[1], int):
        raise InvalidNode("the weights are not a matrix of known width")
    count = head_count(node)
    sizes = node.attr("qkv_hidden_sizes", None) or [weights.shape[1] // 3] * 3
    if len(sizes) != 3 or sum(sizes) != weights.shape[1]:
        raise InvalidNode(f"the weights have {weights.shape[1]} columns, which are not three times those of {sizes}")
    if min(sizes) < 1:
        raise InvalidNode(f"qkv_hidden_sizes are {sizes}; they are positive")
    # One product each: the parts of a single one could not be merged into what follows.
    firsts = accumulate(sizes[:2], initial=0)
    q, k, v = (
        heads(node, project(first, size), count, "the projection") for first, size in zip(firsts, sizes, strict=True)
    )
    k, v = (b.transpose(t, [0, 2, 1, 3]) for t in (k, v))
    before: Extent = 0
    if past is not None:
        before = past.shape[3] if past.rank == 5 else 0
        past = b.refine(past, [2, *k.shape[:2], before, k.shape[3]], "past")
        halves = [b.reshape(b.slice_axis(past, 0, n, 1), past.shape[1:]) for n in (0, 1)]
        k, v = (b.concat([old, new], 2) for old, new in zip(halves, (k, v), strict=True))
    present = b.concat([b.unsqueeze(t, [0]) for t in (k, v)], 0) if node.wants(1) else None
    steps = _steps(node, q, k, mask, attention_bias, before)
    return [attend(node, q, k, v, float(node.attr("scale", 0.0)), steps, continues=before != 0), present][
        : node.output_count
    ]


@op("MultiHeadAttention", domain=_DOMAIN)
def multi_head_attention(
    node: Node,
    query: Tensor,
    key: Tensor | None = None,
    value: Tensor | None = None,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    attention_bias: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    past_length: Tensor | None = None,
    indirection: Tensor | None = None,
) -> list[Tensor]:
    """Attention of projected queries to projected keys and values; ``bias`` is that of the projections, if still to be
    added.

    Raises UnsupportedFeature for a shared buffer or the scores as an output, and InvalidNode for half a past.
    """
    b = node.b
    if past_length is not None or indirection is not None:
        raise UnsupportedFeature("a buffer that past and present share", "export the model without it")
    if node.wants(3):
        raise UnsupportedFeature("the scores as an output", "remove output 'qk'")
    if (past_key is None) != (past_value is None):
        raise InvalidNode("past_key and past_value come together or not at all")
    q, k, v = _operands(node, query, key, value, bias)
    before: Extent = 0
    if past_key is not None and past_value is not None:
        before = past_key.shape[2] if past_key.rank == 4 else 0
        k, v = (
            b.concat([b.refine(past, [*new.shape[:2], before, new.shape[3]], name), new], 2)
            for past, new, name in ((past_key, k, "past_key"), (past_value, v, "past_value"))
        )
    steps = _steps(node, q, k, mask, attention_bias, before)
    return [attend(node, q, k, v, float(node.attr("scale", 0.0)), steps, continues=before != 0), k, v][
        : node.output_count
    ]


def _operands(
    node: Node, query: Tensor, key: Tensor | None, value: Tensor | None, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries of [batch, sequence, heads, width], keys and values of [batch, heads, sequence, width]."""
    b = node.b
    count = head_count(node)
    is_past = key is not None and key.rank == 4
    if key is None and query.rank == 5:
        query = b.refine(query, [None, None, count, 3, None], "query")
        parts = [_part(node, query, n) for n in range(3)]
    elif key is not None and key.rank == 5:
        q = heads(node, query, count, "the query")
        key = b.refine(key, [q.shape[0], None, count, 2, q.shape[3]], "key")
        parts = [q, *(_part(node, key, n) for n in range(2))]
    elif key is not None and value is not None and is_past:
        q = heads(node, query, count, "the query")
        key = b.refine(key, [q.shape[0], count, None, q.shape[3]], "key")
        parts = [q, key, b.refine(value, [*key.shape[:3], None], "value")]
    elif key is not None and value is not None:
        q = heads(node, query, count, "the query")
        key = b.refine(key, [query.shape[0], None, query.shape[2]], "key")
        value = b.refine(value, [*key.shape[:2], None], "value")
        parts = [q, *(heads(node, t, count, what) for t, what in ((key, "the key"), (value, "the value")))]
    else:
        raise InvalidNode("key and value are missing, and the query is not packed with them in five dimensions")
    if bias is not None:
        offset: Extent = 0
        biased = parts[:1] if is_past else parts
        sizes = [b.extents.mul(count, part.shape[3]) for part in parts]
        bias = b.refine(bias, [b.extents.sum(sizes)], "bias")
        for n, part in enumerate(biased):
            size = sizes[n]
            own = b.reshape(b.slice_axis(bias, 0, offset, size), part.shape[2:])
            parts[n] = b.map(lambda x, c: x + c, part, own, shape=part.shape)
            offset = b.extents.add(offset, size)
    q, k, v = parts
    return (q, k, v) if is_past else (q, b.transpose(k, [0, 2, 1, 3]), b.transpose(v, [0, 2, 1, 3]))


def _part(node: Node, packed: Tensor, number: int) -> Tensor:
    """One part of a packed [batch, sequence, heads, parts, width]."""
    shape = [*packed.shape[:3], packed.shape[4]]
    return node.b.reshape(node.b.slice_axis(packed, 3, number, 1), shape)


def _steps(
    node: Node, q: Tensor, k: Tensor, mask: Tensor | None, attention_bias: Tensor | None, before: Extent
) -> list[Step]:
    """The steps that add to the scores; ``before`` keys are of the past."""
    shape = [q.shape[0], q.shape[2], q.shape[1], k.shape[2]]
    steps = [] if attention_bias is None else [bias_step(node, attention_bias, shape)]
    filtered = float(node.attr("mask_filter_value", -10000.0))
    if mask is not None:
        steps.append(_mask_step(node, mask, q.shape[0], k.shape[2], q.shape[1], before, filtered))
    if node.attr("unidirectional", 0):
        old = constant(before, "index") if isinstance(before, int) else Scalar(before, "index")

        def causal(score: Scalar, place: Place) -> Scalar:
            return select(place.key > place.query + old, constant(-math.inf, score.dtype), score)

        steps.append(Step(causal))
    return steps


def _ends_step(node: Node, mask: Tensor, batch: Extent, masked: Callable[[Scalar, Scalar], Scalar]) -> Step:
    """Shows the keys from a start to before an end; only at run time it is known whether the mask has starts after
    ends.
    """
    b, e = node.b, node.b.extents
    has_starts = e.compare("eq", mask.shape[0], e.mul(2, batch))
    text = "the mask has {0} numbers, for {1} sequences neither one nor two each"
    b.require("eq", mask.shape[0], batch, text, or_else=has_starts)
    flag = constant(has_starts, "bool") if isinstance(has_starts, bool) else Scalar(has_starts, "bool")
    source, behind = b.value(mask), scalar_of(batch)

    def body(score: Scalar, place: Place) -> Scalar:
        end = convert(b.element(source, mask.dtype, [place.batch]), "index")
        second = convert(b.element(source, mask.dtype, [select(flag, place.batch + behind, place.batch)]), "index")
        return masked(score, (place.key >= end) | (place.key < select(flag, second, 0)))

    return Step(body)


def _mask_step(
    node: Node, mask: Tensor, batch: Extent, keys: Extent, queries: Extent, before: Extent, filtered: float
) -> Step:
    b, e = node.b, node.b.extents

    def masked(score: Scalar, outside: Scalar) -> Scalar:
        return select(outside, score + filtered, score)

    # Of MultiHeadAttention's masks of one dimension the only other form has 3 x batch + 2 numbers.
    other = e.add(e.mul(3, batch), 2)
    is_length = node.op_type == "MultiHeadAttention" and mask.rank == 1 and not e.equal(mask.shape[0], other)
    if is_length:
        b.agree(mask.shape[0], batch)
    if is_length or (mask.rank == 1 and e.equal(mask.shape[0], batch)):
        return Step(lambda v, place, end: masked(v, place.key >= convert(end, "index")), [(mask, "b")])
    if mask.rank == 1 and e.equal(mask.shape[0], e.mul(2, batch)):

        def body(v: Scalar, place: Place, end: Scalar, start: Scalar) -> Scalar:
            return masked(v, (place.key >= convert(end, "index")) | (place.key < convert(start, "index")))

        ends, starts = b.slice_axis(mask, 0, 0, batch), b.slice_axis(mask, 0, batch, batch)
        return Step(body, [(ends, "b"), (starts, "b")])
    if mask.rank == 1 and isinstance(e.compare("eq", mask.shape[0], batch), ir.Value):
        return _ends_step(node, mask, batch, masked)
    if mask.rank == 1:
        raise UnsupportedFeature(
            "a mask of one dimension that is neither the batch nor twice that", "give a mask of batch x keys"
        )
    if mask.rank == 4:  # of all positions that there may be
        mask = b.refine(mask, [None, 1, None, None], "mask")
        square = b.reshape(mask, [mask.shape[0], *mask.shape[2:]])
        mask = b.slice(square, [0, before, 0], [square.shape[0], queries, keys])
    if mask.rank not in (2, 3):
        raise InvalidNode(f"a mask of rank {mask.rank}; it has one to four dimensions")
    letters = "bt" if mask.rank == 2 else "bst"
    whole = [batch, keys] if mask.rank == 2 else [batch, queries, keys]
    mask = b.refine(mask, whole, "mask")
    return Step(lambda v, _, m: masked(v, m == 0), [(mask, letters)])
