"""Normalizations: reductions and elementwise generics with per-channel and per-row operands read through their maps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rillet.frontends.building import element_types, scalars
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.scalars import Scalar, constant
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.reduction import count_of, mean
from rillet.frontends.onnx.registry import op
from rillet.ir import builders


@op("BatchNormalization", since=6, ignores=["momentum"])
def batch_normalization(
    node: Node, x: Tensor, scale: Tensor, bias: Tensor, mu: Tensor, variance: Tensor
) -> list[Tensor]:
    """y = (x - mean) / sqrt(variance + epsilon) * scale + bias, with known parameters folded to one multiply-add.

    Raises UnsupportedFeature for training before opset 14.
    """
    b = node.b
    epsilon = float(node.attr("epsilon", 1e-5))
    if node.opset >= 14 and node.attr("training_mode", 0):
        return _batch_normalization_in_training(node, x, scale, bias, mu, variance)
    if node.attr("training_mode", 0) or (node.opset < 7 and not node.attr("is_test", 0)):
        raise UnsupportedFeature("training mode", "export the model for inference")
    if node.wants(1):
        raise UnsupportedFeature("outputs of training", "export the model for inference")
    if x.rank < 2:
        x = b.unsqueeze(x, [1])
    every = range(x.rank)
    if all(t.array is not None for t in (scale, bias, mu, variance)):
        s, o, m, v = (np.asarray(t.array, np.float64) for t in (scale, bias, mu, variance))
        dtype = np.float64 if x.dtype == "float64" else np.float32
        with np.errstate(all="ignore"):
            factor = s / np.sqrt(v + epsilon)
            a = b.constant(factor.astype(dtype), name=scale.name)
            c = b.constant((o - m * factor).astype(dtype), name=bias.name)
        return [b.map_along(lambda x, a, c: x * a + c, x.shape, (x, every), (a, [1]), (c, [1]), dtype=x.dtype)]

    def body(x: Scalar, s: Scalar, o: Scalar, m: Scalar, v: Scalar) -> Scalar:
        m, v, s, o = (convert(p, x.dtype) for p in (m, v, s, o))
        return (x - m) / scalars.sqrt(v + epsilon) * s + o

    parameters = [(t, [1]) for t in (scale, bias, mu, variance)]
    return [b.map_along(body, x.shape, (x, every), *parameters, dtype=x.dtype)]


def _batch_normalization_in_training(
    node: Node, x: Tensor, scale: Tensor, bias: Tensor, mu: Tensor, variance: Tensor
) -> list[Tensor]:
    """Normalize by the batch's own statistics; the running ones move towards them by 1 - momentum."""
    b = node.b
    epsilon, momentum = float(node.attr("epsilon", 1e-5)), float(node.attr("momentum", 0.9))
    every = range(x.rank)
    deviation, mean_, spread = centered(node, x, [a for a in every if a != 1])

    def body(d: Scalar, v: Scalar, s: Scalar, o: Scalar) -> Scalar:
        return d / scalars.sqrt(v + epsilon) * convert(s, d.dtype) + convert(o, d.dtype)

    result = b.map_along(body, x.shape, (deviation, every), (spread, [1]), (scale, [1]), (bias, [1]), dtype=x.dtype)

    def update(old: Scalar, new: Scalar) -> Scalar:
        return old * momentum + convert(new, old.dtype) * (1.0 - momentum)

    return [result, b.map(update, mu, mean_), b.map(update, variance, spread)][: node.output_count]


