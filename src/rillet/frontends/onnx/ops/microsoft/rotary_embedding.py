"""RotaryEmbedding of ONNX Runtime (domain ``com.microsoft``): pairs of features turned by an angle of their position.

Source: github.com/microsoft/onnxruntime, docs/ContribOperators.md.
"""

from __future__ import annotations

from rillet.frontends.building.conversions import convert
from rillet.frontends.building.scalars import Scalar
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.gather import gather_along
from rillet.frontends.onnx.ops.microsoft.attention_product import SIZES, heads
from rillet.frontends.onnx.registry import op

_DOMAIN = "com.microsoft"


@op("RotaryEmbedding", domain=_DOMAIN)
def rotary_embedding(node: Node, x: Tensor, positions: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """``x`` with each pair of features turned by the angle of its position.

    ``x`` is [batch, sequence, heads x width] or [batch, heads, sequence, width]. ``positions`` are all positions, or
    the first one, from which they count up. Raises InvalidNode for dimensions that do not fit, and UnsupportedFeature
    for packed batches and scales.
    """
    b, e = node.b, node.b.extents
    if node.attr("is_packed_batching", 0):
        raise UnsupportedFeature("is_packed_batching", "export the model with sequences of one length")
    if float(node.attr("scale", 1.0)) != 1.0:
        raise UnsupportedFeature("a scale other than 1", "scale the caches of cosines and sines")
    interleaved = bool(node.attr("interleaved", 0))
    count, turned = node.attr("num_heads", 0), node.attr("rotary_embedding_dim", 0)
    if count < 0:
        raise InvalidNode(f"num_heads is {count}")
    if turned and not count:
        raise InvalidNode("rotary_embedding_dim needs num_heads")
    if turned < 0 or turned % 2:
        raise InvalidNode(f"rotary_embedding_dim is {turned}; features turn in pairs")
    cosines = b.refine(cosines, [None, None], "cos_cache")
    if x.rank == 4:
        apart = b.transpose(x, [0, 2, 1, 3])
    elif x.rank == 3 and count:
        apart = heads(node, x, count, "the input")
    elif x.rank == 3:
        width = e.mul(2, cosines.shape[1])
        apart = b.reshape(x, [*x.shape[:2], e.floordiv(x.shape[2], width), width])
    else:
        raise InvalidNode(f"the input has rank {x.rank}; it has three or four dimensions")
    width = apart.shape[3]
    if isinstance(width, int) and turned > width:
        raise InvalidNode(f"rotary_embedding_dim is {turned}, but heads have {width} features")
    cosines = b.refine(cosines, [None, turned // 2 if turned else e.floordiv(width, 2)], "cos_cache")
    result = rotate(node, apart, angles(node, apart, positions, cosines, sines), interleaved)
    return b.transpose(result, [0, 2, 1, 3]) if x.rank == 4 else b.reshape(result, x.shape)


def angles(node: Node, x: Tensor, positions: Tensor, cosines: Tensor, sines: Tensor) -> list[Tensor]:
    """The caches' rows for the positions of ``x`` [batch, sequence, ..]: [batch or 1, sequence, half of the features
    that turn].

    Raises InvalidNode for positions of another shape.
    """
    b = node.b
    caches = [b.refine(cosines, [None, None], "cos_cache"), b.refine(sines, cosines.shape, "sin_cache")]
    if positions.rank == 2:
        positions = b.refine(positions, x.shape[:2], "position_ids")
        return [gather_along(node, c, positions, 0, from_end=False) for c in caches]
    if positions.rank > 2 or b.extents.product(positions.shape) != 1:
        raise InvalidNode("positions are neither batch x sequence nor one number")
    first = b.value(b.reshape(positions, [1]))

    def rows(cache: Tensor) -> Tensor:
        source = b.value(cache)

        def body(at: list[Scalar]) -> Scalar:
            start = convert(b.element(first, positions.dtype, [0]), "index")
            return b.element(source, cache.dtype, [start + at[1], at[2]])

        return b.indexed(cache.dtype, [1, x.shape[1], cache.shape[1]], body)

    return [rows(c) for c in caches]


def rotate(node: Node, x: Tensor, turns: list[Tensor], interleaved: bool) -> Tensor:
    """Turn the first features of ``x`` [batch, sequence, heads, width] by ``turns``, cosines and sines for each pair of
    features and position. A pair is two neighbours where ``interleaved``, else one feature of each half.

    Raises InvalidNode for caches that do not fit the width, and UnsupportedFeature for an unknown width.
    """
    b, e = node.b, node.b.extents
    cosines, sines = turns
    half, width = cosines.shape[2], x.shape[3]
    turned = e.mul(2, half)
    if not isinstance(half, int) or not isinstance(width, int):
        raise UnsupportedFeature("a width of heads or caches that is known in each call only", SIZES)
    if 2 * half > width:
        raise InvalidNode(f"caches of {half} columns do not fit heads of width {width}")
    front = b.slice_axis(x, 3, 0, turned)
    if interleaved:
        pairs = b.reshape(front, [*x.shape[:3], half, 2])
        real, imaginary = (b.squeeze(b.slice_axis(pairs, 4, n, 1), [4]) for n in (0, 1))
    else:
        real, imaginary = (b.slice_axis(front, 3, n * half, half) for n in (0, 1))
    cosines, sines = (b.unsqueeze(t, [2]) for t in (cosines, sines))
    operands = (real, imaginary, cosines, sines)
    first = b.map(lambda u, v, c, s: u * c - v * s, *operands, shape=real.shape)
    second = b.map(lambda u, v, c, s: u * s + v * c, *operands, shape=real.shape)
    if interleaved:
        stacked = b.concat([b.unsqueeze(t, [4]) for t in (first, second)], 4)
        parts = [b.reshape(stacked, front.shape)]
    else:
        parts = [first, second]
    return b.concat([*parts, b.slice_axis(x, 3, turned, width - 2 * half)], 3)
