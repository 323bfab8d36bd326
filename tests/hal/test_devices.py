"""Programs for several devices in the hal form."""

from __future__ import annotations

import random

import numpy as np
import pytest

from rillet import hal, placement, schedule, vm
from rillet.targets.devices import resolve
from tests.support.devices import BRANCHES, KERNELS, NPU, ON, T
from tests.support.flow_text import module
from tests.support.ir_check import check, lower
from tests.support.pinning import pin
from tests.support.random_programs import random_program

SYNC, TASK = resolve(["cpu-sync", "cpu-task"])


def test_regions_with_fences_are_queued() -> None:
    """Nothing is waited for before the return: the call ends with its last fence."""
    program = lower(module(KERNELS, BRANCHES), [*placement.passes([SYNC, TASK]), *schedule.passes(), *hal.passes()])
    hal.check(program)
    check(
        str(program.module),
        """
        // CHECK-LABEL: func.func @main
        // CHECK: %[[W0:.*]] = "hal.fence_create"()
        // CHECK: %[[NOW:.*]] = "hal.fence_join"()
        // CHECK: "hal.queue"(%{{.*}}, %[[NOW]], %[[W0]],
        // CHECK: %[[W1:.*]] = "hal.fence_create"()
        // CHECK: %[[NOW1:.*]] = "hal.fence_join"()
        // CHECK: "hal.queue"(%{{.*}}, %[[NOW1]], %[[W1]],
        // CHECK: %[[W2:.*]] = "hal.fence_create"()
        // CHECK: %[[BOTH:.*]] = "hal.fence_join"(%[[W0]], %[[W1]])
        // CHECK: "hal.queue"(%{{.*}}, %[[BOTH]], %[[W2]],
        // CHECK-NOT: hal.fence_await
        // CHECK: return
        """,
    )


def test_memory_of_their_own() -> None:
    main = f"""
    // CHECK-LABEL: func.func @__init
    // CHECK-DAG: %[[FILE:.*]] = "hal.constant"(%c0_i64)
    // CHECK: %[[DONE:.*]] = "hal.fence_create"()
    // CHECK: %[[NOW:.*]] = "hal.fence_join"()
    // CHECK: %[[OWN:.*]] = "hal.transfer"(%c1_i64, %[[FILE]], %[[NOW]], %[[DONE]])
    // CHECK: "hal.fence_await"(%[[DONE]])
    // CHECK: "hal.global_store"(%[[OWN]])
    // CHECK-LABEL: func.func @main
    // CHECK: %[[PART:.*]] = "hal.buffer_subspan"
    // CHECK: %[[IN:.*]] = "hal.fence_create"()
    // CHECK: %[[START:.*]] = "hal.fence_join"()
    // CHECK: %[[X:.*]] = "hal.transfer"(%c1_i64, %[[PART]], %[[START]], %[[IN]])
    // CHECK: %[[A:.*]] = "hal.fence_create"()
    // CHECK: "hal.queue"(%{{{{.*}}}}, %[[IN]], %[[A]], %[[X]],
    // CHECK: %[[OUT:.*]] = "hal.fence_create"()
    // CHECK: "hal.transfer"(%c0_i64, %{{{{.*}}}}, %[[A]], %[[OUT]])
    // CHECK: "hal.fence_await"(%[[OUT]])
    // CHECK: "hal.buffer_load"
    func.func @main(%x: {T}) -> {T} {{
      %c0 = arith.constant 0 : index
      %w = ml_program.global_load_const @w : {T}
      %1 = func.call @g(%x, %w) {ON["npu"]} : ({T}, {T}) -> {T}
      %2 = func.call @count(%1) {ON["npu"]} : ({T}) -> tensor<i64>
      %3 = "flow.load"(%2, %c0) : (tensor<i64>, index) -> i64
      %ok = arith.cmpi eq, %3, %3 : i64
      cf.assert %ok, "equal"
      return %x : {T}
    }}
    """
    program = lower(
        module(KERNELS, main, {"w": T}),
        [*placement.passes([SYNC, NPU]), *schedule.passes(), *hal.passes()],
        constants={"w": np.ones(8, np.float32)},
    )
    hal.check(program)
    check(str(program.module), main)


@pytest.mark.parametrize("seed", range(10))
def test_random_programs_get_bytecode(seed: int) -> None:
    devices = [SYNC, *random.Random(seed).choice([[TASK], [NPU], [TASK, NPU]])]
    passes = [*placement.passes(devices), *schedule.passes(), *hal.passes(), *vm.passes()]
    program = lower(random_program(seed, dynamic=seed % 2 == 1).text, [pin(seed, devices), *passes])
    vm.check(program)
    assert len(vm.encode(program).functions) >= 1
