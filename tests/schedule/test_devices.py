"""Programs for several devices in the stream form."""

from __future__ import annotations

import numpy as np

from rillet import placement, schedule
from rillet.ir import Program
from rillet.targets.devices import Device
from tests.support.devices import BRANCHES, KERNELS, NPU, ON, SYNC, TASK, T
from tests.support.flow_text import module
from tests.support.ir_check import check, lower, main_text


def scheduled(main: str, *devices: Device, types: dict[str, str] | None = None, **constants: np.ndarray) -> Program:
    passes = [*placement.passes(devices), *schedule.passes()]
    program = lower(module(KERNELS, main, types), passes, constants=constants)
    schedule.check(program)
    return program


def test_branches_overlap_and_join_by_a_fence() -> None:
    """Each device has an arena. The host does not wait before it returns: the call ends with its last fence."""
    program = scheduled(BRANCHES, SYNC, TASK)
    check(
        main_text(program),
        """
        // CHECK: "stream.alloc"({{.*}}) {lifetime = "transient", stream.device = 1 : i64}
        // CHECK: %[[A:.*]] = "stream.execute"()
        // CHECK-NEXT: entry = @kernels::@f
        // CHECK-NEXT: }) {operandSegmentSizes = array<i32: 0>, resultSegmentSizes = array<i32: 1>}
        // CHECK-NEXT: %[[B:.*]] = "stream.execute"()
        // CHECK-NEXT: entry = @kernels::@f
        // CHECK-NEXT: stream.barrier
        // CHECK-NEXT: entry = @kernels::@f
        // CHECK-NEXT: }) {operandSegmentSizes = array<i32: 0>, resultSegmentSizes = array<i32: 1>, stream.device = 1
        // CHECK-NEXT: "stream.execute"(%[[A]], %[[B]])
        // CHECK-NEXT: entry = @kernels::@g
        // CHECK-NOT: stream.await
        // CHECK: return
        """,
    )


def test_the_host_waits_before_it_reads() -> None:
    main = f"""
    // CHECK: %[[A:.*]] = "stream.execute"()
    // CHECK: %[[B:.*]] = "stream.execute"(%[[A]])
    // CHECK: "stream.await"(%[[B]])
    // CHECK-NEXT: "stream.load"
    func.func @main(%x: {T}) -> {T} {{
      %c0 = arith.constant 0 : index
      %0 = func.call @f(%x) {ON["cpu-sync"]} : ({T}) -> {T}
      %1 = func.call @count(%0) {ON["cpu-task"]} : ({T}) -> tensor<i64>
      %2 = "flow.load"(%1, %c0) : (tensor<i64>, index) -> i64
      %ok = arith.cmpi eq, %2, %2 : i64
      cf.assert %ok, "equal"
      return %0 : {T}
    }}
    """
    check(main_text(scheduled(main, SYNC, TASK)), main)


def test_a_group_on_one_device_needs_no_fence() -> None:
    program = scheduled(BRANCHES.replace('"cpu-sync"', '"cpu-task"'), SYNC, TASK)
    text = main_text(program)
    assert "fence" not in text and text.count('"stream.execute"') == 1
    assert "resultSegmentSizes = array<i32: 0>, stream.device = 1" in text


def test_memory_that_another_device_reads_is_not_written_over() -> None:
    """Device 0's second kernel could overwrite what device 1 reads, and would have to wait for it."""
    main = f"""
    func.func @main(%x: {T}) -> ({T}, {T}) {{
      %0 = func.call @f(%x) {ON["cpu-sync"]} : ({T}) -> {T}
      %1 = func.call @f(%0) {ON["cpu-task"]} : ({T}) -> {T}
      %2 = func.call @f(%0) {ON["cpu-sync"]} : ({T}) -> {T}
      return %1, %2 : {T}, {T}
    }}
    """
    program = scheduled(main, SYNC, TASK)
    check(
        main_text(program),
        """
        // CHECK: %[[A:.*]] = "stream.execute"()
        // CHECK: "stream.execute"(%[[A]])
        // CHECK: stream.device = 1
        // CHECK: "stream.execute"(%[[A]])
        """,
    )


def test_memory_of_their_own() -> None:
    """Constants are brought to the device when the file is loaded, everything else by transfers beside the host."""
    main = f"""
    // CHECK: %[[OWN:.*]] = "stream.segment"() {{ordinal = 1 : i64, stream.device = 1 : i64}}
    // CHECK: %[[HOST:.*]] = "stream.segment"() {{ordinal = 0 : i64}}
    // CHECK: %[[A:.*]] = "stream.execute"()
    // CHECK-NEXT: "stream.dispatch"(%{{{{[^,]*}}}}, %[[HOST]],
    // CHECK: %[[IN:.*]]:2 = "stream.transfer"(%{{{{.*}}}}, %[[A]])
    // CHECK-SAME: stream.device = 1
    // CHECK: %[[B:.*]] = "stream.execute"(%[[IN]]#1)
    // CHECK-NEXT: "stream.dispatch"(%[[IN]]#0, %[[OWN]],
    // CHECK: %[[OUT:.*]]:2 = "stream.transfer"(%{{{{.*}}}}, %[[B]])
    // CHECK-NOT: stream.device
    // CHECK: "stream.execute"(%[[OUT]]#1)
    // CHECK-NEXT: "stream.dispatch"(%[[OUT]]#0,
    func.func @main(%x: {T}) -> {T} {{
      %w = ml_program.global_load_const @w : {T}
      %0 = func.call @g(%x, %w) {ON["cpu-sync"]} : ({T}, {T}) -> {T}
      %1 = func.call @g(%0, %w) {ON["npu"]} : ({T}, {T}) -> {T}
      %2 = func.call @f(%1) {ON["npu"]} : ({T}) -> {T}
      %3 = func.call @f(%2) {ON["cpu-sync"]} : ({T}) -> {T}
      return %3 : {T}
    }}
    """
    program = scheduled(main, SYNC, NPU, types={"w": T}, w=np.ones(8, np.float32))
    check(main_text(program), main)
