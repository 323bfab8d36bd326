"""DFT, STFT and MelWeightMatrix."""

from __future__ import annotations

import math

from rillet.frontends.building import element_types, fourier, scalars
from rillet.frontends.building.builder import Builder, permutation_inverse
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.fourier_sums import Factor, Transform
from rillet.frontends.building.loops import scalar_of
from rillet.frontends.building.scalars import Scalar, constant, floor, select
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.registry import op
from rillet.ir import builders
from rillet.ir.builders import Extent
from rillet.ir.fourier import Source


@op("DFT", since=17, until=19)
def dft_attribute(node: Node, x: Tensor, length: Tensor | None = None) -> Tensor:
    """DFT before opset 20, with its axis in an attribute."""
    return _dft(node, x, length, node.attr("axis", 1))


@op("DFT", since=20)
def dft(node: Node, x: Tensor, length: Tensor | None = None, axis: Tensor | None = None) -> Tensor:
    """The discrete Fourier transform along ``axis`` (default: -2), of ``length`` points (default: the extent).

    The last dimension has the real and imaginary parts.
    """
    along = -2 if axis is None else int(node.b.known(axis, "axis").reshape(-1)[0])
    return _dft(node, x, length, along)


def _dft(node: Node, x: Tensor, length: Tensor | None, axis: int) -> Tensor:
    b, e = node.b, node.b.extents
    axis = node.axis(axis, x.rank)
    if axis == x.rank - 1:
        raise InvalidNode("the last dimension holds the real and imaginary parts")
    inverse, onesided = bool(node.attr("inverse", 0)), bool(node.attr("onesided", 0))
    points, parts = x.shape[axis], x.shape[-1]
    if isinstance(parts, int) and parts not in (1, 2):
        raise InvalidNode(f"the last dimension has {parts} elements; it must be 1 (real) or 2 (complex)")
    b.require("le", parts, 2, "the last dimension has {0} elements; it must be 1 (real) or 2 (complex)")
    if length is not None:
        size = b.extents_of(length, "dft_length")[0]
    else:
        size = e.mul(2, e.sub(points, 1)) if inverse and onesided else points
    b.require("ge", size, 0, "a transform cannot have a length of {0}; at least {1}")
    half = e.add(e.floordiv(size, 2), 1)
    order = [*(a for a in range(x.rank) if a not in (axis, x.rank - 1)), axis, x.rank - 1]
    rows = b.transpose(x, order)
    rows = _resized(b, rows, -2, half if inverse and onesided else size)
    if parts != 1 or inverse:
        rows = _resized(b, rows, -1, 2)
    source: Source = "half" if inverse and onesided else "real" if rows.shape[-1] == 1 else "complex"
    of = Transform(size, source, "real" if source == "half" else "complex", inverse, are_real=e.compare("eq", parts, 1))
    result = fourier.transform_rows(b, rows, of, half if onesided and not inverse else size)
    return b.cast(b.transpose(result, permutation_inverse(order)), x.dtype)


def _resized(b: Builder, x: Tensor, axis: int, size: Extent) -> Tensor:
    """``size`` positions along an axis: the first ones, and zeros where there are fewer."""
    axis %= x.rank
    kept = b.slice_axis(x, axis, 0, b.extents.minimum(x.shape[axis], size))
    high: list[Extent] = [0] * x.rank
    high[axis] = b.extents.sub(size, kept.shape[axis])
    return b.pad(kept, [0] * x.rank, high)


