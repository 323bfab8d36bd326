"""Normalizations that ONNX Runtime's transformer optimizer writes: of sums, of embeddings, without a mean.

Source: github.com/microsoft/onnxruntime, docs/ContribOperators.md. The sums are kept in the type of their operands,
since they are results as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from rillet.frontends.building import scalars
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.gather import gather_along
from rillet.frontends.onnx.ops.normalization import centered, inverse_root_mean_square, scale_rows
from rillet.frontends.onnx.registry import op
from rillet.ir.builders import Extent

_DOMAIN = "com.microsoft"


@op("SimplifiedLayerNormalization", ignores=["stash_type"])  # in ONNX's own domain, though ONNX does not have it
@op("SimplifiedLayerNormalization", domain=_DOMAIN, ignores=["stash_type"])
def simplified_layer_normalization(node: Node, x: Tensor, scale: Tensor) -> list[Tensor | None]:
    """x / sqrt(mean(x^2) + epsilon) * scale over the dimensions from ``axis`` on, and that inverse root."""
    axis = node.axis(node.attr("axis", -1), x.rank)
    inverse = inverse_root_mean_square(node, x, axis, float(node.attr("epsilon", 1e-5)))
    result = node.b.cast(scale_rows(node, x, x, inverse, axis, scale, None), scale.dtype)
    kept: list[Extent] = [*x.shape[:axis], *[1] * (x.rank - axis)]
    return [result, node.b.reshape(inverse, kept) if node.wants(1) else None][: node.output_count]


@op("SkipLayerNormalization", domain=_DOMAIN)
def skip_layer_normalization(
    node: Node, x: Tensor, skip: Tensor, gamma: Tensor, beta: Tensor | None = None, bias: Tensor | None = None
) -> list[Tensor | None]:
    """LayerNormalization of x + skip (+ bias) over the last dimension, and the sum."""
    total = _sum(node, x, skip, bias)
    return _results(node, layer_normalized(node, total, gamma, beta), total)


@op("SkipSimplifiedLayerNormalization", domain=_DOMAIN)
def skip_simplified_layer_normalization(
    node: Node, x: Tensor, skip: Tensor, gamma: Tensor, bias: Tensor | None = None
) -> list[Tensor | None]:
    """RMSNormalization of x + skip (+ bias) over the last dimension, and the sum."""
    total = _sum(node, x, skip, bias)
    axis = total.rank - 1
    inverse = inverse_root_mean_square(node, total, axis, _epsilon(node))
    gamma = _parameter(node, total, gamma, "gamma")
    return _results(node, scale_rows(node, total, total, inverse, axis, gamma, None), total)


def _sum(node: Node, x: Tensor, skip: Tensor, bias: Tensor | None) -> Tensor:
    """x + skip + bias in the shape of ``x``; the skip may be that of one sequence for all."""
    if not 2 <= skip.rank <= x.rank <= 3:
        raise InvalidNode(f"an input of rank {x.rank} and a skip of rank {skip.rank}; both have 2 or 3 dimensions")
    wanted: list[Extent | None] = list(x.shape[x.rank - skip.rank :])
    if skip.rank == 3 and (skip.shape[0] == 1 or not (isinstance(skip.shape[0], int) or x.shape[0] == 1)):
        wanted[0] = None  # one, or it is asserted to be the batch
    terms = [x, node.b.refine(skip, wanted, "skip")]
    if bias is not None:
        terms.append(_parameter(node, x, bias, "bias"))
    return node.b.map(lambda *values: reduce(lambda a, c: a + c, values), *terms, shape=x.shape)


def _parameter(node: Node, x: Tensor, parameter: Tensor, name: str) -> Tensor:
    """A parameter for each feature of ``x``."""
    return node.b.refine(parameter, x.shape[-1:], name)


def _epsilon(node: Node) -> float:
    epsilon = float(node.attr("epsilon", 1e-12))
    if epsilon < 0:
        raise InvalidNode(f"epsilon is {epsilon:g}; it is not negative")
    return epsilon


def layer_normalized(node: Node, x: Tensor, gamma: Tensor, beta: Tensor | None) -> Tensor:
    """LayerNormalization over the last dimension, whose epsilon is 1e-12 by default."""
    epsilon = _epsilon(node)
    gamma = _parameter(node, x, gamma, "gamma")
    beta = None if beta is None else _parameter(node, x, beta, "beta")
    deviation, _, variance = centered(node, x, [x.rank - 1])
    inverse = node.b.map(lambda v: 1.0 / scalars.sqrt(v + epsilon), variance)
    return scale_rows(node, x, deviation, inverse, x.rank - 1, gamma, beta)


def _results(node: Node, result: Tensor, total: Tensor) -> list[Tensor | None]:
    if node.wants(1) or node.wants(2):
        raise UnsupportedFeature("the statistics that training saves", "export the model for inference")
    return [result, None, None, total][: node.output_count]


@op("EmbedLayerNormalization", domain=_DOMAIN)
def embed_layer_normalization(
    node: Node,
    ids: Tensor,
    segments: Tensor | None,
    words: Tensor,
    places: Tensor,
    types: Tensor | None,
    gamma: Tensor,
    beta: Tensor,
    mask: Tensor | None = None,
    positions: Tensor | None = None,
) -> list[Tensor | None]:
    """LayerNormalization of the sum of the embeddings of word, position and segment; the number of positions of each
    sequence in the mask; and the sum.
    """
    node.attr("mask_index_type", 0)  # describes output 1, which does not depend on it
    total = sum_of_embeddings(node, ids, segments, [words, places, types], positions)
    return [layer_normalized(node, total, gamma, beta), mask_counts(node, ids, mask), total][: node.output_count]


def sum_of_embeddings(
    node: Node,
    ids: Tensor,
    segments: Tensor | None,
    tables: Sequence[Tensor | None],
    positions: Tensor | None = None,
    as_floats: Callable[[Tensor, int], Tensor] = lambda rows, table: rows,
) -> Tensor:
    """The embeddings of words, positions (by default those of the sequence) and segments, added up.

    ``tables`` are those of words, positions and segments; ``as_floats(rows, table)`` makes floats of the rows that were
    read from one of them. Raises InvalidNode where only the ids or only the embedding of segments is given.
    """
    b = node.b
    words, places, types = tables
    if words is None or places is None:
        raise InvalidNode("word_embedding or position_embedding is missing")
    if (segments is None) != (types is None):
        raise InvalidNode("segment_ids and segment_embedding come together or not at all")
    ids, words = b.refine(ids, [None, None], "input_ids"), b.refine(words, [None, None], "word_embedding")
    rows = [None, words.shape[1]]
    places = b.refine(places, rows, "position_embedding")
    terms = [gather_along(node, words, ids, 0, from_end=False)]
    if positions is None:
        terms.append(b.slice_axis(places, 0, 0, ids.shape[1]))
    else:
        batch = None if positions.shape[:1] == (1,) else ids.shape[0]
        positions = b.refine(positions, [batch, ids.shape[1]], "position_ids")
        terms.append(gather_along(node, places, positions, 0, from_end=False))
    if segments is not None and types is not None:
        segments = b.refine(segments, ids.shape, "segment_ids")
        types = b.refine(types, rows, "segment_embedding")
        terms.append(gather_along(node, types, segments, 0, from_end=False))
    terms = [as_floats(term, table) for table, term in enumerate(terms)]
    return b.map(lambda *values: reduce(lambda a, c: a + c, values), *terms, shape=terms[0].shape)


def mask_counts(node: Node, ids: Tensor, mask: Tensor | None) -> Tensor | None:
    """How many ones each row of the mask has, which is output 1; None where that is not used."""
    b = node.b
    mask = None if mask is None else b.refine(mask, ids.shape, "mask")
    if not node.wants(1):
        return None
    if mask is None:
        return b.fill(0, "int32", [ids.shape[0]])
    return b.reduce(mask, [1], 0, lambda v, acc: acc + convert(v == 1, "int32"), dtype="int32")
