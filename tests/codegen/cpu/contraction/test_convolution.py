from __future__ import annotations

import numpy as np
import pytest

from tests.support.kernel_harness import Kernel, kernel_text
from tests.support.kernel_texts import PACK, assert_close, conv2d, conv2d_reference, pack, reduction, tensor, zero_init


@pytest.mark.parametrize("target", ["host", "x86-64-v2"])
@pytest.mark.parametrize(
    ("batch", "size", "ic", "oc", "kernel", "stride", "dilation"),
    [
        (1, (9, 9), 16, 16, (3, 3), 1, 1),
        (2, (11, 13), 3, 8, (3, 3), 2, 1),
        (1, (12, 9), 5, 20, (3, 1), 1, 2),
        (1, (17, 20), 1, 7, (5, 5), 3, 1),
        (2, (7, 7), 24, 33, (1, 1), 1, 1),
        (1, (13, 13), 4, 16, (1, 1), 2, 1),
    ],
)
def test_conv2d(
    target: str,
    batch: int,
    size: tuple[int, int],
    ic: int,
    oc: int,
    kernel: tuple[int, int],
    stride: int,
    dilation: int,
) -> None:
    rng = np.random.default_rng(0)
    text, shape = conv2d(batch, size, ic, oc, kernel, stride, dilation)
    x = rng.standard_normal((batch, *size, ic), np.float32)
    w = rng.standard_normal((*kernel, ic, oc), np.float32)
    bias = rng.standard_normal(oc, np.float32)
    compiled = Kernel(text, target)
    assert compiled.compiled.strategy == "contraction"
    [y] = compiled([x, pack(w), bias], [(shape, np.float32)])
    assert_close(y, np.maximum(conv2d_reference(x, w, stride, dilation) + bias, 0))


@pytest.mark.parametrize("target", ["host", "x86-64-v2"])
@pytest.mark.parametrize("per_group", [8, 16, 20])
def test_grouped(target: str, per_group: int) -> None:
    groups, ic, size = 3, 5, (6, 8)
    shape = (1, 4, 6, groups, per_group)
    result, left = tensor(shape), tensor((1, *size, groups, ic))
    panels = -(-per_group // PACK)
    right = tensor((groups, panels, 3, 3, ic, PACK))
    maps = ("n, h + i, w + j, g, c", f"g, o floordiv {PACK}, i, j, c, o mod {PACK}", "n, h, w, g, o")
    body = zero_init(result) + reduction(result, left, right, "n, h, w, g, o, i, j, c", maps, "ppppprrr")
    text = kernel_text("grouped", f"%a: {left}, %b: {right}", result, f"{body}\nreturn %0 : {result}")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, *size, groups, ic), np.float32)
    w = rng.standard_normal((groups, 3, 3, ic, per_group), np.float32)
    kernel = Kernel(text, target)
    assert kernel.compiled.strategy == "contraction"
    [y] = kernel([x, pack(w, 1)], [(shape, np.float32)])
    for g in range(groups):
        assert_close(y[:, :, :, g], conv2d_reference(x[:, :, :, g], w[g]))


def test_one_and_three_dimensions() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 19, 6), np.float32)
    w = rng.standard_normal((4, 6, 9), np.float32)
    result, left, right = tensor((2, 8, 9)), tensor((2, 19, 6)), tensor((1, 4, 6, PACK))
    maps = ("n, h * 2 + i, c", f"o floordiv {PACK}, i, c, o mod {PACK}", "n, h, o")
    body = zero_init(result) + reduction(result, left, right, "n, h, o, i, c", maps, "ppprr")
    kernel = Kernel(kernel_text("one", f"%a: {left}, %b: {right}", result, f"{body}\nreturn %0 : {result}"))
    assert kernel.compiled.strategy == "contraction"
    [y] = kernel([x, pack(w)], [((2, 8, 9), np.float32)])
    assert_close(y, conv2d_reference(x[:, :, None], w[:, None], 2)[:, :, 0])

    x = rng.standard_normal((1, 4, 5, 6, 3), np.float32)
    w = rng.standard_normal((2, 3, 2, 3, 17), np.float32)
    shape = (1, 3, 3, 5, 17)
    result, left, right = tensor(shape), tensor(x.shape), tensor((2, 2, 3, 2, 3, PACK))
    maps = ("n, d + q, h + i, w + j, c", f"o floordiv {PACK}, q, i, j, c, o mod {PACK}", "n, d, h, w, o")
    body = zero_init(result) + reduction(result, left, right, "n, d, h, w, o, q, i, j, c", maps, "ppppprrrr")
    kernel = Kernel(kernel_text("three", f"%a: {left}, %b: {right}", result, f"{body}\nreturn %0 : {result}"))
    assert kernel.compiled.strategy == "contraction"
    [y] = kernel([x, pack(w)], [(shape, np.float32)])
    expected = sum(conv2d_reference(x[0, q : q + 3], w[q]) for q in range(2))
    assert_close(y[0], expected)


@pytest.mark.parametrize("stride", [1, 2])
def test_channels_first_input_is_the_right_hand_side(stride: int) -> None:
    """Vectors run along the last axis of the result, image columns here, and the weights are broadcast."""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 4, 11, 23), np.float32), rng.standard_normal((6, 4, 3, 3), np.float32)
    shape = (1, 6, (11 - 3) // stride + 1, (23 - 3) // stride + 1)
    result, left, right = tensor(shape), tensor(w.shape), tensor(x.shape)
    maps = ("o, c, i, j", f"n, c, h * {stride} + i, w * {stride} + j", "n, o, h, w")
    body = zero_init(result) + reduction(result, left, right, "n, o, h, w, c, i, j", maps, "pppprrr")
    kernel = Kernel(kernel_text("nchw", f"%a: {left}, %b: {right}", result, f"{body}\nreturn %0 : {result}"))
    assert kernel.compiled.strategy == "contraction"
    [y] = kernel([w, x], [(shape, np.float32)])
    expected = conv2d_reference(x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0), stride)
    assert_close(y, expected.transpose(0, 3, 1, 2))
