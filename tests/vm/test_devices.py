"""What two devices do at once: kernels that meet, errors in one of them, devices that are missing."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from rillet import hal, placement, schedule, vm
from rillet.errors import RunError
from rillet.runtime import Module
from rillet.targets.devices import Device
from tests.support.c_kernels import load_program
from tests.support.devices import NPU, SYNC, TASK
from tests.support.flow_text import FlowKernel, module
from tests.support.ir_check import lower

X, Y = "tensor<2xi32>", "tensor<1xi32>"
FLOW = {name: FlowKernel(X, (Y,)) for name in ("left", "right", "fail")} | {"sum": FlowKernel(f"{Y}, {Y}", (Y,))}
SIGNATURES = {"left": (2, 0), "right": (2, 0), "fail": (2, 0), "sum": (3, 0)}
# Each of two kernels leaves a mark in the input, which both see, and gives 1 if the other's comes while it waits.
SOURCE = """
static int32_t meet(volatile int32_t* marks, int me) {
  marks[me] = 1;
  for (long i = 0; i < 1000000000; i++) if (marks[1 - me]) return 1;
  marks[me] = 0;
  return 0;
}
KERNEL(left) { BINDING(int32_t, 1)[0] = meet(BINDING(int32_t, 0), 0); return 0; }
KERNEL(right) { BINDING(int32_t, 1)[0] = meet(BINDING(int32_t, 0), 1); return 0; }
KERNEL(fail) { return 1; }
KERNEL(sum) { BINDING(int32_t, 2)[0] = BINDING(int32_t, 0)[0] + BINDING(int32_t, 1)[0]; return 0; }
"""


def built(devices: Sequence[Device], first: str, second: str, other: int = 1) -> Module:
    """The sum of what a kernel on the first device and one on the device ``other`` give."""
    main = f"""
    func.func @main(%x: {X} {{rillet.name = "x", rillet.dtype = "int32"}}) -> {Y} {{
      %0 = func.call @{first}(%x) {{flow.device = "{devices[0].name}"}} : ({X}) -> {Y}
      %1 = func.call @{second}(%x) {{flow.device = "{devices[other].name}"}} : ({X}) -> {Y}
      %2 = func.call @sum(%0, %1) {{flow.device = "{devices[0].name}"}} : ({Y}, {Y}) -> {Y}
      return %2 : {Y}
    }}
    """
    passes = [*placement.passes(devices), *schedule.passes(), *hal.passes(), *vm.passes()]
    return load_program(lower(module(FLOW, main), passes), SOURCE, SIGNATURES, threads=2)


@pytest.mark.parametrize("devices", [(SYNC, TASK), (TASK, SYNC)], ids=["sync-task", "task-sync"])
def test_two_devices_work_at_once(devices: tuple[Device, ...]) -> None:
    run = built(devices, "left", "right")
    for _ in range(5):
        assert run(np.zeros(2, np.int32)) == [2]


def test_a_submitted_call_goes_on_by_itself() -> None:
    """Both kernels wait for the host's mark, which comes when ``submit`` has returned."""
    run = built((SYNC, TASK), "left", "left")
    marks = np.zeros(2, np.int32)
    pending = run.submit(marks)
    marks[1] = 1
    assert pending.result(timeout=60) == [2]


def test_one_device_does_one_after_the_other() -> None:
    """Which shows that the kernels above met because they ran at once."""
    assert built((SYNC, TASK), "left", "right", other=0)(np.zeros(2, np.int32)) == [0]


@pytest.mark.parametrize("kernels", [("fail", "left"), ("left", "fail")])
def test_an_error_on_either_device_fails_the_call(kernels: tuple[str, str]) -> None:
    """The other device's work ends first, and the next call finds everything in order."""
    run = built((SYNC, TASK), *kernels)
    for _ in range(3):
        with pytest.raises(RunError, match=r"an index in the data is out of bounds \(in kernel 'fail'\)"):
            run(np.ones(2, np.int32))


@pytest.mark.parametrize("missing", [NPU, dataclasses.replace(SYNC, name="dsp", driver="dsp")])
def test_a_missing_device_is_replaced_by_the_first(missing: Device) -> None:
    assert built((SYNC, missing), "right", "right")(np.ones(2, np.int32)) == [2]
