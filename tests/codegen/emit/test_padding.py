"""Kernels that read a tensor under a padding without making the padded one."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.kernel_harness import Kernel, kernel_text
from tests.support.kernel_texts import (
    assert_close,
    conv2d,
    conv2d_reference,
    depthwise,
    depthwise_reference,
    pack,
    tensor,
)


def padded(x: np.ndarray, low: tuple[int, int], high: tuple[int, int], value: float) -> np.ndarray:
    return np.pad(x, ((0, 0), (low[0], high[0]), (low[1], high[1]), (0, 0)), constant_values=value)


def pad_text(
    shape: tuple[int, ...], out: tuple[int, ...], low: tuple[int, int], high: tuple[int, int], value: str
) -> str:
    return f"""
%value = arith.constant {value} : f32
%zero = arith.constant 0.0 : f32
%p = tensor.pad %a low[0, {low[0]}, {low[1]}, 0] high[0, {high[0]}, {high[1]}, 0] {{
^bb0(%i0: index, %i1: index, %i2: index, %i3: index):
  tensor.yield %value : f32
}} : {tensor(shape, "f32")} to {tensor(out, "f32")}"""


CASES = [((1, 6, 7, 8), (1, 1), (1, 1), 1), ((1, 9, 5, 4), (0, 2), (1, 0), 2), ((2, 4, 4, 16), (2, 2), (2, 2), 1)]


@pytest.mark.parametrize(("shape", "low", "high", "stride"), CASES)
def test_convolution(shape: tuple[int, ...], low: tuple[int, int], high: tuple[int, int], stride: int) -> None:
    big = (shape[0], shape[1] + low[0] + high[0], shape[2] + low[1] + high[1], shape[3])
    out = (shape[0], (big[1] - 3) // stride + 1, (big[2] - 3) // stride + 1, 10)
    weights = (3, 3, shape[3], 10)
    result = tensor(out, "f32")
    body = f"""{pad_text(shape, big, low, high, "0.0")}
