"""Host programs from flow to results: lowered, written, loaded and run by the C runtime, with kernels in C."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from rillet import hal, schedule, vm
from rillet.errors import RunError
from rillet.runtime import Module
from tests.support.c_kernels import load_program
from tests.support.flow_text import FlowKernel, module
from tests.support.ir_check import lower

ROWS = "tensor<?x4xf32>"
KERNELS = {
    "matmul": FlowKernel("tensor<4x8xf32>, tensor<8x8xf32>, f32", ("tensor<4x8xf32>",)),
    "sum": FlowKernel("tensor<4x8xf32>, tensor<4x8xf32>", ("tensor<4x8xf32>",), may_alias=(0, 0, 0, 1)),
    "increment": FlowKernel(f"{ROWS}, index", (ROWS,), ((1,),)),
    "add": FlowKernel(f"{ROWS}, {ROWS}, index", (ROWS,), ((2,),), may_alias=(0, 0, 0, 1)),
    "widen": FlowKernel(f"{ROWS}, index", ("tensor<?x8xf32>",), ((1,),)),
    "narrow": FlowKernel("tensor<?x8xf32>, index", (ROWS,), ((1,),)),
    "put": FlowKernel("tensor<?xf32>, tensor<f32>, index, index", ("tensor<?xf32>",), ((3,),), tied=(0, 0)),
    "twice": FlowKernel("tensor<f32>", ("tensor<f32>",)),
    "count": FlowKernel(f"{ROWS}, index", ("tensor<i64>",)),
    "compress": FlowKernel(f"{ROWS}, index, index", ("tensor<?xf32>",), ((2,),)),
    "append": FlowKernel("tensor<?xf32>, index, index", ("tensor<?xf32>",), ((2,),)),
    "fail": FlowKernel("tensor<f32>", ("tensor<f32>",)),
}
SIGNATURES = {
    "matmul": (3, 1), "sum": (3, 0), "increment": (2, 1), "add": (3, 1), "widen": (2, 1), "narrow": (2, 1),
    "put": (3, 2), "twice": (2, 0), "count": (2, 1), "compress": (2, 2), "append": (2, 2), "fail": (2, 0),
}  # fmt: skip
SOURCES = """
KERNEL(matmul) {
  union { int64_t bits; float value; } bias = {C(0)};
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 8; j++) {
      float sum = bias.value;
      for (int k = 0; k < 8; k++) sum += F(0)[i * 8 + k] * F(1)[k * 8 + j];
      F(2)[i * 8 + j] = sum;
    }
  return 0;
}
KERNEL(sum) { for (int i = 0; i < 32; i++) F(2)[i] = F(0)[i] + F(1)[i]; return 0; }
KERNEL(increment) { for (long i = 0; i < C(0) * 4; i++) F(1)[i] = F(0)[i] + 1; return 0; }
KERNEL(add) { for (long i = 0; i < C(0) * 4; i++) F(2)[i] = F(0)[i] + F(1)[i]; return 0; }
KERNEL(widen) { for (long i = 0; i < C(0) * 8; i++) F(1)[i] = F(0)[i / 8 * 4 + i % 4] * 2; return 0; }
KERNEL(narrow) {
  for (long i = 0; i < C(0) * 4; i++) F(1)[i] = F(0)[i / 4 * 8 + i % 4] + F(0)[i / 4 * 8 + i % 4 + 4];
  return 0;
}
KERNEL(put) { if (F(0) != F(2)) return 2; F(2)[C(0)] = F(1)[0]; return 0; }
KERNEL(twice) { F(1)[0] = F(0)[0] * 2; return 0; }
KERNEL(count) {
  int64_t k = 0;
  for (long i = 0; i < C(0) * 4; i++) k += F(0)[i] > 0;
  BINDING(int64_t, 1)[0] = k;
  return 0;
}
KERNEL(compress) {
  int64_t k = 0;
  for (long i = 0; i < C(0) * 4; i++) if (F(0)[i] > 0) F(1)[k++] = F(0)[i];
  return k != C(1);
}
KERNEL(append) { for (long i = 0; i < C(0); i++) F(1)[i] = F(0)[i]; F(1)[C(0)] = C(0); return C(1) != C(0) + 1; }
KERNEL(fail) { return 1; }
"""


def build(main: str, types: dict[str, str] | None = None, threads: int = 1, **constants: np.ndarray) -> Module:
    used = {name: e for name, e in KERNELS.items() if f"@{name}(" in main}
    text = module(used, main, types)
    program = lower(text, [*schedule.passes(), *hal.passes(), *vm.passes()], constants=constants)
    vm.check(program)
    kernels = "".join(f"KERNEL({part}" for part in SOURCES.split("KERNEL(")[1:] if part.split(")")[0] in used)
    return load_program(program, kernels, SIGNATURES, threads)


CHAIN = """
func.func @main(%x: tensor<4x8xf32> {rillet.name = "x"}) -> (tensor<4x8xf32> {rillet.name = "y"}) {
  %b = arith.constant 7.5 : f32
  %w0 = ml_program.global_load_const @w0 : tensor<8x8xf32>
  %w1 = ml_program.global_load_const @w1 : tensor<8x8xf32>
  %0 = func.call @matmul(%x, %w0, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, f32) -> tensor<4x8xf32>
  %1 = func.call @matmul(%0, %w1, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, f32) -> tensor<4x8xf32>
  %2 = func.call @matmul(%0, %w0, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, f32) -> tensor<4x8xf32>
  %3 = func.call @sum(%1, %2) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = func.call @sum(%3, %0) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}
