"""Products of 8-bit integers, summed two steps at a time."""

from __future__ import annotations

import re

import numpy as np
import pytest

from rillet import targets
from rillet.codegen.cpu.compile import compile_kernel
from rillet.codegen.result import CodegenOptions
from tests.support.assembly import inner_loops
from tests.support.kernel_harness import Kernel, kernel_text
from tests.support.kernel_texts import PACK, pack, tensor
from tests.support.pair_products import LAYOUTS, factors, pack_pairs, product

_KEEP = CodegenOptions(keep_intermediates=True)
TARGETS = ["host", "x86-64-v2", "x86-64-v3"]
SIGNS = {"arith.extsi": np.int8, "arith.extui": np.uint8}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("layout", ["panels", "pairs"])
@pytest.mark.parametrize("signs", [(a, b) for a in SIGNS for b in SIGNS], ids=lambda signs: "-".join(signs))
@pytest.mark.parametrize(("m", "n", "k"), [(11, 37, 29), (6, 16, 64), (1, 8, 2), (13, 48, 147), (7, 5, 3)])
def test_sums_are_exact(target: str, layout: str, signs: tuple[str, str], m: int, n: int, k: int) -> None:
    left, right = (SIGNS[sign] for sign in signs)
    rng = np.random.default_rng(0)
    zeros = [int(rng.integers(np.iinfo(t).min, np.iinfo(t).max + 1)) for t in (left, right)]
    kernel = Kernel(product(m, n, k, factors(*signs, *zeros), layout), target)
    assert kernel.compiled.strategy == "contraction"
    extremes = [np.iinfo(t).max for t in (left, right)], [np.iinfo(t).min for t in (left, right)]
    for pair in (None, *extremes):
        a, b = (
            rng.integers(np.iinfo(t).min, np.iinfo(t).max + 1, s).astype(t) if pair is None else np.full(s, v, t)
            for s, t, v in zip(((m, k), (k, n)), (left, right), pair or (0, 0), strict=True)
        )
        [y] = kernel([a.view(np.int8), LAYOUTS[layout][0](b.view(np.int8))], [((m, n), np.int32)])
        np.testing.assert_array_equal(y, (a.astype(np.int32) - zeros[0]) @ (b.astype(np.int32) - zeros[1]))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("n", [32, 37])
def test_right_hand_side_in_place(target: str, n: int) -> None:
    m, k = 9, 21
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, s).astype(np.int8) for s in ((m, k), (k, n)))
    kernel = Kernel(product(m, n, k, factors("arith.extsi", "arith.extsi", 5, 0), "rows"), target)
    [y] = kernel([a, b], [((m, n), np.int32)])
    np.testing.assert_array_equal(y, (a.astype(np.int32) - 5) @ b.astype(np.int32))


