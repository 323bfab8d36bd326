"""Softmax against numpy, along rows and down columns, and what its kernels make of what they know about it."""

from __future__ import annotations

import numpy as np
import pytest

from rillet import targets
from rillet.codegen.cpu.compile import compile_kernel
from rillet.codegen.result import CodegenOptions
from tests.support.kernel_harness import Kernel
from tests.support.softmax_kernels import numpy_softmax, softmax
from tests.support.targets import with_machine

F32 = np.float32
TARGETS = ["x86-64-v2", "x86-64-v3", "host"]


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(F32)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(1, 1), (4, 10), (3, 8), (37, 1001), (50, 64)])
def test_softmax(target: str, shape: tuple[int, int], axis: int) -> None:
    a = random(*shape) * 5
    (r,) = Kernel(softmax(*shape, axis), target)([a], [(shape, F32)])
    np.testing.assert_allclose(r, numpy_softmax(a, axis), rtol=2e-6, atol=1e-9)


def test_next_row_is_fetched_where_the_caches_do_not_hold_all_rows() -> None:
    options = CodegenOptions(keep_intermediates=True)
    target = targets.get("x86-64-v3")
    assert "prefetch" not in compile_kernel(softmax(64, 128, 1), target, options).assembly
    small = with_machine(target, l2_bytes=16 * 1024)
    kernel = Kernel(softmax(64, 128, 1), small, options)
    assert kernel.compiled.assembly.count("prefetcht0") == 4 * 128 // 128
    a = random(64, 128)
    (r,) = kernel([a], [((64, 128), F32)])
    np.testing.assert_allclose(r, numpy_softmax(a, 1), rtol=2e-6)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(600, 100), (1024, 32), (515, 700), (2049, 1030)])
def test_softmax_down_long_columns(target: str, shape: tuple[int, int]) -> None:
    if target == "x86-64-v2" and shape[0] > 1024:
        pytest.skip("the same code on narrower vectors")
    a = random(*shape) * 5
    a[3, 5], a[7, 6] = -np.inf, np.nan
    (r,) = Kernel(softmax(*shape, 0), target)([a], [(shape, F32)])
    e = np.exp(a - a.max(0))
    np.testing.assert_allclose(r, e / e.astype(np.float64).sum(0), rtol=2e-6, atol=1e-9)


def test_long_columns_read_along_memory_in_bands() -> None:
    """All columns in one workgroup, which reads bands of rows; the last columns are cut off by a mask. The
    maximum and the sum are results as well.
    """
    text = softmax(1000, 45, 0).replace(
        "-> (tensor<1000x45xf32>)", "-> (tensor<1000x45xf32>, tensor<45xf32>, tensor<45xf32>)", 1
    )
    text = text.replace(
        "return %r : tensor<1000x45xf32>", "return %r, %max, %sum : tensor<1000x45xf32>, tensor<45xf32>, tensor<45xf32>"
    )
    kernel = Kernel(text, "x86-64-v3")
    assert kernel.compiled.grid == (1, 1, 1)
    a = random(1000, 45)
    r, largest, total = kernel([a], [((1000, 45), F32), ((45,), F32), ((45,), F32)])
    np.testing.assert_allclose(r, numpy_softmax(a, 0), rtol=3e-6)
    np.testing.assert_array_equal(largest, a.max(0))
    np.testing.assert_allclose(total, np.exp(a - a.max(0)).astype(np.float64).sum(0), rtol=1e-6)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(1, 1), (5, 13), (20, 100), (0, 4)])
def test_softmax_with_dynamic_extents(shape: tuple[int, int], axis: int) -> None:
    a = random(*shape) * 5
    (r,) = Kernel(softmax("?", "?", axis))([a], [(shape, F32)], shape)
    if a.size:
        np.testing.assert_allclose(r, numpy_softmax(a, axis), rtol=2e-6, atol=1e-9)


def test_softmax_in_place() -> None:
    a = random(9, 100)
    want = numpy_softmax(a, 1)
    kernel = Kernel(softmax(9, 100, 1, "attributes {flow.may_alias = array<i64: 0, 0>}"))
    assert kernel.run([a, a]) == 0
    np.testing.assert_allclose(a, want, rtol=2e-6)


