from __future__ import annotations

import numpy as np
import pytest

from tests.support.kernel_harness import Kernel, kernel_text
from tests.support.kernel_texts import assert_close, depthwise, depthwise_reference, reduction, tensor, zero_init


@pytest.mark.parametrize("target", ["host", "x86-64-v2"])
@pytest.mark.parametrize(
    ("batch", "size", "channels", "kernel", "stride", "dilation"),
    [
        (1, (9, 9), 32, (3, 3), 1, 1),
        (2, (9, 12), 24, (3, 3), 2, 1),
        (1, (13, 11), 7, (5, 5), 1, 1),
        (1, (12, 12), 35, (3, 5), 1, 2),
        (1, (3, 3), 1, (3, 3), 1, 1),
        (1, (11, 19), 40, (11, 11), 1, 1),
    ],
)
def test_depthwise(
    target: str,
    batch: int,
    size: tuple[int, int],
    channels: int,
    kernel: tuple[int, int],
    stride: int,
    dilation: int,
) -> None:
    rng = np.random.default_rng(0)
    text, shape = depthwise(batch, size, channels, kernel, stride, dilation)
    x = rng.standard_normal((batch, *size, channels), np.float32)
    w = rng.standard_normal((*kernel, channels), np.float32)
    bias = rng.standard_normal(channels, np.float32)
    compiled = Kernel(text, target)
    assert compiled.compiled.strategy == "windowed"
    [y] = compiled([x, w, bias], [(shape, np.float32)])
    assert_close(y, np.maximum(depthwise_reference(x, w, stride, dilation) + bias, 0))


def test_one_dimension_with_dynamic_length() -> None:
    result, left, right = "tensor<1x?x20xf32>", "tensor<1x?x20xf32>", "tensor<4x20xf32>"
    maps = ("n, w + j, c", "j, c", "n, w, c")
    body = zero_init(result, dynamic="%out") + reduction(result, left, right, "n, w, c, j", maps, "pppr")
    text = kernel_text(
        "dynamic",
        f"%a: {left} {{flow.dims = array<i64: 2>}}, %b: {right}, %in: index, %out: index",
        f"{result} {{flow.dims = array<i64: 3>}}",
        f"{body}\nreturn %0 : {result}",
    )
    kernel = Kernel(text)
    assert kernel.compiled.strategy == "windowed"
    rng = np.random.default_rng(0)
    w = rng.standard_normal((4, 20), np.float32)
    for length in (4, 9, 30):
        x = rng.standard_normal((1, length, 20), np.float32)
        [y] = kernel([x, w], [((1, length - 3, 20), np.float32)], [length, length - 3])
        assert_close(y, depthwise_reference(x[:, None], w[None], 1, 1)[:, 0])


def test_small_floats_are_summed_in_f32() -> None:
    shape = (1, 5, 6, 16)
    result, left, right = tensor(shape, "f16"), tensor((1, 7, 8, 16), "f16"), tensor((3, 3, 16), "f16")
    body = f"""
%zero = arith.constant 0.0 : f16
%e = tensor.empty() : {result}
%init = linalg.fill ins(%zero : f16) outs(%e : {result}) -> {result}
%0 = linalg.generic {{indexing_maps=[affine_map<(n, h, w, c, i, j)->(n, h + i, w + j, c)>,
    affine_map<(n, h, w, c, i, j)->(i, j, c)>, affine_map<(n, h, w, c, i, j)->(n, h, w, c)>],
    iterator_types=["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}}
    ins(%a, %b : {left}, {right}) outs(%init : {result}) {{
^bb0(%x: f16, %y: f16, %c: f16):
  %p = arith.extf %x : f16 to f32
  %q = arith.extf %y : f16 to f32
  %w = arith.extf %c : f16 to f32
  %r = arith.mulf %p, %q : f32
  %s = arith.addf %w, %r : f32
  %t = arith.truncf %s : f32 to f16
  linalg.yield %t : f16
}} -> {result}
return %0 : {result}"""
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(np.float16) for s in ((1, 7, 8, 16), (3, 3, 16)))
    kernel = Kernel(kernel_text("half", f"%a: {left}, %b: {right}", result, body))
    assert kernel.compiled.strategy == "windowed"
    [y] = kernel([x, w], [(shape, np.float16)])
    expected = depthwise_reference(x, w.astype(np.float64), 1, 1)
    assert np.abs(y - expected).max() <= np.abs(expected).max() * 2.0**-11


def test_the_weights_are_read_once_and_sums_stay_in_registers() -> None:
    from rillet import targets
    from rillet.codegen.cpu.compile import compile_kernel
    from rillet.codegen.result import CodegenOptions

    text, _ = depthwise(1, (16, 16), 64, (3, 3), 1, 1)
    result = compile_kernel(text, targets.get("x86-64-v3"), CodegenOptions(keep_intermediates=True))
    body = result.assembly.split("__body")[1]
    assert "(%rsp)" not in "".join(line for line in body.splitlines() if "ymm" in line)


@pytest.mark.parametrize("target", ["host", "x86-64-v2"])
def test_splat_weights_are_a_constant(target: str) -> None:
    """Equal weights are no argument of the kernel, and the kernel is the same."""
    shape = (1, 7, 9, 20)
    result, left, right = tensor(shape), tensor((1, 9, 11, 20)), tensor((3, 3, 20))
    maps = ("n, h + i, w + j, c", "i, j, c", "n, h, w, c")
    body = f"%b = arith.constant dense<0.25> : {right}\n" + zero_init(result)
    body += reduction(result, left, right, "n, h, w, c, i, j", maps, "pppprr") + f"\nreturn %0 : {result}"
    kernel = Kernel(kernel_text("splat", f"%a: {left}", result, body), target)
    assert kernel.compiled.strategy == "windowed"
    x = np.random.default_rng(0).standard_normal((1, 9, 11, 20), np.float32)
    [y] = kernel([x], [(shape, np.float32)])
    assert_close(y, depthwise_reference(x, np.full((3, 3, 20), 0.25), 1, 1))


@pytest.mark.parametrize("target", ["host", "x86-64-v2"])
@pytest.mark.parametrize(
    ("size", "channels", "kernel", "stride"),
    [((11, 14), 32, (3, 3), 1), ((9, 12), 27, (3, 3), 2), ((12, 9), 20, (7, 7), 1)],
)
def test_long_epilogue(target: str, size: tuple[int, int], channels: int, kernel: tuple[int, int], stride: int) -> None:
    """Code that is long for each vector exists once for each column of a tile where its window is unrolled."""
    rng = np.random.default_rng(0)
    text, shape = depthwise(1, size, channels, kernel, stride, 1)
    clamp = next(line for line in text.splitlines() if "arith.maximumf" in line)
    result, operands = clamp.split("=")[0].strip(), clamp.split("arith.maximumf")[1].split(":")[0]
    value = operands.split(",")[0].strip()
    assert value.startswith("%") and result.startswith("%")
    silu = f"%m = arith.negf {value} : f32\n%p = math.exp %m : f32\n%q = arith.addf %p, %k : f32\n"
    silu += f"{result} = arith.divf {value}, %q : f32"
    text = text.replace(clamp, f"%k = arith.constant 1.0 : f32\n{silu}")
    x = rng.standard_normal((1, *size, channels), np.float32)
    w = rng.standard_normal((*kernel, channels), np.float32)
    bias = rng.standard_normal(channels, np.float32)
    [y] = Kernel(text, target)([x, w, bias], [(shape, np.float32)])
    sums = depthwise_reference(x, w, stride, 1) + bias
    assert_close(y, sums / (1 + np.exp(-sums)))
