from __future__ import annotations

import numpy as np
import pytest
from harness import Kernel
from kernels import assert_close, matmul, pack


def _check(m: int, n: int, k: int, target: str) -> Kernel:
    rng = np.random.default_rng(m * 1000 + n * 10 + k)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    bias = rng.standard_normal(n, np.float32)
    kernel = Kernel(matmul(m, n, k), target)
    assert kernel.executable.strategy == "contraction"
    [y] = kernel([a, pack(b), bias], [((m, n), np.float32)])
    assert_close(y, np.maximum(a.astype(np.float64) @ b + bias, 0))
    return kernel


@pytest.mark.parametrize(
    ("m", "n", "k"),
    [
        (1, 1, 1),
        (1, 7, 17),
        (7, 17, 33),
        (33, 1, 7),
        (17, 33, 1),
        (6, 16, 64),
        (49, 24, 37),
        (1, 1000, 40),
        (101, 40, 9),
    ],
)
def test_odd_sizes(m: int, n: int, k: int) -> None:
    _check(m, n, k, "host")


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3"])
@pytest.mark.parametrize(("m", "n", "k"), [(7, 17, 33), (26, 31, 12)])
def test_targets(target: str, m: int, n: int, k: int) -> None:
    _check(m, n, k, target)


def test_a_long_product_is_split_into_workgroups() -> None:
    kernel = _check(150, 130, 400, "host")
    assert np.prod(kernel.grid()) >= 2


def test_a_short_product_is_one_workgroup() -> None:
    assert _check(16, 64, 64, "host").grid() == (1, 1, 1)
