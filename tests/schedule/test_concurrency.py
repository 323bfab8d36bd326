from __future__ import annotations

from rillet import schedule
from rillet.schedule.concurrency import Buffer, Command, order
from tests.support import networks
from tests.support.flow_text import FlowKernel, module
from tests.support.ir_check import check, lower, main_text

F = FlowKernel("tensor<8xf32>", ("tensor<8xf32>",))
G = FlowKernel("tensor<8xf32>, tensor<8xf32>", ("tensor<8xf32>",))


def test_independent_dispatches_share_a_wave() -> None:
    text = module(
        {"f": F, "g": G},
        """
        // CHECK: stream.execute
        // CHECK-NEXT: entry = @kernels::@f
        // CHECK-NEXT: entry = @kernels::@f
        // CHECK-NEXT: stream.barrier
        // CHECK-NEXT: entry = @kernels::@g
        // CHECK-NEXT: })
        func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
          %0 = func.call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
          %1 = func.call @f(%y) : (tensor<8xf32>) -> tensor<8xf32>
          %2 = func.call @g(%0, %1) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
          return %2 : tensor<8xf32>
        }
        """,
    )
    check(main_text(lower(text, schedule.passes(), until="concurrency")), text)


def test_the_host_waits_only_for_what_it_reads() -> None:
    text = module(
        {"f": F, "count": FlowKernel("tensor<8xf32>", ("tensor<i64>",))},
        """
        // CHECK: "stream.load"(%[[INPUT:.*]], %c0) {dtype = 7
        // CHECK: stream.execute
        // CHECK: entry = @kernels::@f
        // CHECK: entry = @kernels::@count
        // CHECK: "stream.load"(%{{.*}}, %c0) {dtype = 7
        // CHECK: stream.execute
        // CHECK: entry = @kernels::@g
        func.func @main(%x: tensor<8xf32>, %k: tensor<i64>) -> (tensor<8xf32>) {
          %c0 = arith.constant 0 : index
          %0 = func.call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
          %1 = func.call @count(%0) : (tensor<8xf32>) -> tensor<i64>
          %2 = "flow.load"(%k, %c0) : (tensor<i64>, index) -> i64
          %3 = "flow.load"(%1, %c0) : (tensor<i64>, index) -> i64
          %4 = arith.addi %2, %3 : i64
          %5 = func.call @g(%0, %4) : (tensor<8xf32>, i64) -> tensor<8xf32>
          return %5 : tensor<8xf32>
        }
        func.func private @g(tensor<8xf32>, i64) -> tensor<8xf32> attributes {flow.kernel = @kernels::@g}
        """,
    )
    check(main_text(lower(text, schedule.passes(), until="concurrency")), text)


def test_branches_run_concurrently_where_memory_allows() -> None:
    waves = main_text(lower(networks.inception(9), schedule.passes())).split("stream.barrier")
    dispatches = [wave.count("stream.dispatch") for wave in waves]
    assert sum(dispatches) == 9 * 8
    assert len(waves) <= sum(dispatches) / 2


def commands(*descriptions: tuple[set[int], set[int]]) -> list[Command]:
    return [Command(None, after, buffers) for after, buffers in descriptions]  # type: ignore[arg-type]


def test_a_writer_waits_for_readers() -> None:
    assert order(commands((set(), {0}), ({0}, {0}), ({1}, {0})), [Buffer(64)], (8,)) == [[0], [1], [2]]


def test_concurrency_does_not_cost_memory() -> None:
    """Both branches at once would hold two wide buffers; program order holds one."""
    branches = commands((set(), {0}), ({0}, {0, 2}), (set(), {1}), ({2}, {1, 3}), ({1, 3}, {2, 3}))
    buffers = [Buffer(1000), Buffer(1000), Buffer(10), Buffer(10)]
    assert order(branches, buffers, (8,)) == [[0], [1], [2], [3], [4]]
    # Where a later step needs more anyway, they may.
    later = [*branches, *commands(({4}, {2, 3, 4}))]
    assert order(later, [*buffers, Buffer(5000)], (8,)) == [[0, 2], [1, 3], [4], [5]]


def test_memory_that_lives_on_counts_to_the_end() -> None:
    kept = [Buffer(100, before=True, beyond=True), Buffer(50)]
    assert order(commands((set(), {0}), (set(), {1})), kept, (4,)) == [[0, 1]]
