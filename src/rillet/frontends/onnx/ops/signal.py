"""DFT, STFT and MelWeightMatrix. A transform is a product with a matrix of sines and cosines."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from rillet.frontends.building import element_types, scalars
from rillet.frontends.building.contraction import contract
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.loops import scalar_of
from rillet.frontends.building.scalars import Scalar, constant, floor, select
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.registry import op
from rillet.ir import builders
from rillet.ir.builders import Extent


@dataclass(frozen=True)
class _Transform:
    """A transform of ``length`` over ``rows`` given samples of ``parts``: 1 when real, 2 when complex.

    Samples beyond ``length`` do not count, missing ones are zero. An inverse onesided transform gives real samples.
    """

    rows: Extent
    parts: Extent
    length: Extent
    inverse: bool
    onesided: bool

    @property
    def known(self) -> bool:
        return all(isinstance(d, int) for d in (self.rows, self.parts, self.length))


def _weight(calculate: Any, turn: Any, t: Any, p: Any, j: Any, length: Any, of: _Transform) -> Any:
    """The factor of part ``p`` of sample ``t`` in part ``j`` of a frequency at which it has turned by ``turn`` of
    ``length``. Works on numpy arrays and on scalars alike; ``calculate`` has the functions.
    """
    angle = calculate.wide(turn) * (2 * np.pi if of.inverse else -2 * np.pi) / calculate.wide(length)
    cosine, sine = calculate.cos(angle), calculate.sin(angle)
    value = calculate.select(p == j, cosine, calculate.select(p < j, sine, -sine))
    one = cosine * 0.0 + 1.0
    if not (of.inverse and of.onesided):
        return calculate.select(t < length, value, value * 0.0) / (calculate.wide(length) if of.inverse else one)
    # All frequencies but the first (and the middle one of an even length) stand for a conjugate pair.
    single = (t == 0) | (t * 2 == length)
    factor = calculate.select(t < length // 2 + 1, calculate.select(single, one, one * 2.0), one * 0.0)
    return value * factor / calculate.wide(length)


class _OnArrays:
    """What ``_weight`` needs, on numpy arrays."""

    cos, sin, select = np.cos, np.sin, np.where

    @staticmethod
    def wide(value: Any) -> Any:
        return np.asarray(value, np.float64)


class _OnScalars:
    """What ``_weight`` needs, in a kernel."""

    cos, sin, select = staticmethod(scalars.cos), staticmethod(scalars.sin), staticmethod(select)

    @staticmethod
    def wide(value: Scalar) -> Scalar:
        return _wide(value)


def _matrix(node: Node, of: _Transform, frequencies: Extent, dtype: str) -> Tensor:
    """The matrix [rows, parts, frequencies, 2 (or 1 for real results)] of a transform."""
    b = node.b
    dtype = "float64" if dtype == "float64" else "float32"
    shape = [of.rows, of.parts, frequencies, 1 if of.inverse and of.onesided else 2]
    if of.known:
        t, p, k, j = np.indices([d for d in shape if isinstance(d, int)], sparse=True)
        size = max(int(of.length), 1)  # type: ignore[arg-type]
        values = np.broadcast_to(_weight(_OnArrays, (t * k) % size, t, p, j, size, of), shape)  # type: ignore[arg-type]
        return b.constant(np.ascontiguousarray(values, dtype), name="transform")
    length = scalar_of(b.extents.maximum(of.length, 1))

    def body(at: list[Scalar]) -> Scalar:
        t, p, k, j = at
        return convert(_weight(_OnScalars, (t * k) % length, t, p, j, length, of), dtype)

    return b.indexed(dtype, shape, body)


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
    b = node.b
    axis = node.axis(axis, x.rank)
    if axis == x.rank - 1:
        raise InvalidNode("the last dimension holds the real and imaginary parts")
    inverse, onesided = bool(node.attr("inverse", 0)), bool(node.attr("onesided", 0))
    e = b.extents
    rows, parts = x.shape[axis], x.shape[-1]
    if isinstance(parts, int) and parts not in (1, 2):
        raise InvalidNode(f"the last dimension has {parts} elements; it must be 1 (real) or 2 (complex)")
    b.require("le", parts, 2, "the last dimension has {0} elements; it must be 1 (real) or 2 (complex)")
    if length is not None:
        size = b.extents_of(length, "dft_length")[0]
    else:
        size = e.mul(2, e.sub(rows, 1)) if inverse and onesided else rows
    b.require("ge", size, 0, "a transform cannot have a length of {0}; at least {1}")
    frequencies = e.add(e.floordiv(size, 2), 1) if onesided and not inverse else size
    matrix = _matrix(node, _Transform(rows, parts, size, inverse, onesided), frequencies, x.dtype)
    flat = b.reshape(x, [e.product(x.shape[:axis]), rows, e.product(x.shape[axis + 1 : -1]), parts])
    result = contract(b, ["atbc", "tckj"], "akbj", [flat, matrix], element_types.compute_dtype(x.dtype))
    shape = [*x.shape[:axis], matrix.shape[2], *x.shape[axis + 1 : -1], matrix.shape[3]]
    return b.cast(b.reshape(result, shape), x.dtype)


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
    parts = signal.shape[2]
    if frame_length is not None:
        size = b.extents_of(frame_length, "frame_length")[0]
    elif window is not None:
        size = window.shape[0]
    else:
        raise InvalidNode("it has neither a window nor a frame_length")
    b.require("ge", hop, 1, "a frame_step of {0} is less than {1}")
    b.require("ge", signal.shape[1], size, "a signal of {0} is shorter than a frame of {1}")
    frequencies = size
    if node.attr("onesided", 1):  # which complex signals cannot be
        frequencies = e.select(e.compare("eq", parts, 1), e.add(e.floordiv(size, 2), 1), size)
    matrix = _matrix(node, _Transform(size, parts, size, False, False), frequencies, signal.dtype)
    compute = element_types.compute_dtype(signal.dtype)
    if window is not None:
        window = b.refine(window, [size])
        matrix = b.map_along(
            lambda m, w: m * convert(w, m.dtype), matrix.shape, (matrix, range(4)), (window, [0]), dtype=matrix.dtype
        )
    frames = e.add(e.floordiv(e.sub(signal.shape[1], size), hop), 1)
    shape = [signal.shape[0], frames, *matrix.shape[2:]]
    n, f, k, j, t, c = builders.dims(6)
    output = (b.init(0, compute, shape), [n, f, k, j], compute, shape)
    taken, positions = signal, [n, f * hop + t, c] if isinstance(hop, int) else [n, f, t, c]
    if not isinstance(hop, int):  # no affine map says where such frames begin
        source, every = b.value(signal), scalar_of(hop)
        taken = b.indexed(
            signal.dtype,
            [shape[0], frames, size, parts],
            lambda at: b.element(source, signal.dtype, [at[0], at[1] * every + at[2], at[3]]),
        )
    result = b.generic(
        [(taken, positions), (matrix, [t, c, k, j])],
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
        return convert(value, element_types.compute_dtype(dtype))

    return b.indexed(dtype, [e.add(e.floordiv(size, 2), 1), count], body)


def _wide(index: Scalar) -> Scalar:
    return convert(convert(index, "int64"), "float64")
