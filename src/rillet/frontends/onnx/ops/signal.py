"""DFT, STFT and MelWeightMatrix. A transform is a product with a matrix of sines and cosines."""

from __future__ import annotations

import math

import numpy as np

from rillet.frontends import scalars
from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.frontends.onnx.contraction import contract
from rillet.frontends.onnx.loops import scalar_of
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.registry import op
from rillet.frontends.scalars import Scalar, constant, convert, floor, select
from rillet.frontends.tensors import Tensor
from rillet.ir import builders


def transform_matrix(rows: int, length: int, parts: int, inverse: bool, onesided: bool, dtype: np.dtype) -> np.ndarray:
    """The matrix [rows, parts, frequencies, 2] of a transform of ``length`` over ``rows`` given samples.

    ``parts`` is 1 for real samples and 2 for complex ones (real, imaginary). Samples beyond ``length`` do not count,
    missing ones are zero. An inverse onesided transform gives real samples: [rows, 2, length, 1].
    """
    sign = 1 if inverse else -1
    frequencies = length // 2 + 1 if onesided and not inverse else length
    angle = sign * 2 * np.pi * ((np.arange(rows)[:, None] * np.arange(frequencies)[None, :]) % length) / length
    cosine, sine = np.cos(angle), np.sin(angle)
    if inverse and onesided:
        used = length // 2 + 1
        # Frequencies but the first (and the middle one of an even length) stand for two, which are conjugate.
        weight = np.where((np.arange(rows) == 0) | ((length % 2 == 0) & (np.arange(rows) == length // 2)), 1.0, 2.0)
        weight = np.where(np.arange(rows) < used, weight, 0.0)[:, None] / length
        return np.stack([cosine * weight, -sine * weight], axis=1)[..., None].astype(dtype)
    used_rows = (np.arange(rows) < length).astype(np.float64)[:, None] / (length if inverse else 1)
    cosine, sine = cosine * used_rows, sine * used_rows
    real = np.stack([cosine, sine], axis=-1)
    imaginary = np.stack([-sine, cosine], axis=-1)
    return np.stack([real, imaginary][:parts], axis=1).astype(dtype)


def _numpy_dtype(x: Tensor) -> np.dtype:
    return np.dtype(np.float64 if x.dtype == "float64" else np.float32)


@op("DFT", since=17, until=19)
def dft_attribute(node: Node, x: Tensor, length: Tensor | None = None) -> Tensor:
    return _dft(node, x, length, node.attr("axis", 1))


@op("DFT", since=20)
def dft(node: Node, x: Tensor, length: Tensor | None = None, axis: Tensor | None = None) -> Tensor:
    along = -2 if axis is None else int(node.b.known(axis, "axis").reshape(-1)[0])
    return _dft(node, x, length, along)


def _dft(node: Node, x: Tensor, length: Tensor | None, axis: int) -> Tensor:
    b = node.b
    axis = node.axis(axis, x.rank)
    if axis == x.rank - 1:
        raise InvalidNode("the last dimension holds the real and imaginary parts")
    inverse, onesided = bool(node.attr("inverse", 0)), bool(node.attr("onesided", 0))
    rows, parts = x.shape[axis], x.shape[-1]
    if not isinstance(rows, int) or not isinstance(parts, int):
        raise UnsupportedFeature("a transform along a dimension not known at compile time", "pin the input shapes")
    if parts not in (1, 2):
        raise InvalidNode(f"the last dimension has {parts} elements; it must be 1 (real) or 2 (complex)")
    if length is not None:
        size = int(b.known(length, "dft_length").reshape(-1)[0])
    else:
        size = 2 * (rows - 1) if inverse and onesided else rows
    matrix = b.constant(transform_matrix(rows, size, parts, inverse, onesided, _numpy_dtype(x)), name="transform")
    e = b.extents
    flat = b.reshape(x, [e.product(x.shape[:axis]), rows, e.product(x.shape[axis + 1 : -1]), parts])
    result = contract(b, ["atbc", "tckj"], "akbj", [flat, matrix], scalars.compute_dtype(x.dtype))
    shape = [*x.shape[:axis], matrix.shape[2], *x.shape[axis + 1 : -1], matrix.shape[3]]
    return b.cast(b.reshape(result, shape), x.dtype)


@op("STFT", since=17)
def stft(
    node: Node, signal: Tensor, step: Tensor, window: Tensor | None = None, frame_length: Tensor | None = None
) -> Tensor:
    """Transforms of overlapping windows: [batch, frames, frequencies, 2]."""
    b, e = node.b, node.b.extents
    hop = int(b.known(step, "frame_step").reshape(-1)[0])
    parts = signal.shape[2] if signal.rank == 3 else 1
    if signal.rank == 2:
        signal = b.unsqueeze(signal, [2])
    if frame_length is not None:
        size = int(b.known(frame_length, "frame_length").reshape(-1)[0])
    elif window is not None:
        size = window.static_shape[0]
    else:
        raise InvalidNode("it has neither a window nor a frame_length")
    if not isinstance(parts, int):
        raise UnsupportedFeature("a signal that may be real or complex", "pin the input shapes")
    onesided = bool(node.attr("onesided", 1)) and parts == 1
    matrix = b.constant(transform_matrix(size, size, parts, False, onesided, _numpy_dtype(signal)), name="transform")
    compute = scalars.compute_dtype(signal.dtype)
    if window is not None:
        matrix = b.map_along(
            lambda m, w: m * convert(w, m.dtype), matrix.shape, (matrix, range(4)), (window, [0]), dtype=matrix.dtype
        )
    frames = e.add(e.floordiv(e.sub(signal.shape[1], size), hop), 1)
    shape = [signal.shape[0], frames, *matrix.shape[2:]]
    n, f, k, j, t, c = builders.dims(6)
    output = (b.init(0, compute, shape), [n, f, k, j], compute, shape)
    result = b.generic(
        [(signal, [n, f * hop + t, c]), (matrix, [t, c, k, j])],
        [output],
        "pppprr",
        lambda x, m, acc: acc + convert(x, compute) * convert(m, compute),
    )[0]
    return b.cast(result, signal.dtype)


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
        return convert(value, scalars.compute_dtype(dtype))

    return b.indexed(dtype, [e.add(e.floordiv(size, 2), 1), count], body)


def _wide(index: Scalar) -> Scalar:
    return convert(convert(index, "int64"), "float64")
