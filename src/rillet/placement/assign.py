"""Gives every dispatch the device with which the program ends first, as far as costs known at compile time tell.

A dispatch that already has ``flow.device`` stays there. The dispatches between two points where the host decides or
loops are scheduled together. The device of a splat's first reader fills it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rillet.dialects import flow
from rillet.errors import CompileError
from rillet.ir import Program, dtypes
from rillet.ir.kernels import called, declarations
from rillet.ir.rewrite import defining
from rillet.ir.structured import DYNAMIC, walk
from rillet.placement import homes
from rillet.placement.list_scheduling import Task, place
from rillet.targets.devices import Device


@dataclass(frozen=True)
class Options:
    """``devices``: the program's, by ordinal."""

    devices: tuple[Device, ...]


def run(program: Program, options: Options) -> None:
    """Set ``flow.devices`` on the module and ``flow.device`` on every dispatch and fill."""
    with program.context, ir.Location.unknown():
        targets = list(dict.fromkeys(device.target for device in options.devices))
        described = [_described(device, targets.index(device.target)) for device in options.devices]
        program.module.operation.attributes[flow.DEVICES] = ir.ArrayAttr.get(described)
        _Assignment(options.devices, declarations(program)).block(program.main().regions[0].blocks[0])
        _place_fills(program.main())


def _described(device: Device, kernels: int) -> ir.Attribute:
    return ir.DictAttr.get(
        {
            "name": ir.StringAttr.get(device.name),
            "driver": ir.StringAttr.get(device.driver),
            "host_memory": ir.BoolAttr.get(device.has_host_memory),
            "kernels": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), kernels),
        }
    )


class _Assignment:
    def __init__(self, devices: Sequence[Device], callees: dict[str, ir.Operation]) -> None:
        self.devices, self.callees = devices, callees
        self.ordinals = {device.name: i for i, device in enumerate(devices)}

    def block(self, block: ir.Block) -> None:
        together: list[ir.Operation] = []
        for view in block.operations:
            op = view.operation
            if op.name == "func.call":
                together.append(op)
            if not len(op.regions):
                continue
            self._schedule(together)
            together = []
            for region in op.regions:
                for inner in region.blocks:
                    self.block(inner)
        self._schedule(together)

    def _schedule(self, dispatches: Sequence[ir.Operation]) -> None:
        number = {op: i for i, op in enumerate(dispatches)}
        placed = place([self._task(op, number) for op in dispatches], self._crossing)
        for op, device in zip(dispatches, placed, strict=True):
            op.attributes[flow.DEVICE] = ir.StringAttr.get(self.devices[device].name)

    def _task(self, op: ir.Operation, number: dict[ir.Operation, int]) -> Task:
        inputs = []
        outside = [0.0] * len(self.devices)
        for value in (op.operands[i] for i in homes.tensors(op)):
            source = defining(homes.viewed(value))
            if source in number:
                inputs.append((number[source], _bytes(value)))
            elif source is None or not (homes.is_fill(source) or source.name == "ml_program.global_load_const"):
                there = self.ordinals[homes.home(value) or self.devices[0].name]
                arrivals = (self._copy(there, device, _bytes(value)) for device in range(len(self.devices)))
                outside = list(map(max, outside, arrivals))
        return Task(self._costs(op), tuple(inputs), tuple(outside))

    def _costs(self, op: ir.Operation) -> tuple[float, ...]:
        """The time of a dispatch on each device."""
        name = called(op)
        counts = self.callees[name].attributes
        macs, size = (ir.IntegerAttr(counts[f"rillet.{what}"]).value for what in ("macs", "bytes"))
        costs = [d.launch_us + max(macs / d.macs_per_us, size / d.bytes_per_us) for d in self.devices]
        if flow.DEVICE not in op.attributes:
            return tuple(costs)
        given = ir.StringAttr(op.attributes[flow.DEVICE]).value
        if given not in self.ordinals:
            raise CompileError(f"internal: a dispatch of @{name} is on device '{given}', which the program lacks")
        return tuple(cost if self.devices[d].name == given else math.inf for d, cost in enumerate(costs))

    def _crossing(self, source: int, target: int, size: int) -> float:
        """The time from the end of a dispatch until another device can read its result."""
        if source == target:
            return 0.0
        return max(self.devices[source].sync_us, self.devices[target].sync_us) + self._copy(source, target, size)

    def _copy(self, source: int, target: int, size: int) -> float:
        """The time to copy a tensor from one device to another: none between devices that share the host's memory."""
        links = (self.devices[d].link_bytes_per_us for d in (source, target))
        return 0.0 if source == target else sum(size / link for link in links if link is not None)


def _place_fills(main: ir.Operation) -> None:
    """A fill happens on the device of the first dispatch that reads it."""
    for op in walk(main):
        if op.name != "func.call":
            continue
        for value in (op.operands[i] for i in homes.tensors(op)):
            source = defining(homes.viewed(value))
            if source is not None and homes.is_fill(source) and flow.DEVICE not in source.attributes:
                source.attributes[flow.DEVICE] = op.attributes[flow.DEVICE]


def _bytes(value: ir.Value) -> int:
    """The bytes of a tensor, with dynamic extents counted as 1, as in the kernels' counts."""
    tensor = ir.RankedTensorType(value.type)
    return math.prod(1 if e == DYNAMIC else e for e in tensor.shape) * dtypes.storage_bytes(tensor.element_type)
