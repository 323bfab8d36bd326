"""The end of a quantization: rounding, a zero point, clamps, a conversion."""

from __future__ import annotations

import numpy as np
import pytest

from rillet import targets
from rillet.codegen.cpu.compile import compile_kernel
from rillet.codegen.result import CodegenOptions
from tests.support.kernel_harness import Kernel, kernel_text

_KEEP = CodegenOptions(keep_intermediates=True)


def quantize(n: int, low: float, high: float, zero_point: float, order: str = "high first") -> str:
    """``%a`` as bytes."""
    clamps = ["minimumf %{0}, %high", "maximumf %{0}, %low"]
    first, second = clamps if order == "high first" else reversed(clamps)
    return kernel_text(
        "quantize",
        f"%a: tensor<{n}xf32>",
        f"tensor<{n}xi8>",
        f"""
%low = arith.constant {low:.1f} : f32
%high = arith.constant {high:.1f} : f32
%zero = arith.constant {zero_point:.1f} : f32
%e = tensor.empty() : tensor<{n}xi8>
%0 = linalg.generic {{indexing_maps=[affine_map<(i)->(i)>, affine_map<(i)->(i)>], iterator_types=["parallel"]}}
    ins(%a : tensor<{n}xf32>) outs(%e : tensor<{n}xi8>) {{
^bb0(%x: f32, %o: i8):
  %r = math.roundeven %x : f32
  %z = arith.addf %r, %zero : f32
  %s = arith.{first.format("z")} : f32
  %t = arith.{second.format("s")} : f32
  %i = arith.fptosi %t : f32 to i32
  %n = arith.trunci %i : i32 to i8
  linalg.yield %n : i8
}} -> tensor<{n}xi8>
return %0 : tensor<{n}xi8>""",
    )


RANGES = [(-128, 127, 0), (-128, 127, -13), (0, 255, 128), (3, 200, 3), (-5, 6, 1), (-300, 500, 7)]


@pytest.mark.parametrize("target", ["host", "x86-64-v2"])
@pytest.mark.parametrize("order", ["high first", "low first"])
@pytest.mark.parametrize("bounds", RANGES, ids=str)
def test_results_are_the_same_for_all_numbers(target: str, order: str, bounds: tuple[int, int, int]) -> None:
    """Ties, numbers next to them, large ones, infinities; the last range does not fit the integer, which wraps."""
    low, high, zero_point = bounds
    ties = np.arange(-700, 700, dtype=np.float32) / 2
    near = np.concatenate([np.nextafter(ties, np.float32(s * np.inf), dtype=np.float32) for s in (-1, 1)])
    large = np.float32([2**22 + 0.5, 2**23 + 1, 2**24 + 2, 2**31, 3e38, np.inf, 1e-45, 0.0])
    x = np.concatenate([ties, near, large, -large, np.float32([np.nan])])
    x = np.pad(x, (0, -len(x) % 32 + 5))  # and a tail
    [y] = Kernel(quantize(len(x), low, high, zero_point, order), target)([x], [((len(x),), np.int8)])
    expected = np.clip(np.rint(np.where(np.isnan(x), -np.inf, x)).astype(np.float64) + zero_point, low, high)
    np.testing.assert_array_equal(y, expected.astype(np.int64).astype(np.uint8).view(np.int8))


@pytest.mark.parametrize("bounds", [(-128, 127, 0), (0, 255, 7)], ids=str)
def test_conversions_round_and_narrowing_saturates(bounds: tuple[int, int, int]) -> None:
    assembly = compile_kernel(quantize(256, *bounds), targets.get("x86-64-v3"), _KEEP).assembly
    assert "vcvtps2dq" in assembly and "vpackssdw" in assembly
    assert not any(name in assembly for name in ("vroundps", "vcvttps2dq", "vpshufb", "vpminsd", "vpmaxsd"))
