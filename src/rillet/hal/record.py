"""Recording the commands of one ``stream.execute`` region into a command buffer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch_mlir import ir

from rillet.dialects import hal, stream
from rillet.hal.build import Builder
from rillet.ir.rewrite import is_defined_by


@dataclass(frozen=True)
class Region:
    """The commands of a region and the resources they touch. ``slots``: the resources of its binding table, in order.

    ``device``: the ordinal of the device that executes them.
    """

    device: int
    commands: tuple[ir.Operation, ...]
    slots: tuple[ir.Value, ...]

    @staticmethod
    def of(execute: ir.Operation) -> Region:
        """The commands of a ``stream.execute``, and each resource that they touch once, in order of first use."""
        commands = tuple(op.operation for op in execute.regions[0].blocks[0].operations)
        resources = (touch.resource for op in commands for touch in stream.touches(op))
        return Region(stream.device_of(execute), commands, tuple(dict.fromkeys(resources)))

    @property
    def is_static(self) -> bool:
        """Whether only the binding table changes between calls."""
        slots = set(self.slots)
        return all(_is_constant(value) for op in self.commands for value in op.operands if value not in slots)

    @property
    def dispatch_count(self) -> int:
        """The number of dispatches among the commands."""
        return sum(op.name == "stream.dispatch" for op in self.commands)


def record(
    region: Region, build: Builder, entries: dict[str, int], value_of: Callable[[ir.Value], ir.Value]
) -> ir.OpView:
    """Emit the recording at the current insertion point; ``value_of`` gives a host value there."""
    slots = {resource: i for i, resource in enumerate(region.slots)}
    create = hal.CmdCreateOp(hal.CommandsType.get(), build.i64(region.device), build.i64(len(slots)))
    commands = create.operation.results[0]
    for op in region.commands:
        with op.location:
            if op.name == "stream.barrier":
                hal.CmdBarrierOp(commands)
                continue
            ranges = [
                (build.i64(slots[t.resource]), value_of(t.offset), value_of(t.length)) for t in stream.touches(op)
            ]
            if op.name == "stream.fill":
                size = build.i64(ir.IntegerAttr(op.attributes["pattern_size"]).value)
                hal.CmdFillOp(commands, *ranges[0], value_of(op.operands[0]), size)
            elif op.name == "stream.copy":
                (target, target_offset, length), (source, source_offset, _) = ranges
                hal.CmdCopyOp(commands, target, target_offset, source, source_offset, length)
            else:
                _dispatch(op, commands, ranges, build, entries, value_of)
    hal.CmdEndOp(commands)
    return create


def _dispatch(
    op: ir.Operation,
    commands: ir.Value,
    ranges: list[tuple[ir.Value, ir.Value, ir.Value]],
    build: Builder,
    entries: dict[str, int],
    value_of: Callable[[ir.Value], ir.Value],
) -> None:
    constant_count = ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])[0]
    if constant_count:
        hal.CmdConstantsOp(commands, [value_of(v) for v in list(op.operands)[:constant_count]])
    for binding, (touch, (slot, offset, length)) in enumerate(zip(stream.touches(op), ranges, strict=True)):
        access = build.i64(touch.reads + 2 * touch.writes)
        hal.CmdBindOp(commands, build.i64(binding), slot, offset, length, access)
    name = ir.SymbolRefAttr(op.attributes["entry"]).value[-1]
    hal.CmdDispatchOp(commands, build.i64(entries[name]))


def _is_constant(value: ir.Value) -> bool:
    return is_defined_by(value, "arith.constant")
