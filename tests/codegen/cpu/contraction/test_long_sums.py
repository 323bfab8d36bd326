"""Sums of many products: their rounding error stays that of a sum of parts, whatever form the kernel takes."""

from __future__ import annotations

import numpy as np
import pytest

from rillet.codegen.knobs import Knobs
from rillet.codegen.result import CodegenOptions
from tests.support.kernel_harness import Kernel, kernel_text
from tests.support.kernel_texts import batched, conv2d, conv2d_reference, matmul, pack, tensor, zero_init

ROUNDING = 2.0**-24
# Running sums of these terms, all positive, are 40 to 100 roundings of the largest result off.
ALLOWED = 20


def _positive(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape[0]).random(shape, np.float32)


def _roundings(actual: np.ndarray, expected: np.ndarray) -> float:
    """The largest error in roundings of the largest result."""
    return float(np.abs(actual - expected).max() / np.abs(expected).max() / ROUNDING)


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3"])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 40, 8192), (7, 40, 4096), (7, 40, 8197), (33, 17, 4099)])
def test_weights(target: str, m: int, n: int, k: int) -> None:
    """A single row, rows that are spread where loads do not broadcast, lengths that parts do not divide."""
    a, b = _positive(m, k), _positive(k, n)
    [y] = Kernel(matmul(m, n, k), target)([a, pack(b), np.zeros(n, np.float32)], [((m, n), np.float32)])
    assert _roundings(y, a.astype(np.float64) @ b) < ALLOWED


@pytest.mark.parametrize("block", [0, 3000])
def test_blocks_of_the_reduction(block: int) -> None:
    a, b = _positive(7, 8192), _positive(8192, 40)
    kernel = Kernel(matmul(7, 40, 8192), "host", CodegenOptions(knobs=Knobs(reduction_block=block)))
    [y] = kernel([a, pack(b), np.zeros(40, np.float32)], [((7, 40), np.float32)])
    assert _roundings(y, a.astype(np.float64) @ b) < ALLOWED


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_computed_right_hand_sides(dynamic: bool, transposed: bool) -> None:
    """Read in place or packed at run time, of a length that is known or is not."""
    b, m, n, k = 2, 7, 24, 6001
    x, y = _positive(b, m, k), _positive(b, k, n)
    maps = ("b, m, k", "b, n, k" if transposed else "b, k, n", "b, m, n")
    right = y.transpose(0, 2, 1) if transposed else y
    if dynamic:
        dims = f"2,3,5|2,{'4,5' if transposed else '5,4'}|2,3,4"
        kernel = Kernel(batched(("?x?x?", "?x?x?", "?x?x?"), maps, dims, "nb nm nn nk"))
    else:
        kernel = Kernel(batched((f"{b}x{m}x{k}", "x".join(map(str, right.shape)), f"{b}x{m}x{n}"), maps))
    assert kernel.compiled.strategy == "contraction"
    [z] = kernel([x, right], [((b, m, n), np.float32)], [b, m, n, k] if dynamic else [])
    assert _roundings(z, x.astype(np.float64) @ y) < ALLOWED


@pytest.mark.parametrize(("channels", "kernel"), [(700, (3, 3)), (96, (9, 5)), (2, (60, 50))])
def test_convolutions(channels: int, kernel: tuple[int, int]) -> None:
    """Parts are cut out of the channels, or are lines of the window, several or one."""
    size = (kernel[0] + 1, kernel[1] + 2)
    x, w = _positive(1, *size, channels), _positive(*kernel, channels, 20)
    text, shape = conv2d(1, size, channels, 20, kernel)
    [y] = Kernel(text)([x, pack(w), np.zeros(20, np.float32)], [(shape, np.float32)])
    assert _roundings(y, conv2d_reference(x, w)) < ALLOWED


def test_doubles() -> None:
    x, y = _positive(1, 5, 9000).astype(np.float64), _positive(1, 9000, 12).astype(np.float64)
    text = batched(("1x5x9000", "1x9000x12", "1x5x12"), ("b, m, k", "b, k, n", "b, m, n")).replace("f32", "f64")
    [z] = Kernel(text)([x, y], [((1, 5, 12), np.float64)])
    exact = np.einsum("bmk,bkn->bmn", x.astype(np.longdouble), y.astype(np.longdouble))
    assert float(np.abs(z - exact).max() / exact.max()) < ALLOWED * 2.0**-53


@pytest.mark.parametrize("dynamic", [False, True])
def test_rows_in_pieces(dynamic: bool) -> None:
    """The sum of each of four rows, whose pieces of 32 elements lie apart."""
    x = _positive(8192, 4, 32)
    source, result = tensor(("?" if dynamic else 8192, 4, 32)), tensor((4,))
    maps = "affine_map<(r, i, j) -> (i, r, j)>, affine_map<(r, i, j) -> (r)>"
    body = f"""{zero_init(result)}
%0 = linalg.generic {{indexing_maps=[{maps}], iterator_types=["parallel", "reduction", "reduction"]}}
    ins(%a : {source}) outs(%init : {result}) {{
^bb0(%x: f32, %c: f32):
  %s = arith.addf %c, %x : f32
  linalg.yield %s : f32
}} -> {result}
return %0 : {result}"""
    arguments = f"%a: {source} {{flow.dims = array<i64: 1>}}, %n: index" if dynamic else f"%a: {source}"
    kernel = Kernel(kernel_text("rows", arguments, result, body))
    assert kernel.compiled.strategy == "rowwise"
    [y] = kernel([x], [((4,), np.float32)], [8192] if dynamic else [])
    assert _roundings(y, x.astype(np.float64).sum((0, 2))) < ALLOWED