@op("STFT", since=17)
def stft(
    node: Node, signal: Tensor, step: Tensor, window: Tensor | None = None, frame_length: Tensor | None = None
) -> Tensor:
    """Transforms of overlapping windows: [batch, frames, frequencies, 2].

    Raises InvalidNode without a window and a frame length.
    """
    b, e = node.b, node.b.extents
    hop = b.extents_of(step, "frame_step")[0]
    if signal.rank == 2:
        signal = b.unsqueeze(signal, [2])
    batch, length, parts = signal.shape
    if frame_length is not None:
        size = b.extents_of(frame_length, "frame_length")[0]
    elif window is not None:
        size = window.shape[0]
    else:
        raise InvalidNode("it has neither a window nor a frame_length")
    b.require("ge", hop, 1, "a frame_step of {0} is less than {1}")
    b.require("ge", length, size, "a signal of {0} is shorter than a frame of {1}")
    frequencies, are_real = size, e.compare("eq", parts, 1)
    if node.attr("onesided", 1):  # which complex signals cannot be
        frequencies = e.select(are_real, e.add(e.floordiv(size, 2), 1), size)
    if parts != 1:
        signal, parts = _resized(b, signal, -1, 2), 2
    frames = e.add(e.floordiv(e.sub(length, size), hop), 1)
    window = b.fill(1, signal.dtype, [size]) if window is None else b.refine(window, [size])
    numbers = e.mul(size, parts)
    weights = b.reshape(b.broadcast_to(b.unsqueeze(window, [1]), [size, parts]), [numbers])
    flat = b.reshape(signal, [batch, e.mul(length, parts)])
    n, f, _, u = builders.dims(4)
    taken: Factor
    if isinstance(hop, int):
        taken = flat, [n, f * (hop * parts) + u]
    else:  # no affine map says where such frames begin
        source, every = b.value(flat), scalar_of(e.mul(hop, parts))
        rows = b.indexed(
            signal.dtype,
            [batch, frames, numbers],
            lambda at: b.element(source, signal.dtype, [at[0], at[1] * every + at[2]]),
        )
        taken = rows, [n, f, u]
    of = Transform(size, "real" if parts == 1 else "complex", "complex", False, are_real=are_real)
    result = fourier.transform(b, [taken, (weights, [u])], [batch, frames], of, frequencies, signal.dtype)
    return b.cast(b.reshape(result, [batch, frames, frequencies, 2]), signal.dtype)


@op("MelWeightMatrix", since=17)
def mel_weight_matrix(
    node: Node, bins: Tensor, length: Tensor, sample_rate: Tensor, lower: Tensor, upper: Tensor
) -> Tensor:
    """Triangles on the mel scale (mel = 2595 log10(1 + hertz / 700)) over the bins of a spectrogram."""
    b, e = node.b, node.b.extents
    dtype = node.dtype_attr("output_datatype", "float32")
    count = b.extents_of(bins, "num_mel_bins")[0]
    size = b.extents_of(length, "dft_length")[0]
    rate = b.scalar(sample_rate)
    hertz = [b.scalar(t) for t in (lower, upper)]
    scale = 2595.0 / math.log(10.0)

    def edge(number: Scalar) -> Scalar:
        """The spectrogram bin at which triangle ``number`` begins."""
        low, high = (scalars.log(convert(h, "float64") / 700.0 + 1.0) * scale for h in hertz)
        step = (high - low) / (_wide(scalar_of(count)) + 2.0)
        mel = _wide(number) * step + low
        wide = _wide(scalar_of(size)) + 1.0
        return floor((scalars.exp(mel / scale) - 1.0) * 700.0 * wide / convert(rate, "float64"))

    def body(at: list[Scalar]) -> Scalar:
        here = _wide(at[0])
        left, center, right = (edge(at[1] + offset) for offset in range(3))
        zero = constant(0.0, "float64")
        rising = select((here >= left) & (here <= center), (here - left) / (center - left), zero)
        rising = select(left == center, select(here == center, constant(1.0, "float64"), zero), rising)
        falling = (right - here) / (right - center)
        value = select((right > center) & (here >= center) & (here < right), falling, rising)
        return convert(value, element_types.compute_dtype(dtype))

    return b.indexed(dtype, [e.add(e.floordiv(size, 2), 1), count], body)


def _wide(index: Scalar) -> Scalar:
    return convert(convert(index, "int64"), "float64")
