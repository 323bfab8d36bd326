"""Conversions of floats to integers: every number has a result."""

from __future__ import annotations

import numpy as np
import pytest

from rillet import targets
from rillet.codegen.cpu.compile import compile_kernel
from rillet.codegen.result import CodegenOptions
from tests.support.kernel_harness import Kernel, kernel_text


def _quantize(clamps: str) -> str:
    return kernel_text(
        "quantize",
        "%a: tensor<32xf32>",
        "tensor<32xi8>",
        f"""
%low = arith.constant -128.0 : f32
%high = arith.constant 127.0 : f32
%e = tensor.empty() : tensor<32xi8>
%0 = linalg.generic {{indexing_maps=[affine_map<(i)->(i)>, affine_map<(i)->(i)>], iterator_types=["parallel"]}}
    ins(%a : tensor<32xf32>) outs(%e : tensor<32xi8>) {{
^bb0(%x: f32, %o: i8):
  %r = math.roundeven %x : f32
  {clamps}
  %i = arith.fptosi %t : f32 to i32
  %n = arith.trunci %i : i32 to i8
  linalg.yield %n : i8
}} -> tensor<32xi8>
return %0 : tensor<32xi8>""",
    )


_CLAMPS = {
    "low last": "%s = arith.minimumf %r, %high : f32\n  %t = arith.maximumf %s, %low : f32",
    "high last": "%s = arith.maximumf %r, %low : f32\n  %t = arith.minimumf %s, %high : f32",
}


@pytest.mark.parametrize("target", ["host", "x86-64-v2"])
@pytest.mark.parametrize("order", _CLAMPS)
def test_nan_becomes_the_lowest_integer(order: str, target: str) -> None:
    x = np.linspace(-300, 300, 32, dtype=np.float32)
    x[3], x[4], x[5] = np.nan, np.inf, -np.inf
    [y] = Kernel(_quantize(_CLAMPS[order]), target)([x], [((32,), np.int8)])
    np.testing.assert_array_equal(y, np.clip(np.rint(np.where(np.isnan(x), -np.inf, x)), -128, 127).astype(np.int8))


@pytest.mark.parametrize("order", _CLAMPS)
def test_clamps_of_integers_are_one_instruction_each(order: str) -> None:
    options = CodegenOptions(keep_intermediates=True)
    assembly = compile_kernel(_quantize(_CLAMPS[order]), targets.get("x86-64-v3"), options).assembly
    assert "vmaxps" in assembly and "vminps" in assembly and "vcmp" not in assembly and "vblend" not in assembly


@pytest.mark.parametrize("integer", ["i8", "i32", "i64"])
@pytest.mark.parametrize("conversion", ["arith.fptosi", "arith.fptoui"])
def test_what_no_integer_can_be_is_written_all_the_same(conversion: str, integer: str) -> None:
    """Known at compile time, LLVM would leave the store out."""
    text = kernel_text(
        "nothing",
        "%a: tensor<16xf32>",
        f"tensor<16x{integer}>",
        f"""
%nan = arith.constant 0x7FC00000 : f32
%e = tensor.empty() : tensor<16x{integer}>
%0 = linalg.generic {{indexing_maps=[affine_map<(i)->(i)>, affine_map<(i)->(i)>], iterator_types=["parallel"]}}
    ins(%a : tensor<16xf32>) outs(%e : tensor<16x{integer}>) {{
^bb0(%x: f32, %o: {integer}):
  %r = arith.mulf %x, %nan : f32
  %i = {conversion} %r : f32 to {integer}
  linalg.yield %i : {integer}
}} -> tensor<16x{integer}>
return %0 : tensor<16x{integer}>""",
    )
    kernel = Kernel(text)
    dtype = np.dtype(integer.replace("i", "int"))
    results = [np.full(16, fill, dtype) for fill in (17, 42)]
    for result in results:
        assert kernel.run([np.ones(16, np.float32), result]) == 0
    np.testing.assert_array_equal(*results)
