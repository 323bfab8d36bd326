"""Random host programs, run by the C runtime and compared with the same steps in numpy.

Whatever the schedule does to memory must not show.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from rillet import hal, placement, schedule, vm
from rillet.module import write_module
from rillet.runtime import Module, load
from rillet.targets.devices import Device
from tests.support.devices import NPU, SYNC, TASK
from tests.support.ir_check import lower
from tests.support.pinning import pin
from tests.support.races import races
from tests.support.random_programs import RandomProgram, kernels, random_program


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


def run_on(devices: Sequence[Device], seed: int, dynamic: bool) -> tuple[RandomProgram, Module]:
    """A random program and its module, each dispatch on a device by chance."""
    program = random_program(seed, dynamic)
    passes = [pin(seed, devices), *placement.passes(devices), *schedule.passes(), *hal.passes(), *vm.passes()]
    memory = write_module(vm.encode(lower(program.text, passes)), [kernels()])
    assert memory is not None
    return program, load(memory, threads=2)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_random_program_on_two_devices(seed: int, dynamic: bool) -> None:
    """Called again, and by four threads at once."""
    program, run = run_on([SYNC, TASK] if seed % 2 else [TASK, SYNC], seed, dynamic)

    def call(_: int) -> None:
        got = run(*program.inputs)
        for value, array in zip(program.results, got if len(program.results) > 1 else [got], strict=True):
            np.testing.assert_array_equal(array, value)

    for i in range(2):
        call(i)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(call, range(12)))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_random_program_with_a_missing_device(seed: int, dynamic: bool) -> None:
    """The device with its own memory is not there: the first one runs its part, and transfers are the identity."""
    program, run = run_on([SYNC, NPU, TASK], seed, dynamic)
    for _ in range(2):
        got = run(*program.inputs)
        for value, array in zip(program.results, got if len(program.results) > 1 else [got], strict=True):
            np.testing.assert_array_equal(array, value)


@pytest.mark.parametrize("devices", [(SYNC, TASK), (SYNC, NPU), (SYNC, TASK, NPU)], ids=["shared", "own", "three"])
@pytest.mark.parametrize("seed", range(25))
def test_devices_do_not_race(seed: int, devices: tuple[Device, ...]) -> None:
    """Whatever two devices do at once touches other bytes, whether a transfer copies or not."""
    text = random_program(seed, dynamic=False).text
    scheduled = lower(text, [pin(seed, devices), *placement.passes(devices), *schedule.passes()])
    schedule.check(scheduled)
    assert races(scheduled) == []
