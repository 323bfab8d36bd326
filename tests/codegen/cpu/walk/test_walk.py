"""Reductions of elements that a loop in the body finds: many walks in one loop, each as long as it takes."""

from __future__ import annotations

import numpy as np
import pytest

from rillet import targets
from rillet.codegen.cpu.compile import compile_kernel
from tests.support.kernel_harness import Kernel
from tests.support.walk_kernels import chain_lengths

TARGETS = ["x86-64-v2", "x86-64-v3", "host"]


def steps(value: int, most: int) -> int:
    count = 0
    while value > 1 and count < most:
        value, count = value + 1 if value % 2 else value // 2, count + 1
    return count


def expected(x: np.ndarray, seeds: np.ndarray, weights: np.ndarray) -> np.ndarray:
    lengths = np.array([[steps(int(a) + int(s), int(s)) for s in seeds] for a in x]).reshape(len(x), len(seeds))
    columns = np.arange(len(weights))
    return ((lengths[:, None, :] + columns[:, None]) * weights[:, None]).sum(-1)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("is_static", [True, False])
@pytest.mark.parametrize(("rows", "seeds"), [(1, 1), (5, 19), (8, 8), (37, 3), (600, 9)])
def test_walks_of_many_lengths(rows: int, seeds: int, is_static: bool, target: str) -> None:
    """More rows than a workgroup has, and fewer; static and dynamic. A walk that has ended keeps its state."""
    random = np.random.default_rng(rows)
    arrays = [random.integers(0, 1 << b, n).astype(np.int32) for b, n in ((20, rows), (6, seeds), (4, 3))]
    kernel = Kernel(chain_lengths(rows if is_static else "?", 3, seeds), target)
    assert kernel.compiled.strategy == "walk"
    constants = [] if is_static else [rows]
    (found,) = kernel(arrays, [((rows, 3), np.int32)], constants)
    np.testing.assert_array_equal(found, expected(*arrays))
    assert kernel.grid(constants) == (-(-rows // 256), 1, 1)


@pytest.mark.parametrize(("target", "together"), [("x86-64-v3", 8), ("cortex-m4", 1), ("riscv32imf", 1)])
def test_processors_that_run_in_order_walk_one_at_a_time(target: str, together: int) -> None:
    from torch_mlir import ir

    from rillet.codegen.cpu import strategies
    from rillet.codegen.recognize.kernel_function import KernelFunction
    from rillet.ir import thread_context

    with thread_context(), ir.Location.unknown():
        function = KernelFunction(ir.Module.parse(chain_lengths(64, 3, 5)))
        assert strategies.choose(function, targets.get(target)).plan.together == together


def pointers(note: str, first: str = "%a") -> str:
    """The sum of the ends of chains of positions in a table, where an end is a negative number. A chain begins at
    ``first``: an element of ``start``, or the sum so far."""
    return f"""
module {{ func.func @k(%start: tensor<4x6xi32>, %table: tensor<32xi32>) -> tensor<4xi32> {{
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<4xi32>
  %init = linalg.fill ins(%zero : i32) outs(%e : tensor<4xi32>) -> tensor<4xi32>
  %sum = linalg.generic {{
    indexing_maps = [affine_map<(r, s) -> (r, s)>, affine_map<(r, s) -> (r)>],
    iterator_types = ["parallel", "reduction"]
  }} ins(%start : tensor<4x6xi32>) outs(%init : tensor<4xi32>) {{
  ^bb0(%a: i32, %old: i32):
    %end = scf.while (%v = {first}) : (i32) -> i32 {{
      %more = arith.cmpi sge, %v, %zero : i32
      scf.condition(%more) %v : i32
    }} do {{
    ^bb1(%v: i32):
      %at = arith.index_cast %v : i32 to index
      %next = tensor.extract %table[%at] {note} : tensor<32xi32>
      scf.yield %next : i32
    }}
    %new = arith.addi %old, %end : i32
    linalg.yield %new : i32
  }} -> tensor<4xi32>
  return %sum : tensor<4xi32>
}} }}"""


def test_loops_that_check_what_they_read_go_one_by_one() -> None:
    """A step beyond the end would read out of bounds, and only reads that are known to be in bounds may be made."""
    kernel = Kernel(pointers(""))
    assert kernel.compiled.strategy != "walk"
    assert compile_kernel(pointers("{rillet.in_bounds}"), targets.get("host")).strategy == "walk"
    table = np.array([*range(1, 31), -7, -9], np.int32)
    start = np.arange(24, dtype=np.int32).reshape(4, 6)
    (found,) = kernel([start, table], [((4,), np.int32)])
    np.testing.assert_array_equal(found, [-42] * 4)


def test_a_walk_that_begins_where_the_last_one_led_waits_for_it() -> None:
    kernel = Kernel(pointers("{rillet.in_bounds}", first="%old"))
    assert kernel.compiled.strategy != "walk"
    start, table = np.zeros((4, 6), np.int32), np.full(32, -1, np.int32)
    (found,) = kernel([start, table], [((4,), np.int32)])
    np.testing.assert_array_equal(found, [-32] * 4)  # each walk adds its end to the sum, where the next one begins
