"""Devices, and a host program whose branches run on two of them."""

from __future__ import annotations

import dataclasses

from rillet.targets.devices import Device, resolve
from tests.support.flow_text import FlowKernel

SYNC, TASK = resolve(["cpu-sync", "cpu-task"])
NPU = dataclasses.replace(TASK, name="npu", driver="npu", link_bytes_per_us=1000.0)
T = "tensor<8xf32>"
F = FlowKernel(T, (T,), may_alias=(0, 0))
G = FlowKernel(f"{T}, {T}", (T,), may_alias=(0, 0, 0, 1))
COUNT = FlowKernel(T, ("tensor<i64>",))
KERNELS = {"f": F, "g": G, "count": COUNT}
ON = {name: f'{{flow.device = "{name}"}}' for name in ("cpu-sync", "cpu-task", "npu")}
BRANCHES = f"""
func.func @main(%x: {T}) -> {T} {{
  %0 = func.call @f(%x) {ON["cpu-sync"]} : ({T}) -> {T}
  %1 = func.call @f(%x) {ON["cpu-task"]} : ({T}) -> {T}
  %2 = func.call @f(%1) {ON["cpu-task"]} : ({T}) -> {T}
  %3 = func.call @g(%0, %2) {ON["cpu-sync"]} : ({T}, {T}) -> {T}
  return %3 : {T}
}}
"""


def old() -> Device:
    """A device whose kernels are for another target than the program's."""
    return dataclasses.replace(TASK, name="old", target="x86-64-v2")


def small() -> Device:
    """A device whose target packs constants in another way."""
    return dataclasses.replace(TASK, name="small", target="cortex-m4")