%e = tensor.empty() : {result}
%init = linalg.fill ins(%zero : f32) outs(%e : {result}) -> {result}
%0 = linalg.generic {{indexing_maps=[affine_map<(n, h, w, o, i, j, c)->(n, h * {stride} + i, w * {stride} + j, c)>,
    affine_map<(n, h, w, o, i, j, c)->(i, j, c, o)>, affine_map<(n, h, w, o, i, j, c)->(n, h, w, o)>],
    iterator_types=["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}}
    ins(%p, %b : {tensor(big, "f32")}, {tensor(weights, "f32")}) outs(%init : {result}) {{
^bb0(%x: f32, %y: f32, %s: f32):
  %m = arith.mulf %x, %y : f32
  %t = arith.addf %s, %m : f32
  linalg.yield %t : f32
}} -> {result}
return %0 : {result}"""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal(shape).astype(np.float32), rng.standard_normal(weights).astype(np.float32)
    kernel = Kernel(kernel_text("conv", f"%a: {tensor(shape, 'f32')}, %b: {tensor(weights, 'f32')}", result, body))
    assert kernel.compiled.strategy == "contraction"
    [y] = kernel([x, w], [(out, np.float32)])
    windows = np.lib.stride_tricks.sliding_window_view(padded(x, low, high, 0), (3, 3), axis=(1, 2))
    expected = np.einsum("nhwcij,ijco->nhwo", windows[:, ::stride, ::stride].astype(np.float64), w)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("shape", "low", "high", "stride"), CASES)
def test_maximum_over_windows(shape: tuple[int, ...], low: tuple[int, int], high: tuple[int, int], stride: int) -> None:
    big = (shape[0], shape[1] + low[0] + high[0], shape[2] + low[1] + high[1], shape[3])
    out = (shape[0], (big[1] - 3) // stride + 1, (big[2] - 3) // stride + 1, shape[3])
    result = tensor(out, "f32")
    body = f"""{pad_text(shape, big, low, high, "0xFF800000")}
%e = tensor.empty() : {result}
%init = linalg.fill ins(%value : f32) outs(%e : {result}) -> {result}
%w = tensor.empty() : tensor<3x3xf32>
%0 = linalg.generic {{indexing_maps=[affine_map<(n, h, w, c, i, j)->(n, h * {stride} + i, w * {stride} + j, c)>,
    affine_map<(n, h, w, c, i, j)->(i, j)>, affine_map<(n, h, w, c, i, j)->(n, h, w, c)>],
    iterator_types=["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}}
    ins(%p, %w : {tensor(big, "f32")}, tensor<3x3xf32>) outs(%init : {result}) {{
^bb0(%x: f32, %y: f32, %s: f32):
  %m = arith.maximumf %x, %s : f32
  linalg.yield %m : f32
}} -> {result}
return %0 : {result}"""
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    kernel = Kernel(kernel_text("pool", f"%a: {tensor(shape, 'f32')}", result, body))
    assert kernel.compiled.strategy == "windowed"
    [y] = kernel([x], [(out, np.float32)])
    windows = np.lib.stride_tricks.sliding_window_view(padded(x, low, high, -np.inf), (3, 3), axis=(1, 2))
    np.testing.assert_array_equal(y, windows[:, ::stride, ::stride].max(axis=(-1, -2)))


# Size, channels, kernel, stride, dilation, pads: odd sizes, taps farther apart than the map, uneven margins, a map of
# which results at the border see nothing at all.
SKIPPED = [
    ((13, 17), 8, (3, 3), 1, 6, (6, 6, 6, 6)),
    ((9, 7), 16, (3, 3), 1, 12, (12, 12, 12, 12)),
    ((11, 10), 5, (3, 2), 2, 4, (5, 0, 3, 6)),
    ((5, 6), 8, (1, 3), 1, 2, (4, 7, 0, 9)),
]


@pytest.mark.parametrize("target", ["host", "x86-64-v2"])
@pytest.mark.parametrize(("size", "channels", "taps", "stride", "dilation", "pads"), SKIPPED)
def test_windows_in_the_padding_are_skipped(
    target: str,
    size: tuple[int, int],
    channels: int,
    taps: tuple[int, int],
    stride: int,
    dilation: int,
    pads: tuple[int, int, int, int],
) -> None:
    text, shape = conv2d(1, size, channels, 40, taps, stride, dilation, pads)
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, *size, channels), np.float32), rng.standard_normal((*taps, channels, 40), np.float32)
    bias = rng.standard_normal(40, np.float32)
    kernel = Kernel(text, target)
    [y] = kernel([x, pack(w), bias], [(shape, np.float32)])
    surrounded = padded(x, (pads[0], pads[1]), (pads[2], pads[3]), 0)
    assert_close(y, np.maximum(conv2d_reference(surrounded, w, stride, dilation) + bias, 0))
    assert kernel.compiled.strategy == "contraction"


# Lines that are longer than register tiles, or none; what is in the padding of all taps of a result; runs of constants
# that are as long as a line's part, as all channels, or as a vector.
DEPTHWISE = [*SKIPPED, ((7, 41), 24, (3, 3), 1, 1, (1, 1, 1, 1)), ((6, 40), 19, (5, 5), 2, 1, (2, 2, 2, 2))]
DEPTHWISE += [((5, 37), 1100, (3, 3), 1, 8, (8, 8, 8, 8)), ((4, 33), 3, (1, 7), 1, 3, (0, 9, 0, 9))]


@pytest.mark.parametrize(("target", "value"), [("host", "0.0"), ("host", "1.5"), ("x86-64-v2", "0.0")])
@pytest.mark.parametrize(("size", "channels", "taps", "stride", "dilation", "pads"), DEPTHWISE)
def test_depthwise(
    target: str,
    value: str,
    size: tuple[int, int],
    channels: int,
    taps: tuple[int, int],
    stride: int,
    dilation: int,
    pads: tuple[int, int, int, int],
) -> None:
    low, high = (pads[0], pads[1]), (pads[2], pads[3])
    big = (size[0] + low[0] + high[0], size[1] + low[1] + high[1])
    text, shape = depthwise(1, big, channels, taps, stride, dilation)
    inside, outside = tensor((1, *size, channels)), tensor((1, *big, channels))
    margins = f"low[0, {low[0]}, {low[1]}, 0] high[0, {high[0]}, {high[1]}, 0]"
    nothing = "{flow.adds_nothing} " if value == "0.0" else ""
    pad = f"""%value = arith.constant {value} : f32
%padded = tensor.pad %a {margins} {{
^bb0(%i0: index, %i1: index, %i2: index, %i3: index):
  tensor.yield %value : f32
}} {nothing}: {inside} to {outside}
%zero ="""
    text = text.replace(f"%a: {outside}", f"%a: {inside}").replace("ins(%a,", "ins(%padded,").replace("%zero =", pad, 1)
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, *size, channels), np.float32), rng.standard_normal((*taps, channels), np.float32)
    bias = rng.standard_normal(channels, np.float32)
    kernel = Kernel(text, target)
    [y] = kernel([x, w, bias], [(shape, np.float32)])
    expected = depthwise_reference(padded(x, low, high, float(value)), w, stride, dilation) + bias
    assert_close(y, np.maximum(expected, 0))
    assert kernel.compiled.strategy == "windowed"
