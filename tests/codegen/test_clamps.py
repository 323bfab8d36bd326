from __future__ import annotations

import numpy as np
import pytest
from harness import Kernel, executable

from rillet import targets
from rillet.codegen import CodegenOptions, compile_executable

_RELU6 = executable(
    "relu6",
    "%a: tensor<32xf32>",
    "tensor<32xf32>",
    """
%zero = arith.constant 0.0 : f32
%six = arith.constant 6.0 : f32
%e = tensor.empty() : tensor<32xf32>
%0 = linalg.generic {indexing_maps=[affine_map<(i)->(i)>, affine_map<(i)->(i)>], iterator_types=["parallel"]}
    ins(%a : tensor<32xf32>) outs(%e : tensor<32xf32>) {
^bb0(%x: f32, %o: f32):
  %s = arith.maximumf %x, %zero : f32
  %t = arith.minimumf %s, %six : f32
  linalg.yield %t : f32
} -> tensor<32xf32>
return %0 : tensor<32xf32>""",
)


@pytest.mark.parametrize("target", ["host", "x86-64-v2"])
def test_nan_and_infinity_pass_through_a_clamp(target: str) -> None:
    x = np.linspace(-8, 8, 32, dtype=np.float32)
    x[3], x[4], x[5], x[6] = np.nan, np.inf, -np.inf, -0.0
    [y] = Kernel(_RELU6, target)([x], [((32,), np.float32)])
    np.testing.assert_array_equal(y, np.minimum(np.maximum(x, 0), 6))


def test_a_clamp_is_one_instruction_for_each_bound() -> None:
    result = compile_executable(_RELU6, targets.get("x86-64-v3"), CodegenOptions(keep_intermediates=True))
    assert "vmaxps" in result.assembly and "vminps" in result.assembly
    assert "vcmp" not in result.assembly and "vblend" not in result.assembly


def _quantize(clamps: str) -> str:
    return executable(
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
    assembly = compile_executable(_quantize(_CLAMPS[order]), targets.get("x86-64-v3"), options).assembly
    assert "vmaxps" in assembly and "vminps" in assembly and "vcmp" not in assembly and "vblend" not in assembly
