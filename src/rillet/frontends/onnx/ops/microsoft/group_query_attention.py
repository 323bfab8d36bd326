"""GroupQueryAttention of ONNX Runtime (domain ``com.microsoft``), which exporters of large language models write.

Source: github.com/microsoft/onnxruntime, docs/ContribOperators.md. Each sequence of the batch has its own length,
``seqlens_k + 1``, which includes the new positions. The new positions follow those kept of the past, which may be a
buffer with room for more. The present has as many positions as that buffer or the longest sequence, whichever has more;
unused ones are zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rillet.dialects import linalg
from rillet.frontends.building.branches import either
from rillet.frontends.building.checks import require
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.loops import for_each, scalar_of, store
from rillet.frontends.building.scalars import Scalar, constant, maximum, select
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.microsoft.attention_product import Place, Step, attend, bias_step, head_count, heads
from rillet.frontends.onnx.ops.microsoft.rotary_embedding import angles, rotate
from rillet.frontends.onnx.ops.normalization import inverse_root_mean_square, scale_rows
from rillet.frontends.onnx.registry import op
from rillet.ir import locations
from rillet.ir.builders import Extent

# Without a quantized cache, an output of scores, or weights of norms.
_WITHOUT_EFFECT = ["kv_cache_bit_width", "qk_output", "qk_norm_epsilon", "q_norm_epsilon", "k_norm_epsilon"]


@dataclass(frozen=True)
class _Lengths:
    """``old`` (int64 [batch]) counts the positions of each sequence that are kept of the past, and ``whole`` these and
    the new ones. ``longest`` is the given bound of ``whole``.
    """

    old: Tensor
    whole: Tensor
    longest: Extent


@op("GroupQueryAttention", domain="com.microsoft", ignores=_WITHOUT_EFFECT)
def group_query_attention(
    node: Node,
    query: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    past_key: Tensor | None,
    past_value: Tensor | None,
    seqlens_k: Tensor,
    total_length: Tensor,
    cosines: Tensor | None = None,
    sines: Tensor | None = None,
    positions: Tensor | None = None,
    attention_bias: Tensor | None = None,
    head_sink: Tensor | None = None,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
    q_norm: Tensor | None = None,
    k_norm: Tensor | None = None,
    query_seqlens: Tensor | None = None,
) -> list[Tensor]:
    """Attention in which ``num_heads`` / ``kv_num_heads`` queries share a key, and the present keys and values.

    Raises InvalidNode where only one of two operands that belong together is given.
    """
    b = node.b
    _check(node, k_scale, v_scale)
    if (past_key is None) != (past_value is None):
        raise InvalidNode("past_key and past_value come together or not at all")
    q, k, v = _operands(node, query, key, value)
    lengths = _lengths(node, q.shape[:2], seqlens_k, total_length, query_seqlens)
    if (q_norm is None) != (k_norm is None):
        raise InvalidNode("q_norm_weight and k_norm_weight come together or not at all")
    if q_norm is not None and k_norm is not None:
        q, k = _normalized(node, q, q_norm, "q"), _normalized(node, k, k_norm, "k")
    if node.attr("do_rotary", 0):
        if cosines is None or sines is None:
            raise InvalidNode("do_rotary needs the caches of cosines and sines")
        where = _positions(node, q.shape[1], lengths, positions)
        turns = angles(node, q, where, cosines, sines)
        interleaved = bool(node.attr("rotary_interleaved", 0))
        q, k = (rotate(node, t, turns, interleaved) for t in (q, k))
    else:
        node.attr("rotary_interleaved", 0)
    room = _room(past_key)
    keys = _present(node, past_key, room, k, lengths, "past_key")
    values = _present(node, past_value, room, v, lengths, "past_value")
    shape = [q.shape[0], q.shape[2], q.shape[1], lengths.longest]
    steps = [] if attention_bias is None else [bias_step(node, attention_bias, shape)]
    steps.append(_mask(node, lengths))
    if head_sink is not None:
        head_sink = b.refine(head_sink, q.shape[2:3], "head_sink")
    sink = head_sink if head_sink is not None else 0.0 if node.attr("smooth_softmax", -1) == 1 else None
    node.attr("smooth_softmax", -1)  # sinks, where given, replace it
    scale, softcap = float(node.attr("scale", 0.0)), float(node.attr("softcap", 0.0))
    seen_keys, seen_values = (_seen(node, t, lengths.longest) for t in (keys, values))
    result = attend(node, q, seen_keys, seen_values, scale, steps, softcap, sink, past_key is not None)
    return [result, keys, values][: node.output_count]


def _check(node: Node, k_scale: Tensor | None, v_scale: Tensor | None) -> None:
    quantized = {node.attr(f"{n}_quant_type", "NONE") for n in "kv"} != {"NONE"}
    if quantized or k_scale is not None or v_scale is not None:
        raise UnsupportedFeature("a quantized cache", "keep keys and values as floats")
    if node.attr("sliding_window_cache", 0):
        raise UnsupportedFeature("sliding_window_cache", "give the cache room for the whole sequence")
    if node.wants(3):
        raise UnsupportedFeature("the scores as an output", "remove output 'output_qk'")


def _operands(node: Node, query: Tensor, key: Tensor | None, value: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of [batch, sequence, heads, width]."""
    count, groups = head_count(node), head_count(node, "kv_num_heads")
    if count % groups:
        raise InvalidNode(f"{count} heads do not divide into {groups} groups")
    if (key is None) != (value is None):
        raise InvalidNode("key and value come together or not at all")
    if key is not None and value is not None:
        q = heads(node, query, count, "the query")
        key = node.b.refine(key, [*q.shape[:2], node.b.extents.mul(groups, q.shape[3])], "key")
        value = node.b.refine(value, [*q.shape[:2], None], "value")
        return q, heads(node, key, groups, "the key"), heads(node, value, groups, "the value")
    packed = heads(node, query, count + 2 * groups, "the packed query")
    offsets = ((0, count), (count, groups), (count + groups, groups))
    return tuple(node.b.slice_axis(packed, 2, offset, size) for offset, size in offsets)  # type: ignore[return-value]


