from __future__ import annotations

import dataclasses

import pytest

from rillet import placement
from rillet.errors import CompileError
from rillet.ir import Program
from rillet.targets.devices import CPU, DEVICES, Device, resolve
from tests.support.flow_text import FlowKernel, module
from tests.support.ir_check import check, lower, main_text

SYNC, TASK = resolve(["cpu-sync", "cpu-task"])
T = "tensor<1024xf32>"
LARGE = FlowKernel(T, (T,), macs=100_000_000)
SMALL = FlowKernel(T, (T,), macs=1)
BOTH = FlowKernel(f"{T}, {T}", (T,), macs=1)
KERNELS = {"large": LARGE, "small": SMALL, "both": BOTH}
NPU = Device("npu", "npu", macs_per_us=10_000_000, bytes_per_us=1_000_000, link_bytes_per_us=1000)


def placed(main: str, *devices: Device) -> Program:
    program = lower(module(KERNELS, main), placement.passes(devices))
    placement.check(program)
    return program


def printed(main: str, *devices: Device) -> str:
    program = placed(main, *devices)
    return main_text(program)


def test_one_device_changes_nothing() -> None:
    assert placement.passes([CPU]) == []
    text = module(KERNELS, f"func.func @main(%x: {T}) -> {T} {{ return %x : {T} }}")
    placement.check(Program.parse(text))


def test_branches_go_to_two_devices() -> None:
    main = f"""
    // CHECK: %[[A:.*]] = call @large(%arg0) {{flow.device = "cpu-task"}}
    // CHECK-NEXT: %[[X:.*]] = "flow.transfer"(%arg0) {{device = "cpu-sync"}}
    // CHECK-NEXT: %[[B:.*]] = call @large(%[[X]]) {{flow.device = "cpu-sync"}}
    // CHECK-NEXT: %[[C:.*]] = "flow.transfer"(%[[A]]) {{device = "cpu-sync"}}
    // CHECK-NEXT: %[[D:.*]] = call @both(%[[C]], %[[B]]) {{flow.device = "cpu-sync"}}
    // CHECK-NEXT: %[[R:.*]] = "flow.transfer"(%[[D]]) {{device = "cpu-task"}}
    // CHECK-NEXT: return %[[R]]
    func.func @main(%x: {T}) -> {T} {{
      %a = func.call @large(%x) : ({T}) -> {T}
      %b = func.call @large(%x) : ({T}) -> {T}
      %c = func.call @both(%a, %b) : ({T}, {T}) -> {T}
      return %c : {T}
    }}
    """
    check(printed(main, TASK, SYNC), main)


def test_small_branches_stay_together() -> None:
    text = printed(BRANCHES.replace("@large", "@small"), SYNC, TASK)
    assert "flow.transfer" not in text and text.count('flow.device = "cpu-sync"') == 3


BRANCHES = f"""
func.func @main(%x: {T}) -> {T} {{
  %a = func.call @large(%x) : ({T}) -> {T}
  %b = func.call @large(%x) : ({T}) -> {T}
  %c = func.call @both(%a, %b) : ({T}, {T}) -> {T}
  return %c : {T}
}}
"""


def test_a_dispatch_with_a_device_stays_there() -> None:
    pinned = BRANCHES.replace("@large(%x) :", '@small(%x) {flow.device = "cpu-task"} :')
    text = printed(pinned, SYNC, TASK)
    assert 'call @small(%0) {flow.device = "cpu-task"}' in text and "cpu-sync" not in text.split("call @both")[0]


def test_a_device_that_the_program_lacks_is_refused() -> None:
    pinned = BRANCHES.replace("@large(%x) :", '@large(%x) {flow.device = "npu"} :')
    with pytest.raises(CompileError, match="on device 'npu', which the program lacks"):
        placed(pinned, SYNC, TASK)


