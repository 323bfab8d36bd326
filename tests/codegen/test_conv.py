from __future__ import annotations

import numpy as np
import pytest
from harness import Kernel
from kernels import assert_close, conv2d, conv2d_reference, pack


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
    assert compiled.executable.strategy == "contraction"
    [y] = compiled([x, pack(w), bias], [(shape, np.float32)])
    assert_close(y, np.maximum(conv2d_reference(x, w, stride, dilation) + bias, 0))
