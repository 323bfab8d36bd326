"""Conv and ConvTranspose in 1, 2 and 3 dimensions (any number, in fact).

The canonical form, which later stages look for: ``tensor.pad`` when something is padded, a zero fill, and one generic
with loops (n, oc, out..., ic, kernel...); grouped convolutions have operands with the group dimension split off, and
a depthwise one (one input and one output channel a group) has no reduction over channels. The bias is a generic of
its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from rillet.frontends.building import element_types
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.scalars import Scalar, sigmoid
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.shape import reverse
from rillet.frontends.onnx.registry import op
from rillet.frontends.onnx.windows import Window, kernel_of, pads_of, per_axis, window_of
from rillet.ir import builders
from rillet.ir.builders import Extent


@op("Conv")
def conv(node: Node, x: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    """y[n, o, p] = sum over c, k of x[n, c, stride p + dilation k - pad] w[o, c, k], plus bias[o].

    x is [batch, channels, spatial...], the weights are [output channels, channels / group, kernel...]. Raises
    InvalidNode where their shapes do not fit together.
    """
    b = node.b
    groups = node.attr("group", 1)
    _check(node, x, weights, bias)
    channels, per_group = x.shape[1], weights.shape[1]
    if isinstance(channels, int) and isinstance(per_group, int) and channels != per_group * groups:
        raise InvalidNode(f"{channels} input channels, but the weights take {per_group} in each of {groups} groups")
    kernel = kernel_of(node, weights.shape[2:])
    weights = b.refine(weights, [*weights.shape[:2], *kernel])
    window = window_of(node, x.shape[2:], kernel)
    x = b.pad(x, [0, 0, *window.low], [0, 0, *window.high])
    return _with_bias(node, x, weights, bias, groups, window)


def convolve(node: Node, x: Tensor, weights: Tensor, groups: Extent, window: Window, dtype: str) -> Tensor:
    """Convolve a padded input. Accumulates in ``dtype``, which is also the result's.

    Raises InvalidNode for output channels that do not divide into the groups.
    """
    b = node.b
    rank = x.rank - 2
    out_channels = weights.shape[0]
    if isinstance(out_channels, int) and isinstance(groups, int) and out_channels % groups:
        raise InvalidNode(f"{out_channels} output channels do not divide into {groups} groups")
    depthwise = groups != 1 and weights.shape[1] == 1 and b.extents.equal(out_channels, groups)
    batch, out = x.shape[0], list(window.out)
    shape: list[Extent]
    if depthwise:
        weights = b.squeeze(weights, [1])
        lead, shape = "pp", [batch, groups, *out]
    elif groups != 1:
        x = b.reshape(x, [batch, groups, weights.shape[1], *x.shape[2:]])
        weights = b.reshape(weights, [groups, b.extents.floordiv(out_channels, groups), *weights.shape[1:]])
        lead, shape = "ppp", [batch, groups, weights.shape[1], *out]
    else:
        lead, shape = "pp", [batch, out_channels, *out]
    iterators = lead + "p" * rank + ("" if depthwise else "r") + "r" * rank
    loops = builders.dims(len(iterators))
    spatial = loops[len(lead) : len(lead) + rank]
    kernel = loops[len(iterators) - rank :]
    positions = [o * s + k * d for o, s, k, d in zip(spatial, window.strides, kernel, window.dilations, strict=True)]
    reduced = loops[len(lead) + rank]
    if depthwise:
        x_map, w_map = [loops[0], loops[1], *positions], [loops[1], *kernel]
    elif groups != 1:
        x_map, w_map = [loops[0], loops[1], reduced, *positions], [loops[1], loops[2], reduced, *kernel]
    else:
        x_map, w_map = [loops[0], reduced, *positions], [loops[1], reduced, *kernel]

    def body(v: Scalar, w: Scalar, acc: Scalar) -> Scalar:
        return acc + convert(v, acc.dtype) * convert(w, acc.dtype)

    out_map = [*loops[: len(lead)], *spatial]
    output = (b.init(0, dtype, shape), out_map, dtype, shape)
    result = b.generic([(x, x_map), (weights, w_map)], [output], iterators, body)[0]
    return b.reshape(result, [batch, out_channels, *out])


def _check(node: Node, x: Tensor, weights: Tensor, bias: Tensor | None) -> None:
    if x.rank < 3 or weights.rank != x.rank:
        raise InvalidNode(
            f"the input has rank {x.rank} and the weights rank {weights.rank}; both need 2 + spatial dimensions"
        )
    if bias is not None and bias.rank != 1:
        raise InvalidNode(f"the bias has rank {bias.rank}, but must have one dimension")


def _with_bias(node: Node, x: Tensor, weights: Tensor, bias: Tensor | None, groups: Extent, window: Window) -> Tensor:
    """Convolve a padded input and add the bias. Narrow floats are summed in f32 and rounded once."""
    b = node.b
    product = convolve(node, x, weights, groups, window, element_types.compute_dtype(x.dtype))
    if bias is None:
        return b.cast(product, x.dtype)
    channels = product.shape[1]
    if isinstance(bias.shape[0], int) and isinstance(channels, int) and bias.shape[0] != channels:
        raise InvalidNode(f"the bias has {bias.shape[0]} elements for {channels} output channels")
    return b.map_along(lambda v, c: v + c, product.shape, (product, range(x.rank)), (bias, [1]), dtype=x.dtype)


@op("CausalConvWithState", since=27)
def causal_conv_with_state(
    node: Node, x: Tensor, weights: Tensor, bias: Tensor | None = None, past: Tensor | None = None
) -> list[Tensor]:
    """A depthwise convolution over each position and those before it, for x of [batch, channels, length].

    ``past`` has the kernel - 1 positions before x (default: zeros). The second result has the last kernel - 1
    positions, the next ``past``. Raises InvalidNode for other ranks than 3 and unknown activations.
    """
    b, e = node.b, node.b.extents
    if x.rank != 3 or weights.rank != 3:
        raise InvalidNode(f"the input has rank {x.rank} and the weights rank {weights.rank}; both must be 3")
    batch, channels, length = x.shape
    weights = b.refine(weights, [channels, 1, weights.shape[2]])
    kernel = weights.shape[2]
    before = e.sub(kernel, 1)
    b.require("ge", before, 0, "the kernel has no elements")
    state = b.fill(0, x.dtype, [batch, channels, before]) if past is None else past
    whole = b.concat([b.refine(state, [batch, channels, before]), x], 2)
    window = Window([0], [0], [length], [1], [1], [kernel])
    result = _with_bias(node, whole, weights, bias, weights.shape[0], window)
    activation = node.attr("activation", "none")
    if activation not in ("none", "silu", "swish"):
        raise InvalidNode(f"activation '{activation}' is not one of none, silu, swish")
    if activation != "none":
        result = b.map(lambda v: v * sigmoid(v), result)
    return [result, b.slice_axis(whole, 2, length, before)]


@op("ConvTranspose")
def conv_transpose(node: Node, x: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    """A convolution of the input, spread out by the strides, with the flipped kernel."""
    b = node.b
    _check(node, x, weights, bias)
    rank = x.rank - 2
    groups = node.attr("group", 1)
    strides, dilations = per_axis(node, "strides", rank), per_axis(node, "dilations", rank)
    kernel = kernel_of(node, weights.shape[2:])
    weights = b.refine(weights, [*weights.shape[:2], *kernel])
    low, out = _transpose_pads(node, x.shape[2:], kernel, strides, dilations)
    for extent in out:
        b.require("ge", extent, 0, "its result would have a dimension of {0}; it must be at least {1}")
    spread = _spread(node, x, strides)
    # Padding by (kernel extent - 1 - pad); a negative amount crops instead.
    reach = [b.extents.mul(b.extents.sub(k, 1), d) for k, d in zip(kernel, dilations, strict=True)]
    before = [b.extents.sub(r, p) for r, p in zip(reach, low, strict=True)]
    after = [
        b.extents.sub(b.extents.add(o, r), b.extents.add(s, q))
        for o, r, s, q in zip(out, reach, spread.shape[2:], before, strict=True)
    ]
    padded = _pad_or_crop(node, spread, before, after)
    window = Window([0] * rank, [0] * rank, out, [1] * rank, dilations, kernel)
    return _with_bias(node, padded, _flip(node, weights, groups), bias, groups, window)


def _transpose_pads(
    node: Node, spatial: Sequence[Extent], kernel: Sequence[Extent], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[list[Extent], list[Extent]]:
    """Pads before and output extents, as ONNX's ConvTranspose derives them."""
    e = node.b.extents
    rank = len(spatial)
    extra = node.attr("output_padding", [0] * rank)
    full = [
        e.add(e.add(e.mul(s, e.sub(d, 1)), e.mul(e.sub(k, 1), n)), 1 + o)
        for d, k, s, n, o in zip(spatial, kernel, strides, dilations, extra, strict=True)
    ]
    auto = node.attr("auto_pad", "NOTSET")
    target: Sequence[Extent] | None = node.attr("output_shape", None)
    if target is not None:
        target = target[-rank:]
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        # Strides beyond the kernel do not reach input extent x stride: nothing is cut off then, and nothing added.
        target = [e.minimum(f, e.mul(d, s)) for f, d, s in zip(full, spatial, strides, strict=True)]
    if target is None:
        pads = pads_of(node, rank) if auto != "VALID" else [0] * (2 * rank)
        low, high = list(pads[:rank]), list(pads[rank:])
        return low, [e.sub(f, p + q) for f, p, q in zip(full, low, high, strict=True)]
    total = [e.maximum(0, e.sub(f, t)) for f, t in zip(full, target, strict=True)]
    half = [e.floordiv(t, 2) for t in total]
    rest = [e.sub(t, h) for t, h in zip(total, half, strict=True)]
    return (half if auto == "SAME_UPPER" else rest), list(target)