def test_control_flow_and_results_live_on_the_first_device() -> None:
    """A value that a loop does not change is brought to a device in front of it."""
    main = f"""
    // CHECK: %[[X:.*]] = "flow.transfer"(%arg0) {{device = "cpu-task"}}
    // CHECK: %[[L:.*]] = scf.for
    // CHECK-SAME: iter_args(%[[V:.*]] = %arg0)
    // CHECK: %[[T:.*]] = "flow.transfer"(%[[V]]) {{device = "cpu-task"}}
    // CHECK: %[[C:.*]] = func.call @both(%[[T]], %[[X]]) {{flow.device = "cpu-task"}}
    // CHECK: %[[R:.*]] = "flow.reshape"(%[[C]]
    // CHECK: %[[H:.*]] = "flow.transfer"(%[[R]]) {{device = "cpu-sync"}}
    // CHECK: scf.yield %[[H]]
    func.func @main(%x: {T}) -> {T} {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %r = scf.for %i = %c0 to %c1 step %c1 iter_args(%v = %x) -> ({T}) {{
        %c = func.call @both(%v, %x) {{flow.device = "cpu-task"}} : ({T}, {T}) -> {T}
        %d = "flow.reshape"(%c) {{operandSegmentSizes = array<i32: 1, 0>}} : ({T}) -> {T}
        scf.yield %d : {T}
      }}
      return %r : {T}
    }}
    """
    check(printed(main, SYNC, TASK), main)


def test_a_fill_happens_where_it_is_read_first() -> None:
    main = f"""
    // CHECK: %[[S:.*]] = "flow.splat"
    // CHECK-SAME: flow.device = "cpu-task"
    // CHECK: call @small(%[[S]]) {{flow.device = "cpu-task"}}
    // CHECK: %[[T:.*]] = "flow.transfer"(%[[S]]) {{device = "cpu-sync"}}
    // CHECK: call @small(%[[T]]) {{flow.device = "cpu-sync"}}
    func.func @main(%v: f32) -> ({T}, {T}) {{
      %s = "flow.splat"(%v) {{operandSegmentSizes = array<i32: 1, 0>}} : (f32) -> {T}
      %a = func.call @small(%s) {{flow.device = "cpu-task"}} : ({T}) -> {T}
      %b = func.call @small(%s) {{flow.device = "cpu-sync"}} : ({T}) -> {T}
      return %a, %b : {T}, {T}
    }}
    """
    check(printed(main, SYNC, TASK), main)


def test_copies_to_a_device_with_its_own_memory_are_counted() -> None:
    """A thousandfold faster device is worth it for much work on few bytes, not for little."""
    chain = f"""
    func.func @main(%x: {T}) -> {T} {{
      %a = func.call @large(%x) : ({T}) -> {T}
      return %a : {T}
    }}
    """
    assert 'call @large(%0) {flow.device = "npu"}' in printed(chain, SYNC, NPU)
    slow = dataclasses.replace(NPU, link_bytes_per_us=0.1)
    assert 'call @large(%arg0) {flow.device = "cpu-sync"}' in printed(chain, SYNC, slow)


CALL = f"({T}) -> {T}"


@pytest.mark.parametrize(
    ("main", "message"),
    [
        (f"%a = func.call @small(%x) : {CALL}", "a dispatch of @small has no device"),
        (
            f'%a = func.call @small(%x) {{flow.device = "cpu-task"}} : {CALL}',
            "'func.call' on device 'cpu-task' has an operand that lives on 'cpu-sync'",
        ),
        (
            f'%a = "flow.transfer"(%x) {{device = "cpu-task"}} : {CALL}',
            "'func.return' on device 'cpu-sync' has an operand that lives on 'cpu-task'",
        ),
    ],
)
def test_form(main: str, message: str) -> None:
    text = module(KERNELS, f"func.func @main(%x: {T}) -> {T} {{\n{main}\nreturn %a : {T}\n}}")
    facts = "host_memory = true, kernels = 0 : i64"
    devices = ", ".join(f'{{name = "{d.name}", driver = "{d.driver}", {facts}}}' for d in (SYNC, TASK))
    text = text.replace("module {", f"module attributes {{flow.devices = [{devices}]}} {{", 1)
    with pytest.raises(CompileError, match=message):
        placement.check(Program.parse(text))


def test_resolve() -> None:
    assert resolve(None) == (CPU,)
    assert resolve("cpu-task") == (DEVICES.get("cpu-task"),)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["cpu-sync", "npu"], "unknown device 'npu'; known devices: cpu, cpu-sync, cpu-task"),
        (["cpu", "cpu"], "device 'cpu' is named twice"),
        ([], "name at least one device"),
        (3, "device must be a name or several, not 3"),
    ],
)
def test_refused_names(names: list[str], message: str) -> None:
    with pytest.raises(CompileError, match=message):
        resolve(names)


def test_the_first_device_works_in_the_hosts_memory() -> None:
    from rillet.targets.devices import check as check_devices

    with pytest.raises(CompileError, match="device 'npu' cannot come first, since inputs and results live there"):
        check_devices([NPU, SYNC])
