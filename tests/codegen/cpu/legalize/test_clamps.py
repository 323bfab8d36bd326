from __future__ import annotations

import numpy as np
import pytest

from rillet import targets
from rillet.codegen.cpu.compile import compile_kernel
from rillet.codegen.result import CodegenOptions
from tests.support.kernel_harness import Kernel, kernel_text

_RELU6 = kernel_text(
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
    result = compile_kernel(_RELU6, targets.get("x86-64-v3"), CodegenOptions(keep_intermediates=True))
    assert "vmaxps" in result.assembly and "vminps" in result.assembly
    assert "vcmp" not in result.assembly and "vblend" not in result.assembly