def centered(node: Node, x: Tensor, axes: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
    """``x - mean``, the mean, and the variance of ``x - mean`` over ``axes`` (which disappear from mean and variance).

    Two passes: the variance of the centered values does not cancel as E[x^2] - E[x]^2 does.
    """
    b = node.b
    every = range(x.rank)
    kept = [a for a in every if a not in axes]
    mu = mean(node, x, axes)
    deviation = b.map_along(lambda v, m: convert(v, m.dtype) - m, x.shape, (x, every), (mu, kept), dtype=mu.dtype)
    squares = b.reduce(deviation, axes, 0, lambda v, acc: acc + v * v)
    count = count_of(node, x, axes)
    variance = b.map(lambda v: v / convert(count, v.dtype), squares)
    return deviation, mu, variance


@op("LayerNormalization")  # ONNX Runtime's optimizer writes it into models of opsets before 17, too
def layer_normalization(node: Node, x: Tensor, scale: Tensor, bias: Tensor | None = None) -> list[Tensor | None]:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias over the dimensions from ``axis`` on.

    Mean and 1/sqrt(variance + epsilon) are results too when they are used. ``stash_type`` is the type of these two; the
    computation is never less precise than the input.
    """
    b = node.b
    axis = node.axis(node.attr("axis", -1), x.rank)
    axes = list(range(axis, x.rank))
    epsilon = float(node.attr("epsilon", 1e-5))
    stash = node.dtype_attr("stash_type", "float32")
    source = b.cast(x, stash) if stash == "float64" else x
    deviation, mu, variance = centered(node, source, axes)
    inverse = b.map(lambda v: 1.0 / scalars.sqrt(v + epsilon), variance)
    result = scale_rows(node, x, deviation, inverse, axis, scale, bias)
    statistics_shape = [*x.shape[:axis], *[1] * len(axes)]
    extra = [
        b.reshape(b.cast(t, stash), statistics_shape) if node.wants(i) else None for i, t in ((1, mu), (2, inverse))
    ]
    return [result, *extra][: node.output_count]


def scale_rows(
    node: Node, x: Tensor, deviation: Tensor, inverse: Tensor, axis: int, scale: Tensor, bias: Tensor | None
) -> Tensor:
    """deviation * inverse (a value for each row) * scale + bias (both broadcast to the trailing dimensions)."""
    b = node.b
    every = list(range(x.rank))
    operands: list[tuple[Tensor, Sequence[int]]] = [(deviation, every), (inverse, every[:axis])]
    for parameter in (scale, bias):
        if parameter is None:
            continue
        offset = x.rank - parameter.rank
        kept = [a for a in range(parameter.rank) if not (parameter.shape[a] == 1 and x.shape[a + offset] != 1)]
        if len(kept) != parameter.rank:
            parameter = b.drop_unit_dims(parameter, kept)
        operands.append((parameter, [a + offset for a in kept]))

    def body(d: Scalar, r: Scalar, s: Scalar, o: Scalar | None = None) -> Scalar:
        y = d * r * convert(s, d.dtype)
        return y if o is None else y + convert(o, d.dtype)

    return b.map_along(body, x.shape, *operands, dtype=x.dtype)


@op("RMSNormalization", since=23)
def rms_normalization(node: Node, x: Tensor, scale: Tensor) -> Tensor:
    """x / sqrt(mean(x^2) + epsilon) * scale over the dimensions from ``axis`` on."""
    axis = node.axis(node.attr("axis", -1), x.rank)
    inverse = inverse_root_mean_square(node, x, axis, float(node.attr("epsilon", 1e-5)))
    return scale_rows(node, x, x, inverse, axis, scale, None)


def inverse_root_mean_square(node: Node, x: Tensor, axis: int, epsilon: float) -> Tensor:
    """1 / sqrt(mean(x^2) + epsilon) over the dimensions from ``axis`` on, which disappear."""
    b = node.b
    axes = list(range(axis, x.rank))
    squares = b.reduce(x, axes, 0, lambda v, acc: acc + v * v)
    count = count_of(node, x, axes)
    return b.map(lambda v: 1.0 / scalars.sqrt(v / convert(count, v.dtype) + epsilon), squares)


@op("InstanceNormalization", since=6)
def instance_normalization(node: Node, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) scale + bias, over the spatial dimensions of each channel.

    x is [batch, channels, spatial...], scale and bias are [channels]. Raises InvalidNode for an x of rank below 3.
    """
    if x.rank < 3:
        raise InvalidNode(f"the input has rank {x.rank}; it needs 2 + spatial dimensions")
    return _normalize_channels(node, x, list(range(2, x.rank)), scale, bias)


def _normalize_channels(node: Node, x: Tensor, axes: list[int], scale: Tensor, bias: Tensor) -> Tensor:
    b = node.b
    epsilon = float(node.attr("epsilon", 1e-5))
    deviation, _, variance = centered(node, x, axes)
    kept = [a for a in range(x.rank) if a not in axes]

    def body(d: Scalar, v: Scalar, s: Scalar, o: Scalar) -> Scalar:
        return d / scalars.sqrt(v + epsilon) * convert(s, d.dtype) + convert(o, d.dtype)

    every = range(x.rank)
    return b.map_along(body, x.shape, (deviation, every), (variance, kept), (scale, [1]), (bias, [1]), dtype=x.dtype)


@op("GroupNormalization", since=18)
def group_normalization(node: Node, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias over each of ``num_groups`` groups of channels.

    Scale and bias are per group in opset 18..20 and per channel from opset 21 on. Raises InvalidNode for channels that
    do not divide into the groups.
    """
    b, e = node.b, node.b.extents
    groups = node.attr("num_groups")
    epsilon = float(node.attr("epsilon", 1e-5))
    channels = x.shape[1]
    if isinstance(channels, int) and channels % groups:
        raise InvalidNode(f"{channels} channels do not divide into {groups} groups")
    shape = [x.shape[0], groups, e.floordiv(channels, groups), *x.shape[2:]]
    grouped = b.reshape(x, shape)
    deviation, _, variance = centered(node, grouped, list(range(2, grouped.rank)))
    if node.opset < 21:
        parameters = [(scale, [1]), (bias, [1])]
    else:
        parameters = [(b.reshape(t, shape[1:3]), [1, 2]) for t in (scale, bias)]

    def body(d: Scalar, v: Scalar, s: Scalar, o: Scalar) -> Scalar:
        return d / scalars.sqrt(v + epsilon) * convert(s, d.dtype) + convert(o, d.dtype)

    every = range(grouped.rank)
    result = b.map_along(body, shape, (deviation, every), (variance, [0, 1]), *parameters, dtype=x.dtype)
    return b.reshape(result, x.shape)


@op("MeanVarianceNormalization", since=9)
def mean_variance_normalization(node: Node, x: Tensor) -> Tensor:
    """(x - mean) / (sqrt(variance) + 1e-9) over ``axes`` (default: 0, 2, 3), as ONNX's function body says."""
    b = node.b
    axes = node.axes(node.attr("axes", [0, 2, 3]), x.rank)
    deviation, _, variance = centered(node, x, axes)
    kept = [a for a in range(x.rank) if a not in axes]

    def body(d: Scalar, v: Scalar) -> Scalar:
        return d / (scalars.sqrt(v) + 1e-9)

    return b.map_along(body, x.shape, (deviation, range(x.rank)), (variance, kept), dtype=x.dtype)


@op("LpNormalization")
def lp_normalization(node: Node, x: Tensor) -> Tensor:
    """x / norm along ``axis``; zero where the norm is zero."""
    b = node.b
    axis = node.axis(node.attr("axis", -1), x.rank)
    if node.attr("p", 2) == 1:
        norm = b.reduce(x, [axis], 0, lambda v, acc: acc + scalars.absolute(v))
    else:
        norm = b.map(scalars.sqrt, b.reduce(x, [axis], 0, lambda v, acc: acc + v * v))
    kept = [a for a in range(x.rank) if a != axis]

    def body(v: Scalar, n: Scalar) -> Scalar:
        return scalars.select(n == 0, constant(0, n.dtype), v / n)

    return b.map_along(body, x.shape, (x, range(x.rank)), (norm, kept), dtype=x.dtype)


@op("LRN")
def lrn(node: Node, x: Tensor) -> Tensor:
    """x / (bias + alpha / size * sum of squares over ``size`` neighbouring channels) ^ beta."""
    b = node.b
    size = node.attr("size")
    alpha, beta, bias = (float(node.attr(n, d)) for n, d in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)))
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    spatial = [0] * (x.rank - 2)
    padded = b.pad(x, [0, before, *spatial], [0, after, *spatial])
    iterators = "p" * x.rank + "r"
    loops = builders.dims(len(iterators))
    dtype = element_types.compute_dtype(x.dtype)
    neighbours = b.tensor(b.empty(dtype, [size]), dtype, [size])
    positions = [loops[0], loops[1] + loops[-1], *loops[2:-1]]
    output = (b.init(0, dtype, x.shape), loops[:-1], dtype, x.shape)
    squares = b.generic(
        [(padded, positions), (neighbours, loops[-1:])], [output], iterators, lambda v, _, acc: acc + v * v
    )[0]

    def body(v: Scalar, s: Scalar) -> Scalar:
        base = s * (alpha / size) + bias
        if beta == 0.75:  # the common exponent needs two square roots, not pow
            root = scalars.sqrt(base)
            return v / (root * scalars.sqrt(root))
        if beta == 0.5:
            return v / scalars.sqrt(base)
        return v / scalars.power(base, constant(beta, base.dtype))

    return b.map(body, x, squares, dtype=x.dtype)