def _lengths(
    node: Node, shape: Sequence[Extent], seqlens_k: Tensor, total_length: Tensor, query_seqlens: Tensor | None
) -> _Lengths:
    b = node.b
    if seqlens_k.rank == 2:
        seqlens_k = b.squeeze(seqlens_k, [1])
    if seqlens_k.rank != 1:
        raise InvalidNode(f"seqlens_k has rank {seqlens_k.rank}; it has a number for each sequence")
    batch, new = shape
    seqlens_k = b.refine(seqlens_k, [batch], "seqlens_k")
    whole = b.map(lambda v: convert(v, "int64") + 1, seqlens_k, dtype="int64")
    if query_seqlens is None:
        count = scalar_of(new)
        old = b.map(lambda v: maximum(v - convert(count, "int64"), 0), whole)
    else:
        old = b.map(lambda v, n: v - convert(n, "int64"), whole, b.refine(query_seqlens, [batch], "query_seqlens"))
    (longest,) = b.extents_of(total_length, "total_sequence_length", 1)
    if isinstance(longest, ir.Value):
        b.extents.declare(longest)
    b.require("ge", longest, new, "total_sequence_length is {0}, but there are {1} new positions")
    _check_lengths(node, seqlens_k, longest)
    return _Lengths(old, whole, longest)


def _check_lengths(node: Node, seqlens_k: Tensor, longest: Extent) -> None:
    """Assert that each sequence has a position and none more than the longest; once for all nodes that read them."""
    b = node.b
    if not b.extents.first_time(("lengths", b.value(seqlens_k), longest)):
        return
    most = convert(scalar_of(longest), "int64")
    fit = b.map(lambda v: (v >= 0) & (convert(v, "int64") < most), seqlens_k, dtype="bool")
    where = locations.label(ir.Location.current)
    require(b, fit, f"{where}: seqlens_k has a number that is not from 0 to total_sequence_length - 1")


def _normalized(node: Node, x: Tensor, weight: Tensor, which: str) -> Tensor:
    """RMSNormalization of each head."""
    epsilon = float(node.attr(f"{which}_norm_epsilon", node.attr("qk_norm_epsilon", 1e-6)))
    return scale_rows(node, x, x, inverse_root_mean_square(node, x, 3, epsilon), 3, weight, None)


