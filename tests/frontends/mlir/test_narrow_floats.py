"""Narrow floats are storage: sums of them are kept in f32 and rounded once, whoever writes them."""

import ml_dtypes
import numpy as np
import pytest

import rillet

_DTYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f8E5M2": ml_dtypes.float8_e5m2}
RNG = np.random.default_rng(0)


def _dot(element: str) -> str:
    a, b, c = f"tensor<2x1000x{element}>", f"tensor<1000x3x{element}>", f"tensor<2x3x{element}>"
    return f"""
func.func @main(%a: {a}, %b: {b}) -> {c} {{
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({a}, {b}) -> {c}
  return %0 : {c}
}}"""


def _matmul(element: str) -> str:
    a, b, c = f"tensor<2x1000x{element}>", f"tensor<1000x3x{element}>", f"tensor<2x3x{element}>"
    return f"""
func.func @main(%a: {a}, %b: {b}) -> {c} {{
  %z = arith.constant 0.0 : {element}
  %e = tensor.empty() : {c}
  %i = linalg.fill ins(%z : {element}) outs(%e : {c}) -> {c}
  %0 = linalg.matmul ins(%a, %b : {a}, {b}) outs(%i : {c}) -> {c}
  return %0 : {c}
}}"""


@pytest.mark.parametrize("text", [_dot, _matmul])
@pytest.mark.parametrize("element", _DTYPES)
def test_contractions_are_rounded_once(text, element):
    dtype = _DTYPES[element]
    # Products and sums that f32 holds exactly, in any order; a sum of narrow floats would stop growing.
    a = RNG.integers(0, 3, (2, 1000)).astype(dtype)
    b = RNG.integers(0, 2, (1000, 3)).astype(dtype)
    expected = (a.astype(np.float32) @ b.astype(np.float32)).astype(dtype)
    found = rillet.compile(text(element), threads=1)(a, b)
    np.testing.assert_array_equal(np.asarray(found), expected)


@pytest.mark.parametrize("element", _DTYPES)
def test_reductions_are_rounded_once(element):
    dtype = _DTYPES[element]
    text = f"""
func.func @main(%a: tensor<2x1000x{element}>) -> tensor<2x{element}> {{
  %z = stablehlo.constant dense<0.0> : tensor<{element}>
  %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [1]
    : (tensor<2x1000x{element}>, tensor<{element}>) -> tensor<2x{element}>
  return %0 : tensor<2x{element}>
}}"""
    a = np.ones((2, 1000)).astype(dtype)
    found = np.asarray(rillet.compile(text, threads=1)(a))
    np.testing.assert_array_equal(found, np.full(2, 1000, np.float32).astype(dtype))


@pytest.mark.parametrize("element", ["bf16", "f16"])
def test_convolutions_are_rounded_once_and_start_from_their_bias(element):
    dtype = _DTYPES[element]
    x = RNG.integers(0, 3, (1, 5, 5, 64)).astype(dtype)
    w = RNG.integers(0, 2, (3, 3, 64, 4)).astype(dtype)
    init = RNG.integers(0, 2, (1, 3, 3, 4)).astype(dtype)
    text = f"""
func.func @main(%x: tensor<1x5x5x64x{element}>, %w: tensor<3x3x64x4x{element}>, %b: tensor<1x3x3x4x{element}>)
    -> tensor<1x3x3x4x{element}> {{
  %0 = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<1x5x5x64x{element}>, tensor<3x3x64x4x{element}>)
    outs(%b : tensor<1x3x3x4x{element}>) -> tensor<1x3x3x4x{element}>
  return %0 : tensor<1x3x3x4x{element}>
}}"""
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float32), (3, 3), (1, 2))
    sums = np.einsum("nhwcij,ijco->nhwo", windows, w.astype(np.float32)) + init.astype(np.float32)
    np.testing.assert_array_equal(np.asarray(rillet.compile(text, threads=1)(x, w, init)), sums.astype(dtype))


def test_a_body_rounds_what_it_stores_and_what_the_producer_rounds():
    text = """
#map = affine_map<(d0) -> (d0)>
func.func @main(%a: tensor<4xbf16>, %b: tensor<4xf32>) -> (tensor<4xbf16>, tensor<4xf32>) {
  %e = tensor.empty() : tensor<4xbf16>
  %f = tensor.empty() : tensor<4xf32>
  %0:2 = linalg.generic {indexing_maps = [#map, #map, #map, #map], iterator_types = ["parallel"]}
      ins(%a, %b : tensor<4xbf16>, tensor<4xf32>) outs(%e, %f : tensor<4xbf16>, tensor<4xf32>) {
  ^bb0(%x: bf16, %y: f32, %o: bf16, %p: f32):
    %c = arith.constant 256.0 : bf16
    %1 = arith.addf %x, %c : bf16
    %2 = arith.subf %1, %c : bf16
    %3 = arith.truncf %y : f32 to bf16
    %4 = arith.extf %3 : bf16 to f32
    linalg.yield %2, %4 : bf16, f32
  } -> (tensor<4xbf16>, tensor<4xf32>)
  return %0#0, %0#1 : tensor<4xbf16>, tensor<4xf32>
}"""
    a = np.array([1, 0.5, 3, -7]).astype(ml_dtypes.bfloat16)
    b = np.array([1.001, 2, 3.14159, 1e-3], np.float32)
    stored, rounded = rillet.compile(text, threads=1)(a, b)
    np.testing.assert_array_equal(np.asarray(stored), a)  # 257 is no bf16; in f32 nothing is lost
    np.testing.assert_array_equal(rounded, b.astype(ml_dtypes.bfloat16).astype(np.float32))