def _spread(node: Node, x: Tensor, strides: Sequence[int]) -> Tensor:
    """The input with ``stride - 1`` zeros between neighbours."""
    if all(s == 1 for s in strides):
        return x
    b, e = node.b, node.b.extents
    spatial = [e.maximum(0, e.add(e.mul(e.sub(d, 1), s), 1)) for d, s in zip(x.shape[2:], strides, strict=True)]
    shape = [*x.shape[:2], *spatial]
    zeros = b.init(0, x.dtype, shape)
    value = builders.insert_slice(b.value(x), zeros, [0] * x.rank, x.shape, [1, 1, *strides])
    return b.tensor(value, x.dtype, shape)


def _pad_or_crop(node: Node, x: Tensor, low: Sequence[Extent], high: Sequence[Extent]) -> Tensor:
    b, e = node.b, node.b.extents
    offsets = [0, 0, *(e.maximum(0, e.sub(0, p)) for p in low)]
    cut = [0, 0, *(e.maximum(0, e.sub(0, p)) for p in high)]
    sizes = [e.sub(d, e.add(o, c)) for d, o, c in zip(x.shape, offsets, cut, strict=True)]
    x = b.slice(x, offsets, sizes)
    return b.pad(x, [0, 0, *(e.maximum(0, p) for p in low)], [0, 0, *(e.maximum(0, p) for p in high)])


def _flip(node: Node, weights: Tensor, groups: int) -> Tensor:
    """ConvTranspose weights [C, M/groups, kernel...] as Conv weights [M, C/groups, kernel...], kernel reversed."""
    b = node.b
    channels, per_group, *kernel = weights.shape
    if isinstance(channels, int) and channels % groups:
        raise InvalidNode(f"{channels} input channels do not divide into {groups} groups")
    depth = b.extents.floordiv(channels, groups)
    grouped = b.transpose(
        b.reshape(weights, [groups, depth, per_group, *kernel]), [0, 2, 1, *range(3, weights.rank + 1)]
    )
    flipped = reverse(node, grouped, range(3, grouped.rank))
    return b.reshape(flipped, [b.extents.mul(per_group, groups), depth, *kernel])
