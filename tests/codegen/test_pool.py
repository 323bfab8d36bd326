from __future__ import annotations

import numpy as np
import pytest
from harness import Kernel, executable
from kernels import tensor


def _pool(
    shape: tuple[int, ...], kernel: tuple[int, int], stride: int, combine: str, init: str, tail: str = ""
) -> tuple[str, tuple[int, ...]]:
    batch, height, width, channels = shape
    out = (batch, (height - kernel[0]) // stride + 1, (width - kernel[1]) // stride + 1, channels)
    result, source, window = tensor(out), tensor(shape), tensor(kernel)
    text = f"""
%init = arith.constant {init} : f32
%e = tensor.empty() : {result}
%f = linalg.fill ins(%init : f32) outs(%e : {result}) -> {result}
%w = tensor.empty() : {window}
%0 = linalg.generic {{indexing_maps=[
    affine_map<(n, h, w, c, i, j)->(n, h * {stride} + i, w * {stride} + j, c)>,
    affine_map<(n, h, w, c, i, j)->(i, j)>, affine_map<(n, h, w, c, i, j)->(n, h, w, c)>],
    iterator_types=["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}}
    ins(%a, %w : {source}, {window}) outs(%f : {result}) {{
^bb0(%x: f32, %y: f32, %c: f32):
  %s = {combine} %c, %x : f32
  linalg.yield %s : f32
}} -> {result}
{tail.replace("RESULT", result)}
return {"%1" if tail else "%0"} : {result}"""
    return executable("pool", f"%a: {source}", result, text), out


def _windows(x: np.ndarray, kernel: tuple[int, int], stride: int) -> np.ndarray:
    view = np.lib.stride_tricks.sliding_window_view(x, kernel, axis=(1, 2))
    return view[:, ::stride, ::stride]


_CASES = [
    ((1, 8, 8, 16), (2, 2), 2),
    ((2, 9, 11, 21), (3, 3), 2),
    ((1, 7, 7, 64), (7, 7), 1),
    ((1, 6, 9, 3), (1, 3), 1),
]


@pytest.mark.parametrize("target", ["host", "x86-64-v2"])
@pytest.mark.parametrize(("shape", "kernel", "stride"), _CASES)
def test_max(target: str, shape: tuple[int, ...], kernel: tuple[int, int], stride: int) -> None:
    text, out = _pool(shape, kernel, stride, "arith.maximumf", "0xFF800000")
    compiled = Kernel(text, target)
    assert compiled.executable.strategy == "windowed"
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    [y] = compiled([x], [(out, np.float32)])
    np.testing.assert_array_equal(y, _windows(x, kernel, stride).max((-1, -2)))


@pytest.mark.parametrize(("shape", "kernel", "stride"), _CASES)
def test_average(shape: tuple[int, ...], kernel: tuple[int, int], stride: int) -> None:
    scale = f"""
%k = arith.constant {1.0 / np.prod(kernel):.9e} : f32
%1 = linalg.generic {{indexing_maps=[affine_map<(a, b, c, d)->(a, b, c, d)>, affine_map<(a, b, c, d)->(a, b, c, d)>],
    iterator_types=["parallel", "parallel", "parallel", "parallel"]}} ins(%0 : RESULT) outs(%e : RESULT) {{
^bb0(%x: f32, %o: f32):
  %s = arith.mulf %x, %k : f32
  linalg.yield %s : f32
}} -> RESULT"""
    text, out = _pool(shape, kernel, stride, "arith.addf", "0.0", scale)
    compiled = Kernel(text)
    assert compiled.executable.strategy == "windowed"
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    [y] = compiled([x], [(out, np.float32)])
    np.testing.assert_allclose(y, _windows(x, kernel, stride).mean((-1, -2)), rtol=1e-5, atol=1e-6)


def test_a_sum_over_leading_axes() -> None:
    source, result = tensor((3, 49, 40)), tensor((3, 40))
    body = f"""
%zero = arith.constant 0.0 : f32
%e = tensor.empty() : {result}
%f = linalg.fill ins(%zero : f32) outs(%e : {result}) -> {result}
%0 = linalg.generic {{indexing_maps=[affine_map<(n, c, k)->(n, k, c)>, affine_map<(n, c, k)->(n, c)>],
    iterator_types=["parallel", "parallel", "reduction"]}} ins(%a : {source}) outs(%f : {result}) {{
^bb0(%x: f32, %c: f32):
  %s = arith.addf %c, %x : f32
  linalg.yield %s : f32
}} -> {result}
return %0 : {result}"""
    kernel = Kernel(executable("sum", f"%a: {source}", result, body))
    assert kernel.executable.strategy == "windowed"
    x = np.random.default_rng(0).standard_normal((3, 49, 40), np.float32)
    [y] = kernel([x], [((3, 40), np.float32)])
    np.testing.assert_allclose(y, x.astype(np.float64).sum(1), rtol=1e-5, atol=1e-5)


def test_a_window_that_reaches_into_the_next_vector() -> None:
    """Channels first, vectors run along the window: one address belongs to a whole vector and to a masked one."""
    source, window, result = tensor((2, 9, 9)), tensor((5, 5)), tensor((2, 5, 5), "f64")
    body = f"""
%low = arith.constant 0xFFF0000000000000 : f64
%e = tensor.empty() : {result}
%f = linalg.fill ins(%low : f64) outs(%e : {result}) -> {result}
%w = tensor.empty() : {window}
%0 = linalg.generic {{indexing_maps=[affine_map<(c, h, w, i, j)->(c, h + i, w + j)>,
    affine_map<(c, h, w, i, j)->(i, j)>, affine_map<(c, h, w, i, j)->(c, h, w)>],
    iterator_types=["parallel", "parallel", "parallel", "reduction", "reduction"]}}
    ins(%a, %w : {source}, {window}) outs(%f : {result}) {{
^bb0(%x: f32, %y: f32, %c: f64):
  %d = arith.extf %x : f32 to f64
  %s = arith.maximumf %c, %d : f64
  linalg.yield %s : f64
}} -> {result}
return %0 : {result}"""
    kernel = Kernel(executable("wide", f"%a: {source}", result, body))
    assert kernel.executable.strategy == "windowed"
    x = np.arange(162, dtype=np.float32).reshape(2, 9, 9) - 200
    [y] = kernel([x], [((2, 5, 5), np.float64)])
    np.testing.assert_array_equal(y, np.lib.stride_tricks.sliding_window_view(x, (5, 5), axis=(1, 2)).max((-1, -2)))