"""
WEIGHTS = {"w0": "tensor<8x8xf32>", "w1": "tensor<8x8xf32>"}


@pytest.mark.parametrize("threads", [1, 2])
def test_static_network(threads: int) -> None:
    rng = np.random.default_rng(0)
    w0, w1 = rng.standard_normal((2, 8, 8)).astype(np.float32)
    run = build(CHAIN, WEIGHTS, threads, w0=w0, w1=w1)
    xs = rng.standard_normal((50, 4, 8)).astype(np.float32)

    def expected(x: np.ndarray) -> np.ndarray:
        h = x @ w0 + 7.5
        return (h @ w1 + 7.5) + (h @ w0 + 7.5) + h

    with ThreadPoolExecutor(4) as pool:  # recorded commands are shared, memory is not
        for x, y in zip(xs, pool.map(run, xs), strict=True):
            np.testing.assert_allclose(y, expected(x), rtol=1e-5, atol=1e-4)
    assert run.stats["arena_bytes"] == run.stats["arena_lower_bound"] == 2 * 128
    with pytest.raises(RunError, match="'x'"):
        run(np.zeros((4, 7), np.float32))


def test_dynamic_rows() -> None:
    run = build(
        """
        func.func @main(%x: tensor<?x4xf32> {rillet.name = "x", rillet.dims = ["N", "4"]},
                        %z: tensor<?x4xf32> {rillet.name = "z", rillet.dims = ["N", "4"]}) -> tensor<?x4xf32> {
          %c0 = arith.constant 0 : index
          %n = tensor.dim %x, %c0 : tensor<?x4xf32>
          %a = func.call @increment(%x, %n) : (tensor<?x4xf32>, index) -> tensor<?x4xf32>
          %w = func.call @widen(%a, %n) : (tensor<?x4xf32>, index) -> tensor<?x8xf32>
          %b = func.call @narrow(%w, %n) : (tensor<?x8xf32>, index) -> tensor<?x4xf32>
          %c = func.call @add(%b, %z, %n) : (tensor<?x4xf32>, tensor<?x4xf32>, index) -> tensor<?x4xf32>
          %v = func.call @widen(%c, %n) : (tensor<?x4xf32>, index) -> tensor<?x8xf32>
          %d = func.call @narrow(%v, %n) : (tensor<?x8xf32>, index) -> tensor<?x4xf32>
          %e = func.call @add(%d, %c, %n) : (tensor<?x4xf32>, tensor<?x4xf32>, index) -> tensor<?x4xf32>
          return %e : tensor<?x4xf32>
        }
        """
    )
    rng = np.random.default_rng(1)
    for rows in (1, 3, 17, 0, 200):
        x, z = rng.standard_normal((2, rows, 4)).astype(np.float32)
        np.testing.assert_allclose(run(x, z), 5 * ((x + 1) * 4 + z), rtol=1e-5, atol=1e-5)
    with pytest.raises(RunError, match="'N'"):
        run(np.zeros((2, 4), np.float32), np.zeros((3, 4), np.float32))


def test_loop_that_fills_an_accumulator() -> None:
    run = build(
        """
        func.func @main(%x: tensor<f32>, %k: tensor<i64>) -> (tensor<?xf32>, tensor<f32>) {
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %kk = "flow.load"(%k, %c0) : (tensor<i64>, index) -> i64
          %n = arith.index_cast %kk : i64 to index
          %zero = arith.constant 0.5 : f32
          %acc = "flow.splat"(%zero, %n) {operandSegmentSizes = array<i32: 1, 1>} : (f32, index) -> tensor<?xf32>
          %r:3 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %acc, %na = %n, %v = %x)
              -> (tensor<?xf32>, index, tensor<f32>) {
            %v2 = func.call @twice(%v) : (tensor<f32>) -> tensor<f32>
            %a2 = func.call @put(%a, %v2, %i, %na) : (tensor<?xf32>, tensor<f32>, index, index) -> tensor<?xf32>
            scf.yield %a2, %na, %v2 : tensor<?xf32>, index, tensor<f32>
          }
          return %r#0, %r#2 : tensor<?xf32>, tensor<f32>
        }
        """
    )
    x = np.float32(1.5)
    for count in (0, 1, 5):
        filled, last = run(np.array(x), np.array(count))
        np.testing.assert_array_equal(filled, [x * 2 ** (i + 1) for i in range(count)])
        assert last == x * 2**count


def test_sizes_that_depend_on_data() -> None:
    run = build(
        """
        func.func @main(%x: tensor<?x4xf32>) -> tensor<?xf32> {
          %c0 = arith.constant 0 : index
          %n = tensor.dim %x, %c0 : tensor<?x4xf32>
          %a = func.call @increment(%x, %n) : (tensor<?x4xf32>, index) -> tensor<?x4xf32>
          %k = func.call @count(%a, %n) : (tensor<?x4xf32>, index) -> tensor<i64>
          %kk = "flow.load"(%k, %c0) : (tensor<i64>, index) -> i64
          %m = arith.index_cast %kk : i64 to index
          %b = func.call @compress(%a, %n, %m) : (tensor<?x4xf32>, index, index) -> tensor<?xf32>
          return %b : tensor<?xf32>
        }
        """
    )
    for rows in (0, 1, 9):
        x = np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32)
        np.testing.assert_array_equal(run(x), (x + 1)[x + 1 > 0])


def test_carried_values_that_change_their_size() -> None:
    run = build(
        """
        func.func @main(%x: tensor<?xf32>, %k: tensor<f32>) -> (tensor<?xf32>, tensor<?xf32>) {
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %n = tensor.dim %x, %c0 : tensor<?xf32>
          %twice = "flow.load"(%k, %c0) : (tensor<f32>, index) -> f32
          %half = arith.constant 0.5 : f32
          %limit = arith.mulf %twice, %half : f32
          %r:2 = scf.while (%a = %x, %na = %n) : (tensor<?xf32>, index) -> (tensor<?xf32>, index) {
            %i = arith.index_cast %na : index to i32
            %f = arith.sitofp %i : i32 to f32
            %more = arith.cmpf olt, %f, %limit : f32
            scf.condition(%more) %a, %na : tensor<?xf32>, index
          } do {
          ^bb0(%a: tensor<?xf32>, %na: index):
            %n2 = arith.addi %na, %c1 : index
            %b = func.call @append(%a, %na, %n2) : (tensor<?xf32>, index, index) -> tensor<?xf32>
            scf.yield %b, %n2 : tensor<?xf32>, index
          }
          %many = arith.cmpi sgt, %r#1, %c1 : index
          %q:2 = scf.if %many -> (tensor<?xf32>, index) {
            %m = arith.subi %r#1, %c1 : index
            %s = "flow.slice"(%r#0, %c1, %m) {operandSegmentSizes = array<i32: 1, 1, 1>}
                : (tensor<?xf32>, index, index) -> tensor<?xf32>
            scf.yield %s, %m : tensor<?xf32>, index
          } else {
            scf.yield %x, %n : tensor<?xf32>, index
          }
          return %r#0, %q#0 : tensor<?xf32>, tensor<?xf32>
        }
        """
    )
    for start, limit in ((0, 0), (1, 8), (3, 20), (1, 1)):
        x = np.random.default_rng(start).standard_normal(start).astype(np.float32)
        grown = list(x)
        while len(grown) < limit / 2:
            grown.append(np.float32(len(grown)))
        whole, rest = run(x, np.array(limit, np.float32))
        np.testing.assert_array_equal(whole, np.array(grown, np.float32))
        np.testing.assert_array_equal(rest, np.array(grown[1:] if len(grown) > 1 else x, np.float32))


def test_values_that_change_places() -> None:
    run = build(
        """
        func.func @main(%x: tensor<f32>, %y: tensor<f32>, %k: tensor<i32>) -> (tensor<f32>, tensor<f32>) {
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %kk = "flow.load"(%k, %c0) : (tensor<i32>, index) -> i32
          %n = arith.index_cast %kk : i32 to index
          %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x, %b = %y) -> (tensor<f32>, tensor<f32>) {
            scf.yield %b, %a : tensor<f32>, tensor<f32>
          }
          return %r#0, %r#1 : tensor<f32>, tensor<f32>
        }
        """
    )
    for count in range(4):
        a, b = run(np.float32(1), np.float32(2), np.int32(count))
        assert (a, b) == ((1, 2) if count % 2 == 0 else (2, 1))


def test_a_kernel_that_fails() -> None:
    run = build(
        """
        func.func @main(%x: tensor<f32>) -> tensor<f32> {
          %0 = func.call @fail(%x) : (tensor<f32>) -> tensor<f32>
          return %0 : tensor<f32>
        }
        """
    )
    with pytest.raises(RunError, match="index"):
        run(np.float32(1))


def test_inputs_and_constants_as_results() -> None:
    run = build(
        """
        func.func @main(%x: tensor<4xi16>) -> (tensor<4xi16>, tensor<8x8xf32>, tensor<3xf64>, tensor<4xi16>) {
          %w = ml_program.global_load_const @w0 : tensor<8x8xf32>
          %s = arith.constant dense<2.5> : tensor<3xf64>
          return %x, %w, %s, %x : tensor<4xi16>, tensor<8x8xf32>, tensor<3xf64>, tensor<4xi16>
        }
        """,
        {"w0": "tensor<8x8xf32>"},
        w0=np.arange(64, dtype=np.float32).reshape(8, 8),
    )
    x = np.array([1, -2, 3, -4], np.int16)
    first, weights, splat, last = run(x)
    np.testing.assert_array_equal(first, x)
    np.testing.assert_array_equal(last, x)
    np.testing.assert_array_equal(weights, np.arange(64).reshape(8, 8))
    np.testing.assert_array_equal(splat, [2.5, 2.5, 2.5])
