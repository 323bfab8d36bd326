"""Operators that ONNX Runtime's optimizers write for other processors: of diffusion models, softmax with a mask.

Source: github.com/microsoft/onnxruntime, docs/ContribOperators.md. It has no kernels of these on the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence

from rillet.frontends.building import scalars
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.scalars import Scalar
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.activation import gelu_of
from rillet.frontends.onnx.ops.normalization import centered
from rillet.frontends.onnx.ops.reduction import softmax_flattened
from rillet.frontends.onnx.registry import op

_DOMAIN = "com.microsoft"


@op("GroupNorm", domain=_DOMAIN)
def group_norm(node: Node, x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta over each of ``groups`` groups, perhaps SiLU of it.

    The channels come last unless ``channels_last=0``. Raises InvalidNode for channels that do not divide into groups.
    """
    b, e = node.b, node.b.extents
    groups, activation = node.attr("groups"), node.attr("activation")
    epsilon = float(node.attr("epsilon", 1e-5))
    if activation not in (0, 1):
        raise InvalidNode(f"activation is {activation}; it is 0 (none) or 1 (SiLU)")
    axis = _channel_axis(node, x)
    channels = x.shape[axis]
    if groups < 1 or (isinstance(channels, int) and channels % groups):
        raise InvalidNode(f"{channels} channels do not divide into {groups} groups")
    split = [groups, e.floordiv(channels, groups)]
    shape = [*x.shape[:axis], *split, *x.shape[axis + 1 :]]
    deviation, _, variance = centered(node, b.reshape(x, shape), [a for a in range(1, len(shape)) if a != axis])
    gamma, beta = (b.reshape(b.refine(t, [channels], name), split) for t, name in ((gamma, "gamma"), (beta, "beta")))

    def body(d: Scalar, v: Scalar, s: Scalar, o: Scalar) -> Scalar:
        y = d / scalars.sqrt(v + epsilon) * convert(s, d.dtype) + convert(o, d.dtype)
        return y / (1.0 + scalars.exp(-y)) if activation else y

    parameters = [(t, [axis, axis + 1]) for t in (gamma, beta)]
    result = b.map_along(body, shape, (deviation, range(len(shape))), (variance, [0, axis]), *parameters, dtype=x.dtype)
    return b.reshape(result, x.shape)


def _channel_axis(node: Node, x: Tensor) -> int:
    if x.rank != 4:
        raise InvalidNode(f"the input has rank {x.rank}, not 4")
    return 3 if node.attr("channels_last", 1) else 1


@op("SkipGroupNorm", domain=_DOMAIN)
def skip_group_norm(
    node: Node, x: Tensor, gamma: Tensor, beta: Tensor, skip: Tensor, bias: Tensor | None = None
) -> Sequence[Tensor]:
    """GroupNorm of x + skip (+ bias), and the sum. The skip may be one number for each channel of an image."""
    b = node.b
    axis = _channel_axis(node, x)
    channels = x.shape[axis]
    spread = [1 if a not in (0, axis) else d for a, d in enumerate(x.shape)]
    if skip.rank == 2:
        skip = b.reshape(b.refine(skip, [x.shape[0], channels], "skip"), spread)
    wanted = [None if skip.rank == 4 and s == 1 else d for s, d in zip(skip.shape, x.shape, strict=False)]
    skip = b.refine(skip, wanted if skip.rank == 4 else x.shape, "skip")
    total = b.map(lambda v, s: v + s, x, skip, shape=x.shape)
    if bias is not None:
        bias = b.refine(bias, [channels], "bias")
        every = range(4)
        total = b.map_along(lambda v, c: v + c, x.shape, (total, every), (bias, [axis]), dtype=x.dtype)
    return [group_norm(node, total, gamma, beta), total][: node.output_count]


@op("BiasSplitGelu", domain=_DOMAIN)
def bias_split_gelu(node: Node, x: Tensor, bias: Tensor) -> Tensor:
    """The first half of x + bias along the last dimension, times Gelu of the second half."""
    b, e = node.b, node.b.extents
    last = x.rank - 1
    bias = b.refine(bias, x.shape[-1:], "bias")
    if isinstance(x.shape[last], int) and x.shape[last] % 2:
        raise InvalidNode(f"the last dimension is {x.shape[last]}; it has two halves")
    half = e.floordiv(x.shape[last], 2)
    left, right = (b.slice_axis(x, last, first, half) for first in (0, half))
    left_bias, right_bias = (b.slice_axis(bias, 0, first, half) for first in (0, half))
    return b.map(lambda v, w, c, d: (v + c) * gelu_of(w + d), left, right, left_bias, right_bias, shape=left.shape)


@op("BiasSoftmax", domain=_DOMAIN, ignores=["is_inner_broadcast"])  # the shape of the bias says as much
def bias_softmax(node: Node, x: Tensor, bias: Tensor) -> Tensor:
    """Softmax of x + bias over all dimensions from ``axis`` on."""
    return softmax_flattened(node, node.b.map(lambda v, c: v + c, x, bias, shape=x.shape))