def _positions(node: Node, new: Extent, lengths: _Lengths, given: Tensor | None) -> Tensor:
    """The given position of each new element, [batch, sequence]. A prompt counts up from the first one given."""
    b = node.b
    shape = [lengths.old.shape[0], new]
    source = b.value(lengths.old if given is None else b.refine(given, shape, "position_ids"))
    dtype = "int64" if given is None else given.dtype
    is_prompt = convert(scalar_of(lengths.longest), "int64") == convert(scalar_of(new), "int64")

    def body(at: list[Scalar]) -> Scalar:
        step = convert(at[1], "int64")
        if given is None:
            return b.element(source, dtype, [at[0]]) + step
        counted = convert(b.element(source, dtype, [0, 0]), "int64") + step
        return select(is_prompt, counted, convert(b.element(source, dtype, at), "int64"))

    return b.indexed("int64", shape, body)


def _room(past: Tensor | None) -> Extent:
    """The number of positions that a past has room for."""
    if past is not None and past.rank != 4:
        raise InvalidNode(f"the past has rank {past.rank}; it is batch x heads x positions x width")
    return 0 if past is None else past.shape[2]


def _present(node: Node, past: Tensor | None, room: Extent, new: Tensor, lengths: _Lengths, name: str) -> Tensor:
    """The positions kept of ``past``, then ``new`` [batch, sequence, groups, width], then zeros, as [batch, groups, at
    least ``room``, width].
    """
    b, e = node.b, node.b.extents
    if past is None:
        turned = b.transpose(new, [0, 2, 1, 3])
        return b.pad(turned, [0] * 4, [0, 0, e.sub(lengths.longest, new.shape[1]), 0])
    batch, _, groups, width = new.shape
    past = b.refine(past, [batch, groups, room, width], name)

    def kept(v: Scalar, length: Scalar) -> Scalar:
        position = convert(Scalar(linalg.IndexOp(2).result, "index"), "int64")
        return select(position < length, v, 0)

    whole_room = e.maximum(lengths.longest, room)
    cleared = b.map_along(kept, past.shape, (past, range(4)), (lengths.old, [0]), dtype=past.dtype)
    whole = b.pad(cleared, [0] * 4, [0, 0, e.sub(whole_room, room), 0])
    old = b.value(lengths.old)
    added = b.value(new)

    def append(at: list[Scalar], state: ir.Value) -> ir.Value:
        batch, position, group, feature = at
        target = position + convert(b.element(old, "int64", [batch]), "index")
        return store(b.element(added, new.dtype, at), past.dtype, state, [batch, group, target, feature])

    return b.tensor(for_each(new.shape, [b.value(whole)], append)[0], past.dtype, whole.shape)


def _seen(node: Node, present: Tensor, longest: Extent) -> Tensor:
    """The positions that a query may see: all of the present, or a copy of the filled part of a buffer."""
    b = node.b
    shape = [*present.shape[:2], longest, present.shape[3]]

    def whole() -> Tensor:
        return b.tensor(b.value(present), present.dtype, shape)

    is_full = b.extents.compare("eq", present.shape[2], longest)
    return either(b, is_full, whole, lambda: b.slice_axis(present, 2, 0, longest), present.dtype, shape)


def _mask(node: Node, lengths: _Lengths) -> Step:
    """Hides the keys after the query or, without ``causal``, after the sequence's end; a window also hides those before
    it.
    """
    window, causal = node.attr("local_window_size", -1), node.attr("causal", 1)
    if window != -1 and window < 1:
        raise InvalidNode(f"local_window_size is {window}; it is positive, or -1 where there is none")
    if not causal and window > 0:
        raise InvalidNode("a window needs causal=1")

    def body(score: Scalar, place: Place, limit: Scalar) -> Scalar:
        key = convert(place.key, "int64")
        if causal:
            last = limit + convert(place.query, "int64")
            is_seen = key <= last
            if window > 0:
                is_seen = is_seen & (key > last - window)
        else:
            is_seen = key < limit
        return select(is_seen, score, constant(-math.inf, score.dtype))

    return Step(body, [(lengths.old if causal else lengths.whole, "b")])