def test_softmax_of_infinities_and_nan() -> None:
    a = random(3, 20)
    a[0, 3], a[1, 4], a[1, 5] = -np.inf, np.nan, 1.0
    (r,) = Kernel(softmax(3, 20, 1))([a], [((3, 20), F32)])
    assert r[0, 3] == 0 and np.isnan(r[1]).all()
    np.testing.assert_allclose(r[[0, 2]], numpy_softmax(a[[0, 2]], 1), rtol=2e-6)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_of_rows_at_the_edges_of_the_format(target: str, axis: int) -> None:
    a = random(12, 70)
    a[1, 3], a[2, 4:] = -np.inf, -np.inf  # one, and all but the first few
    a[3], a[4, 5], a[5, [5, 6]] = -np.inf, np.inf, np.inf  # nothing to share; infinitely more than the others
    a[6, 7], a[7, 0], a[7, 1] = np.nan, 3e38, -3e38  # the difference overflows
    a[8] *= 60  # most shares are denormal or zero
    a[9], a[10], a[11] = 1e-45, -0.0, 3e38
    with np.errstate(all="ignore"):
        e = np.exp((a - a.max(1, keepdims=True)).astype(np.float64))
        want = e / e.sum(1, keepdims=True)
    given = np.ascontiguousarray(a if axis == 1 else a.T)
    (got,) = Kernel(softmax(*given.shape, axis), target)([given], [(given.shape, F32)])
    got = got if axis == 1 else got.T
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=2e-45)
    np.testing.assert_array_equal(got[[1, 2]] == 0, np.isneginf(a[[1, 2]]))
    np.testing.assert_array_equal(got[9:], np.full((3, 70), 1 / 70, F32))


def test_maximum_of_a_softmax_looks_for_nan_only_where_somebody_would_see_it() -> None:
    text = softmax(8, 64, 1)
    target, options = targets.get("x86-64-v3"), CodegenOptions(keep_intermediates=True)
    assert "vcmpunordps" not in compile_kernel(text, target, options).assembly
    seen = text.replace("-> (tensor<8x64xf32>)", "-> (tensor<8x64xf32>, tensor<8xf32>)", 1)
    seen = seen.replace("return %r : tensor<8x64xf32>", "return %r, %max : tensor<8x64xf32>, tensor<8xf32>")
    assert "vcmpunordps" in compile_kernel(seen, target, options).assembly
    a = random(8, 64)
    a[2, 5], a[3], a[4, 60:], a[5] = np.nan, np.nan, np.inf, -np.inf
    with np.errstate(all="ignore"):
        want = numpy_softmax(a, 1)
    (r,) = Kernel(text, "x86-64-v3")([a], [((8, 64), F32)])
    np.testing.assert_allclose(r, want, rtol=2e-6, atol=1e-9)
    shares, largest = Kernel(seen, "x86-64-v3")([a], [((8, 64), F32), ((8,), F32)])
    np.testing.assert_allclose(shares, want, rtol=2e-6, atol=1e-9)
    np.testing.assert_array_equal(largest, a.max(1))


def test_a_sum_that_starts_at_one_gets_exponentials_as_they_are() -> None:
    """Attention that may attend to nothing: exp(x - max) / (1 + sum)."""
    text = softmax(8, 64, 1).replace("%zero = arith.constant 0.0 : f32", "%zero = arith.constant 1.0 : f32")
    a = random(8, 64)
    e = np.exp(a - a.max(1, keepdims=True))
    (r,) = Kernel(text)([a], [((8, 64), F32)])
    np.testing.assert_allclose(r, e / (1 + e.sum(1, keepdims=True)), rtol=2e-6)


def test_exponentials_and_sum_that_are_results_come_as_they_are() -> None:
    text = softmax(8, 64, 1).replace(
        "-> (tensor<8x64xf32>)", "-> (tensor<8x64xf32>, tensor<8x64xf32>, tensor<8xf32>)", 1
    )
    t = "tensor<8x64xf32>"
    text = text.replace(f"return %r : {t}", f"return %r, %exp, %sum : {t}, {t}, tensor<8xf32>")
    a = random(8, 64)
    r, e, s = Kernel(text)([a], [((8, 64), F32), ((8, 64), F32), ((8,), F32)])
    want = np.exp(a - a.max(1, keepdims=True))
    np.testing.assert_allclose(e, want, rtol=2e-6)
    np.testing.assert_allclose(s, want.sum(1), rtol=2e-6)
    np.testing.assert_allclose(r, want / want.sum(1, keepdims=True), rtol=2e-6)


@pytest.mark.parametrize("axis", [0, 1])
def test_shares_of_a_softmax_take_one_reciprocal_a_row(axis: int) -> None:
    """Only where divisor and dividend are known to be tame: exponentials without the maximum may overflow."""
    text = softmax(8, 64, axis)
    target, options = targets.get("x86-64-v3"), CodegenOptions(keep_intermediates=True)
    assert compile_kernel(text, target, options).assembly.count("vfnmadd") > 0
    untamed = text.replace("%d = arith.subf %x, %y : f32", "%d = arith.addf %x, %y : f32")
    assert "vfnmadd" not in compile_kernel(untamed, target, options).assembly
    a = random(8, 64) * 5
    (shares,) = Kernel(text, "x86-64-v3")([a], [((8, 64), F32)])
    # One exponential is exactly 1, so the largest share is the rounded reciprocal of the row's sum.
    e = np.exp((a - a.max(axis, keepdims=True)).astype(np.float64))
    np.testing.assert_allclose(shares.max(axis), 1 / e.sum(axis), rtol=3e-7)
    np.testing.assert_allclose(shares.sum(axis), 1, rtol=1e-6)
