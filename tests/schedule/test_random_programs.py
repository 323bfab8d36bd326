"""Random host programs, run by the C runtime and compared with the same steps in numpy.

Whatever the schedule does to memory must not show.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from rillet import hal, placement, schedule, vm
from rillet.module import write_module
from rillet.runtime import load
from rillet.targets.devices import Device, resolve
from tests.support.ir_check import lower
from tests.support.pinning import pin
from tests.support.races import races
from tests.support.random_programs import kernels, random_program


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_random_program(seed: int, dynamic: bool) -> None:
    program = random_program(seed, dynamic)
    image = vm.encode(lower(program.text, [*schedule.passes(), *hal.passes(), *vm.passes()]))
    memory = write_module(image, [kernels()])
    assert memory is not None
    run = load(memory, threads=1 + seed % 2)
    for _ in range(2):
        got = run(*program.inputs)
        for value, array in zip(program.results, got if len(program.results) > 1 else [got], strict=True):
            np.testing.assert_array_equal(array, value)


SYNC, TASK = resolve(["cpu-sync", "cpu-task"])
NPU = dataclasses.replace(TASK, name="npu", driver="npu", link_bytes_per_us=1000.0)


@pytest.mark.parametrize("devices", [(SYNC, TASK), (SYNC, NPU), (SYNC, TASK, NPU)], ids=["shared", "own", "three"])
@pytest.mark.parametrize("seed", range(25))
def test_devices_do_not_race(seed: int, devices: tuple[Device, ...]) -> None:
    """Whatever two devices do at once touches other bytes, whether a transfer copies or not."""
    text = random_program(seed, dynamic=False).text
    scheduled = lower(text, [pin(seed, devices), *placement.passes(devices), *schedule.passes()])
    schedule.check(scheduled)
    assert races(scheduled) == []
