"""Calls that go on by themselves: in C under sanitizers and on a device with memory of its own, and in Python."""

from __future__ import annotations

import dataclasses
import gc
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rillet import hal, placement, schedule, vm
from rillet.errors import RunError
from rillet.runtime import Module, load
from rillet.targets.devices import resolve
from tests.support import bytecode_assembler as a
from tests.support.c_kernels import load_program
from tests.support.flow_text import FlowKernel, module
from tests.support.ir_check import lower
from tests.support.session_runner import build

N = 1000
ADD = (np.arange(N, dtype=np.float32), np.full(N, 2, np.float32))


def run(*command: str | Path) -> str:
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-6000:]
    return result.stdout


@pytest.fixture
def adder(elf: bytes, tmp_path: Path) -> Path:
    path = tmp_path / "add.rlm"
    path.write_bytes(a.module(a.static_add(N), a.library(elf)))
    return path


@pytest.mark.timeout(600)
@pytest.mark.parametrize("threads", ["1", "2"])
def test_calls_in_flight_under_address_sanitizer(request: pytest.FixtureRequest, adder: Path, threads: str) -> None:
    folder = build(request, "c_runtime", ["pending"], "-DRILLET_SANITIZE=ON")
    run(folder / "tests/program/pending", adder, threads, "50", "fork")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("threads", ["1", "2"])
def test_calls_in_flight_have_no_data_races(request: pytest.FixtureRequest, adder: Path, threads: str) -> None:
    folder = build(request, "c_runtime_tsan", ["pending"], "-DCMAKE_C_FLAGS=-fsanitize=thread -O1")
    run(folder / "tests/program/pending", adder, threads, "20")


@pytest.mark.timeout(600)
def test_a_device_with_memory_of_its_own(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Its driver refuses the host's memory, which cannot see its: 8 x is what comes back through both."""
    sync, other = resolve(["cpu-sync", "cpu-task"])
    devices = (sync, dataclasses.replace(other, name="npu", driver="npu", link_bytes_per_us=1000.0))
    tensor = f"tensor<{N}xf32>"
    main = f"""
    func.func @main(%x: {tensor} {{rillet.name = "x", rillet.dtype = "float32"}}) -> {tensor} {{
      %0 = func.call @twice(%x) {{flow.device = "cpu-sync"}} : ({tensor}) -> {tensor}
      %1 = func.call @twice(%0) {{flow.device = "npu"}} : ({tensor}) -> {tensor}
      %2 = func.call @twice(%1) {{flow.device = "cpu-sync"}} : ({tensor}) -> {tensor}
      return %2 : {tensor}
    }}
    """
    body = f"for (int i = 0; i < {N}; i++) BINDING(float, 1)[i] = 2 * BINDING(float, 0)[i];"
    source = f"KERNEL(twice) {{ {body} return 0; }}"
    passes = [*placement.passes(devices), *schedule.passes(), *hal.passes(), *vm.passes()]
    program = lower(module({"twice": FlowKernel(tensor, (tensor,))}, main), passes)
    path = tmp_path / "npu.rlm"
    load_program(program, source, {"twice": (2, 0)}).save(path)
    folder = build(request, "c_runtime", ["own_memory"], "-DRILLET_SANITIZE=ON")
    lines = run(folder / "tests/program/own_memory", path).splitlines()
    assert lines == [f"float32 [{N}] sum 3.996e+06"] * 2 + ["4 transfers"]


@pytest.fixture
def module_of_add(elf: bytes) -> Module:
    return load(a.module(a.static_add(N), a.library(elf)))


def test_results_are_those_of_a_call(module_of_add: Module) -> None:
    pending = [module_of_add.submit(ADD[0] + i, ADD[1]) for i in range(20)]
    for i, call in reversed(list(enumerate(pending))):
        np.testing.assert_array_equal(call.result(), ADD[0] + i + 2)
        assert call.done()
        np.testing.assert_array_equal(call.result(timeout=0), ADD[0] + i + 2)


def test_inputs_are_kept_until_the_work_is_done(module_of_add: Module) -> None:
    pending = [module_of_add.submit(np.full(N, i, np.float32), ADD[1].tolist()) for i in range(20)]
    gc.collect()
    assert [call.result()[0] for call in pending] == [i + 2 for i in range(20)]


@pytest.mark.parametrize("timeout", [float("inf"), 2**70, 10**400, np.float32(60), 60])
def test_a_timeout_may_be_any_number(module_of_add: Module, timeout: float) -> None:
    np.testing.assert_array_equal(module_of_add.submit(*ADD).result(timeout=timeout), ADD[0] + 2)


@pytest.mark.parametrize("timeout", ["x", "1", float("nan"), -1, -float("inf"), True, [1]])
def test_a_timeout_that_is_no_time_is_refused(module_of_add: Module, timeout: float) -> None:
    call = module_of_add.submit(*ADD)
    message = f"timeout must be a number of seconds from 0 on, or None for no limit, not {timeout!r}"
    with pytest.raises(RunError, match=re.escape(message)):
        call.result(timeout=timeout)
    np.testing.assert_array_equal(call.result(), ADD[0] + 2)


def test_errors(elf: bytes, module_of_add: Module) -> None:
    with pytest.raises(RunError, match="expected shape"):
        module_of_add.submit(ADD[0][1:], ADD[1])
    inputs = [(a.spec("table", a.F32, 2), 8, a.READ), (a.spec("indices", a.I64, 1), 8, a.READ)]
    image = a.one_dispatch(a.GATHER, [2, 1], inputs, a.spec("out", a.F32, 1), 4)
    gather = load(a.module(image, a.library(elf)))
    call = gather.submit(np.zeros(2, np.float32), np.array([7]))
    for _ in range(2):
        with pytest.raises(RunError, match=r"out of bounds \(in kernel 'gather'\)"):
            call.result()
    assert gather.submit(np.ones(2, np.float32), np.array([1])).result() == [1]


def test_dropped_calls_end_by_themselves(elf: bytes) -> None:
    other = load(a.module(a.static_add(N), a.library(elf)), threads=2)
    for i in range(50):
        other.submit(np.full(N, i, np.float32), ADD[1])
    np.testing.assert_array_equal(other(*ADD), ADD[0] + 2)
    del other
    gc.collect()


@pytest.mark.parametrize("ending", ["", "del call, run", "import os; os._exit(0) if os.fork() == 0 else os.wait()"])
def test_the_interpreter_may_end_while_a_call_is_pending(elf: bytes, tmp_path: Path, ending: str) -> None:
    path = tmp_path / "add.rlm"
    path.write_bytes(a.module(a.static_add(N), a.library(elf)))
    code = f"""
import numpy as np
import rillet
run = rillet.load({str(path)!r})
x = np.ones({N}, np.float32)
call = [run.submit(x, x) for _ in range(30)]
{ending}
"""
    run(sys.executable, "-c", code)


def test_a_fork_does_not_wait_for_its_parents_calls(module_of_add: Module) -> None:
    call = module_of_add.submit(*ADD)
    child = os.fork()
    if child == 0:
        try:
            call.result(timeout=5)
        except RunError as error:
            os._exit(0 if "a fork of" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    np.testing.assert_array_equal(call.result(), ADD[0] + 2)
