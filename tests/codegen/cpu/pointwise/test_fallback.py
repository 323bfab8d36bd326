"""Device loops: built in place in the result, from an empty tensor, from a copy of an argument, or in a tied
argument."""

from __future__ import annotations

import numpy as np
import pytest

from rillet import targets
from rillet.codegen.cpu.compile import compile_kernel
from tests.support.kernel_harness import Kernel, kernel_text

F32 = np.float32

CUMULATIVE_SUM = kernel_text(
    "cumsum",
    "%a: tensor<4x9xf32>",
    "tensor<4x9xf32>",
    """
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c9 = arith.constant 9 : index
    %z = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<4x9xf32>
    %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%t = %e) -> (tensor<4x9xf32>) {
      %q:2 = scf.for %j = %c0 to %c9 step %c1 iter_args(%u = %t, %s = %z) -> (tensor<4x9xf32>, f32) {
        %x = tensor.extract %a[%i, %j] : tensor<4x9xf32>
        %n = arith.addf %s, %x : f32
        %v = tensor.insert %n into %u[%i, %j] : tensor<4x9xf32>
        scf.yield %v, %n : tensor<4x9xf32>, f32
      }
      scf.yield %q#0 : tensor<4x9xf32>
    }
    return %r : tensor<4x9xf32>""",
)


def scatter_add(attributes: str = "") -> str:
    return kernel_text(
        "scatter",
        "%a: tensor<10x4xf32>, %i: tensor<3xi64>, %u: tensor<3x4xf32>, %m: tensor<3xi1>",
        "tensor<10x4xf32>",
        """
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c4 = arith.constant 4 : index
        %c3 = arith.constant 3 : index
        %r = scf.for %n = %c0 to %c3 step %c1 iter_args(%t = %a) -> (tensor<10x4xf32>) {
          %p = tensor.extract %i[%n] : tensor<3xi64>
          %keep = tensor.extract %m[%n] : tensor<3xi1>
          %row = arith.index_cast %p : i64 to index
          %q = scf.for %j = %c0 to %c4 step %c1 iter_args(%w = %t) -> (tensor<10x4xf32>) {
            %x = tensor.extract %u[%n, %j] : tensor<3x4xf32>
            %o = tensor.extract %w[%row, %j] : tensor<10x4xf32>
            %s = arith.addf %o, %x : f32
            %y = arith.select %keep, %s, %o : f32
            %v = tensor.insert %y into %w[%row, %j] : tensor<10x4xf32>
            scf.yield %v : tensor<10x4xf32>
          }
          scf.yield %q : tensor<10x4xf32>
        }
        return %r : tensor<10x4xf32>""",
        attributes,
    )


def operands() -> tuple[list[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(0)
    a, u = rng.random((10, 4), F32), rng.random((3, 4), F32)
    i, m = np.array([2, 7, 2]), np.array([True, False, True])
    want = a.copy()
    want[2] += u[0]
    want[2] += u[2]
    return [a, i, u, m], want


def test_cumulative_sum() -> None:
    kernel = Kernel(CUMULATIVE_SUM)
    a = np.random.default_rng(0).random((4, 9), F32)
    (r,) = kernel([a], [((4, 9), F32)])
    np.testing.assert_allclose(r, a.cumsum(1), rtol=1e-6)
    assert kernel.compiled.strategy == "fallback"
    assert kernel.compiled.local_memory_size == 0


def test_scatter_into_a_copy() -> None:
    arrays, want = operands()
    before = arrays[0].copy()
    (r,) = Kernel(scatter_add())(arrays, [((10, 4), F32)])
    np.testing.assert_array_equal(r, want)
    np.testing.assert_array_equal(arrays[0], before)


def test_scatter_into_a_tied_argument() -> None:
    arrays, want = operands()
    kernel = Kernel(scatter_add("attributes {flow.tied = array<i64: 0, 0>}"))
    assert kernel.run([*arrays, arrays[0]]) == 0
    np.testing.assert_array_equal(arrays[0], want)


@pytest.mark.parametrize("bad", [10, -1])
def test_scatter_out_of_bounds_fails_the_call(bad: int) -> None:
    (a, i, u, m), _ = operands()
    i[1] = bad
    assert Kernel(scatter_add()).run([a, i, u, m, np.empty_like(a)]) == 1


def test_intermediate_tensor_goes_to_scratch() -> None:
    text = kernel_text(
        "twice",
        "%a: tensor<8xf32>",
        "tensor<8xf32>",
        """
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c7 = arith.constant 7 : index
        %c8 = arith.constant 8 : index
        %e = tensor.empty() : tensor<8xf32>
        %t = scf.for %i = %c0 to %c8 step %c1 iter_args(%w = %e) -> (tensor<8xf32>) {
          %x = tensor.extract %a[%i] : tensor<8xf32>
          %y = arith.addf %x, %x : f32
          %v = tensor.insert %y into %w[%i] : tensor<8xf32>
          scf.yield %v : tensor<8xf32>
        }
        %f = tensor.empty() : tensor<8xf32>
        %r = scf.for %i = %c0 to %c8 step %c1 iter_args(%w = %f) -> (tensor<8xf32>) {
          %j = arith.subi %c7, %i : index
          %x = tensor.extract %t[%j] : tensor<8xf32>
          %v = tensor.insert %x into %w[%i] : tensor<8xf32>
          scf.yield %v : tensor<8xf32>
        }
        return %r : tensor<8xf32>""",
    )
    kernel = Kernel(text)
    a = np.arange(8, dtype=F32)
    (r,) = kernel([a], [((8,), F32)])
    np.testing.assert_array_equal(r, 2 * a[::-1])
    assert kernel.compiled.local_memory_size == 32


def test_dynamic_extent() -> None:
    dims = "{flow.dims = array<i64: 1>}"
    text = kernel_text(
        "running",
        f"%a: tensor<?xi32> {dims}, %n: index",
        f"tensor<?xi32> {dims}",
        """
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %z = arith.constant 0 : i32
        %e = tensor.empty(%n) : tensor<?xi32>
        %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%w = %e, %s = %z) -> (tensor<?xi32>, i32) {
          %x = tensor.extract %a[%i] : tensor<?xi32>
          %m = arith.maxsi %x, %s : i32
          %v = tensor.insert %m into %w[%i] : tensor<?xi32>
          scf.yield %v, %m : tensor<?xi32>, i32
        }
        return %r#0 : tensor<?xi32>""",
    )
    a = np.array([3, 1, 4, 1, 5, 9, 2, 6], np.int32)
    (r,) = Kernel(text)([a], [((8,), np.int32)], [8])
    np.testing.assert_array_equal(r, np.maximum.accumulate(a))


def test_object_for_aarch64() -> None:
    assert compile_kernel(CUMULATIVE_SUM, targets.get("aarch64")).strategy == "fallback"
