"""AArch64 kernels compute the right thing, under QEMU's user emulation."""

from __future__ import annotations

import numpy as np
import pytest

from rillet import targets
from rillet.codegen.cpu.compile import compile_kernel
from tests.support.emulated import Emulator
from tests.support.kernel_texts import (
    assert_close,
    conv2d,
    conv2d_reference,
    depthwise,
    depthwise_reference,
    matmul,
    narrow_product,
    pack,
)

TARGET = targets.get("aarch64")


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Emulator:
    found = Emulator(TARGET, tmp_path_factory.mktemp("aarch64"))
    if not found.present:
        pytest.skip(f"{found.qemu} is not installed")
    return found


def _run(emulator: Emulator, text: str, inputs: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    kernel = compile_kernel(text, TARGET)
    return emulator.run(kernel, [*inputs, np.full(shape, np.nan, np.float32)])[-1]


# 13 steps: whole vectors of the left operand, then one element at a time.
@pytest.mark.parametrize(("m", "n", "k"), [(26, 31, 13), (1, 40, 64), (7, 17, 3)])
def test_matmul(emulator: Emulator, m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    bias = rng.standard_normal(n, np.float32)
    y = _run(emulator, matmul(m, n, k), [a, pack(b), bias], (m, n))
    assert_close(y, np.maximum(a.astype(np.float64) @ b + bias, 0))


@pytest.mark.parametrize("m", [1, 13])
def test_product_with_narrow_weights(emulator: Emulator, m: int) -> None:
    rng = np.random.default_rng(0)
    n, blocks, block = 48, 3, 32
    x = rng.standard_normal((m, blocks, block), np.float32)
    weights, zeros = rng.integers(0, 16, (blocks, block, n)), rng.integers(0, 16, (blocks, n))
    scales = rng.uniform(0.5, 1.5, (blocks, n)).astype(np.float32)
    packed = pack(weights.astype(np.uint8))
    arguments = [x, packed[..., ::2] | packed[..., 1::2] << 4, pack(scales), pack(zeros.astype(np.uint8))]
    y = _run(emulator, narrow_product(m, n, blocks, block), arguments, (m, n))
    wide = (weights - zeros[:, None]) * scales[:, None].astype(np.float64)
    assert_close(y, np.einsum("mbk,bkn->mn", x, wide))


@pytest.mark.parametrize("stride", [1, 2])
def test_convolution(emulator: Emulator, stride: int) -> None:
    rng = np.random.default_rng(0)
    text, shape = conv2d(1, (11, 9), 6, 20, (3, 3), stride)
    x, w = rng.standard_normal((1, 11, 9, 6), np.float32), rng.standard_normal((3, 3, 6, 20), np.float32)
    bias = rng.standard_normal(20, np.float32)
    y = _run(emulator, text, [x, pack(w), bias], shape)
    assert_close(y, np.maximum(conv2d_reference(x, w, stride) + bias, 0))


def test_convolution_that_skips_padding(emulator: Emulator) -> None:
    rng = np.random.default_rng(0)
    text, shape = conv2d(1, (7, 9), 6, 20, (3, 3), 1, 5, (5, 5, 5, 5))
    x, w = rng.standard_normal((1, 7, 9, 6), np.float32), rng.standard_normal((3, 3, 6, 20), np.float32)
    bias = rng.standard_normal(20, np.float32)
    y = _run(emulator, text, [x, pack(w), bias], shape)
    padded = np.pad(x, ((0, 0), (5, 5), (5, 5), (0, 0)))
    assert_close(y, np.maximum(conv2d_reference(padded, w, 1, 5) + bias, 0))


@pytest.mark.parametrize("stride", [1, 2])
def test_depthwise(emulator: Emulator, stride: int) -> None:
    rng = np.random.default_rng(0)
    text, shape = depthwise(1, (9, 12), 18, (3, 3), stride, 1)
    x, w = rng.standard_normal((1, 9, 12, 18), np.float32), rng.standard_normal((3, 3, 18), np.float32)
    bias = rng.standard_normal(18, np.float32)
    y = _run(emulator, text, [x, w, bias], shape)
    assert_close(y, np.maximum(depthwise_reference(x, w, stride, 1) + bias, 0))