@pytest.mark.parametrize("m", [1, 6, 23])
def test_unknown_number_of_rows(m: int) -> None:
    n, k = 24, 33
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, s).astype(np.int8) for s in ((m, k), (k, n)))
    kernel = Kernel(product("?", n, k, factors("arith.extsi", "arith.extsi", -3, 0)))
    [y] = kernel([a, pack_pairs(b)], [((m, n), np.int32)], constants=[m])
    np.testing.assert_array_equal(y, (a.astype(np.int32) + 3) @ b.astype(np.int32))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "padding"),
    [((1, 6, 7, 5), 3, 1, 1), ((2, 9, 8, 16), 3, 2, 1), ((1, 12, 12, 3), 7, 2, 3), ((1, 5, 5, 8), 3, 1, 0)],
)
def test_convolution_of_a_padded_image(
    target: str, shape: tuple[int, int, int, int], kernel: int, stride: int, padding: int
) -> None:
    """Beside the image lie zero points."""
    outputs, zero_point, paired = 21, 130, shape[3] % 2 == 0  # what begins anew in each row of a window is even
    arranged = pack_pairs if paired else pack
    axes = "c floordiv 2, o mod {0}, c mod 2" if paired else "c, o mod {0}"
    packed = (2, kernel, kernel, shape[3] // 2, PACK, 2) if paired else (2, kernel, kernel, shape[3], PACK)
    side = [shape[1] + 2 * padding, shape[2] + 2 * padding]
    out = (shape[0], (side[0] - kernel) // stride + 1, (side[1] - kernel) // stride + 1, outputs)
    big, weights, result = (shape[0], *side, shape[3]), (kernel, kernel, shape[3], outputs), tensor(out, "i32")
    body = f"""
%value = arith.constant {zero_point - 256} : i8
%zero = arith.constant 0 : i32
%padded = tensor.pad %a low[0, {padding}, {padding}, 0] high[0, {padding}, {padding}, 0] {{
^bb0(%i0: index, %i1: index, %i2: index, %i3: index):
  tensor.yield %value : i8
}} : {tensor(shape, "i8")} to {tensor(big, "i8")}
%e = tensor.empty() : {result}
%init = linalg.fill ins(%zero : i32) outs(%e : {result}) -> {result}
%0 = linalg.generic {{indexing_maps=[affine_map<(n, h, w, o, i, j, c)->(n, h * {stride} + i, w * {stride} + j, c)>,
    affine_map<(n, h, w, o, i, j, c)->(o floordiv {PACK}, i, j, {axes.format(PACK)})>,
    affine_map<(n, h, w, o, i, j, c)->(n, h, w, o)>],
    iterator_types=["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}}
    ins(%padded, %b : {tensor(big, "i8")}, {tensor(packed, "i8")}) outs(%init : {result}) {{
^bb0(%x: i8, %y: i8, %c: i32):{factors("arith.extui", "arith.extsi", zero_point, 0)}
}} -> {result}
return %0 : {result}"""
    text = kernel_text("conv", f"%a: {tensor(shape, 'i8')}, %b: {tensor(packed, 'i8')}", result, body)
    rng = np.random.default_rng(0)
    x, w = rng.integers(0, 256, shape).astype(np.uint8), rng.integers(-128, 128, weights).astype(np.int8)
    compiled = Kernel(text, target)
    assert compiled.compiled.strategy == "contraction"
    [y] = compiled([x.view(np.int8), arranged(w)], [(out, np.int32)])
    spread = ((0, 0), (padding, padding), (padding, padding), (0, 0))
    image = np.pad(x, spread, constant_values=zero_point).astype(np.int32) - zero_point
    windows = np.lib.stride_tricks.sliding_window_view(image, (kernel, kernel), axis=(1, 2))[:, ::stride, ::stride]
    np.testing.assert_array_equal(y, np.einsum("nhwcij,ijco->nhwo", windows, w.astype(np.int32)))


@pytest.mark.parametrize("name", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v4-vnni"])
def test_two_products_an_instruction(name: str) -> None:
    """Nothing but loads, some of which widen, multiplications and additions, which may be one."""
    target = targets.get(name)
    made = compile_kernel(product(48, 64, 256, factors("arith.extui", "arith.extsi", 128, 0)), target, _KEEP)
    multiply, add = ("vpdpwssd", 0) if target.machine.accumulates_pairs else ("v?pmaddwd", 1)
    main = max(inner_loops(made.assembly, "pairs", target), key=lambda loop: loop.count(multiply))
    assert main.count(multiply) >= 8 and main.spills == main.stores == 0
    assert main.count("v?paddd") == add * main.count(multiply)
    assert main.count("v?punpckl") == 0


def test_other_targets_multiply_one_by_one() -> None:
    text = product(8, 16, 32, factors("arith.extsi", "arith.extsi", 0, 0), "panels")
    assert not re.search(r"uzp[12]", compile_kernel(text, targets.get("aarch64"), _KEEP).assembly)
