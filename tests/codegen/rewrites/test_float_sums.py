"""Sums of products of 8-bit integers that are made in floats, or two window positions at a time, on microcontrollers.

Results are tested with whole networks (tests/export/test_quantized_firmware.py).
"""

from __future__ import annotations

import re

import pytest

from rillet import targets
from rillet.codegen.cpu.compile import compile_kernel
from rillet.codegen.result import CodegenOptions
from tests.support.kernel_harness import kernel_text
from tests.support.kernel_texts import tensor

_KEEP = CodegenOptions(keep_intermediates=True)


def convolution(window: tuple[int, int], channels: int, filters: int, zero: int = 0, fill: int = 0) -> str:
    """Products summed in 32 bits, and half of each sum as a float; depthwise without ``filters``."""
    height, width = 6, 11
    image = (height + window[0] - 1, width + window[1] - 1, channels)
    across = filters > 0
    shape, weights = (height, width, filters or channels), (*window, channels, *([filters] if across else []))
    loops = "h, w, o, i, j, c" if across else "h, w, c, i, j"
    last = "o" if across else "c"
    kinds = ", ".join(f'"{kind}"' for kind in ["parallel"] * 3 + ["reduction"] * (3 if across else 2))
    maps = ("h + i, w + j, c", "i, j, c, o" if across else "i, j, c", f"h, w, {last}")
    affine = ", ".join(f"affine_map<({loops})->({m})>" for m in maps)
    same = "affine_map<(h, w, c)->(h, w, c)>"
    left, right, sums, result = tensor(image, "i8"), tensor(weights, "i8"), tensor(shape, "i32"), tensor(shape)
    text = f"""
%fill = arith.constant {fill} : i32
%half = arith.constant 0.5 : f32
%e = tensor.empty() : {sums}
%init = linalg.fill ins(%fill : i32) outs(%e : {sums}) -> {sums}
%0 = linalg.generic {{indexing_maps=[{affine}], iterator_types=[{kinds}]}}
    ins(%a, %b : {left}, {right}) outs(%init : {sums}) {{
^bb0(%x: i8, %y: i8, %t: i32):
  %p = arith.extsi %x : i8 to i32
  %q = arith.extsi %y : i8 to i32
  %z = arith.constant {zero} : i32
  %f = arith.subi %p, %z : i32
  %m = arith.muli {"%f" if zero else "%p"}, %q : i32
  %s = arith.addi %t, %m : i32
  linalg.yield %s : i32
}} -> {sums}
%o = tensor.empty() : {result}
%1 = linalg.generic {{indexing_maps=[{same}, {same}], iterator_types=["parallel", "parallel", "parallel"]}}
    ins(%0 : {sums}) outs(%o : {result}) {{
^bb0(%x: i32, %t: f32):
  %f = arith.sitofp %x : i32 to f32
  %h = arith.mulf %f, %half : f32
  linalg.yield %h : f32
}} -> {result}
return %1 : {result}"""
    return kernel_text("sums", f"%a: {left}, %b: {right}", result, text)


def count(pattern: str, text: str, target: str) -> int:
    assembly = compile_kernel(text, targets.get(target), _KEEP).assembly.split("sums__body:")[1]
    return len(re.findall(rf"^\s+(?:{pattern})\b", assembly, re.MULTILINE))


@pytest.mark.parametrize(("target", "instruction"), [("riscv32imf", "fmadd.s"), ("cortex-m55", "vfma.f32")])
def test_short_sums_are_made_in_floats(target: str, instruction: str) -> None:
    text = convolution((3, 3), 16, 0, zero=5)
    assert count(instruction, text, target) >= 9
    # Nothing is an integer between the products and the factor that follows.
    assert count(r"vmul\.i32|fcvt\.w\.s|vcvt\.s32\.f32", text, target) == 0


@pytest.mark.parametrize(
    "text", [convolution((33, 33), 16, 0), convolution((3, 3), 16, 0, fill=7)], ids=["long", "begun"]
)
@pytest.mark.parametrize(("target", "instruction"), [("riscv32imf", "fmadd.s"), ("cortex-m55", "vfma.f32")])
def test_sums_that_floats_may_not_hold_are_integers(target: str, instruction: str, text: str) -> None:
    assert count(instruction, text, target) == 0


def test_products_with_scalars_stay_integers_where_vectors_add_them_at_once() -> None:
    text = convolution((3, 3), 3, 8)
    assert count(r"vmla\.i32|vmla\.s32", text, "cortex-m55") > 0
    assert count(r"vfma\.f32", text, "cortex-m55") == 0
    assert count(r"fmadd\.s", text, "riscv32imf") > 0


@pytest.mark.parametrize("window", [(3, 3), (2, 3), (4, 2)])
def test_window_positions_are_multiplied_in_pairs(window: tuple[int, int]) -> None:
    """Two by two across lines, so that results next to each other share pairs; an odd line is left over."""
    text = convolution(window, 16, 0)
    pairs, rest = count("smlad", text, "cortex-m4"), count("smlabb|mla", text, "cortex-m4")
    paired = window[0] // 2 * window[1]
    assert pairs * (window[0] * window[1] - 2 * paired) == rest * paired
    assert count("pkhbt", text, "cortex-m4") < pairs


def test_positions_along_a_line_make_no_pairs() -> None:
    assert count("smlad|pkhbt", convolution((1, 4), 16, 0), "cortex-m4") == 0


def test_zero_points_are_not_subtracted_in_pairs() -> None:
    assert count("smlad", convolution((3, 3), 16, 0, zero=5), "cortex-m4") == 0
