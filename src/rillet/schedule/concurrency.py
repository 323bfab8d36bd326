"""Orders commands into waves and gathers them in ``stream.execute`` regions.

A region holds the commands between two points where the host needs their effect: control flow, a load of what they
write, the return. In it, a barrier separates waves of independent commands. Where the commands between two such points
are on several devices, each device has regions of its own (``timelines``) that signal and await fences.

Program order already keeps memory low, so a command runs earlier than written only within a small window, and only
while the live bytes of the wave stay below the peak that program order needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch_mlir import ir

from rillet.dialects import stream
from rillet.ir import Program
from rillet.schedule import sizes, timelines
from rillet.schedule.packing import Item, lower_bound


@dataclass(frozen=True)
class Options:
    """``windows``: how far ahead of the first waiting command others may start, the most ambitious first."""

    windows: tuple[int, ...] = (32, 8, 2)


@dataclass
class Command:
    """One command as scheduling sees it. ``buffers``: the transient memory that it touches."""

    op: ir.Operation
    after: set[int] = field(default_factory=set)
    buffers: set[int] = field(default_factory=set)


@dataclass
class Buffer:
    """Transient memory: its bytes, and whether it lives before or after the commands being ordered."""

    size: int
    before: bool = False
    beyond: bool = False


def run(program: Program, options: Options) -> None:
    """Form the regions of every block of ``@main``."""
    with program.context, ir.Location.unknown():
        for block in program.main().regions[0].blocks:
            _block(block, options)


def _block(block: ir.Block, options: Options) -> None:
    pending: list[ir.Operation] = []
    for view in list(block.operations):
        op = view.operation
        for region in op.regions:
            for inner in region.blocks:
                _block(inner, options)
        if op.name in stream.COMMANDS or op.name == "stream.transfer":
            pending.append(op)
        elif _waits(op, pending):
            _flush(op, pending, options)
            pending = []


def _waits(op: ir.Operation, pending: Sequence[ir.Operation]) -> bool:
    """Whether the host must see the effect of ``pending`` before ``op``."""
    if any(transfer in pending for value in op.operands for transfer in sizes.transfers(value)):
        return True
    if op.name == "stream.load":
        return any(t.writes and t.resource == op.operands[0] for c in pending for t in stream.touches(c))
    return len(op.regions) > 0 or op.name.startswith(("scf.", "func."))


def _flush(before: ir.Operation, pending: list[ir.Operation], options: Options) -> None:
    if not pending:
        return
    devices = [stream.device_of(op) for op in pending]
    alone = [op.name == "stream.transfer" for op in pending]
    if len(set(devices)) == 1 and not any(alone):
        _region(before, pending, options)
        return
    commands, _ = _graph(pending)
    steps = timelines.steps(devices, [command.after for command in commands], alone)
    fences: list[ir.Value] = []
    for step in steps:
        ops = [pending[i] for i in step.commands]
        build = _transfer if ops[0].name == "stream.transfer" else _region
        fences.append(build(before, ops, options, [fences[j] for j in step.awaits]).results[-1])
    if before.name != "func.return":  # the call ends with its last fence
        with ir.InsertionPoint(before), before.location:
            stream.AwaitOp([fences[j] for j in timelines.last(steps)])


def _transfer(
    before: ir.Operation, ops: Sequence[ir.Operation], options: Options, awaits: Sequence[ir.Value]
) -> ir.Operation:
    """The transfer again, with fences."""
    (old,) = ops
    with ir.InsertionPoint(before), old.location:
        new = stream.TransferOp(old.results[0].type, [stream.FenceType.get()], *old.operands, list(awaits)).operation
    stream.set_device(new, stream.device_of(old))
    old.results[0].replace_all_uses_with(new.results[0])
    old.erase()
    return new


def _region(
    before: ir.Operation,
    ops: Sequence[ir.Operation],
    options: Options,
    awaits: Sequence[ir.Value] | None = None,
) -> ir.Operation:
    """A region of commands of one device. A region with ``awaits``, even an empty list, signals a fence."""
    commands, buffers = _graph(ops)
    waves = order(commands, buffers, options.windows)
    with ir.InsertionPoint(before), ops[0].location:
        signals = [] if awaits is None else [stream.FenceType.get()]
        region = stream.ExecuteOp(signals, list(awaits or [])).operation
        stream.set_device(region, stream.device_of(ops[0]))
        body = region.regions[0].blocks.append()
    with ir.InsertionPoint(body):
        for number, wave in enumerate(waves):
            if number:
                stream.BarrierOp()
            for i in wave:
                body.append(commands[i].op)
    return region


def _graph(pending: Sequence[ir.Operation]) -> tuple[list[Command], list[Buffer]]:
    """Dependences by resource: readers wait for the last writer, a writer for all before it.

    Users of a transfer's result wait for the transfer, and count as readers of its source.
    """
    commands = [Command(op) for op in pending]
    number = {op: i for i, op in enumerate(pending)}
    writer: dict[ir.Value, int] = {}
    readers: dict[ir.Value, list[int]] = {}
    known: dict[ir.Value, int] = {}
    buffers: list[Buffer] = []
    for i, command in enumerate(commands):
        for touch in stream.touches(command.op):
            root = sizes.root(touch.resource)
            command.after.update(number[op] for op in sizes.transfers(touch.resource) if op in number)
            if sizes.is_transient(root):
                if root not in known:
                    known[root] = len(buffers)
                    buffers.append(_buffer(root, number))
                command.buffers.add(known[root])
            if root in writer and writer[root] != i:
                command.after.add(writer[root])
            if touch.writes:
                command.after.update(j for j in readers.get(root, ()) if j != i)
                writer[root] = i
                readers[root] = []
            if touch.reads:
                readers.setdefault(root, []).append(i)
    return commands, buffers


def _buffer(root: ir.Value, number: dict[ir.Operation, int]) -> Buffer:
    """Uses outside the commands make a buffer live at both ends: which of them does not matter for ordering."""
    outside = any(use.owner.operation not in number for use in root.uses)
    return Buffer(sizes.estimate(root.owner.operands[0]), before=outside, beyond=outside)


def order(commands: Sequence[Command], buffers: Sequence[Buffer], windows: Sequence[int]) -> list[list[int]]:
    """Waves of command numbers: concurrent where that costs no memory against program order.

    Falls back to one command in each wave where every window would need more.
    """
    sequential = [[i] for i in range(len(commands))]
    budget = _peak(commands, buffers, sequential)
    for window in windows:
        waves = _waves(commands, buffers, window, budget)
        if _peak(commands, buffers, waves) <= budget:
            return waves
    return sequential


def _waves(commands: Sequence[Command], buffers: Sequence[Buffer], window: int, budget: int) -> list[list[int]]:
    waiting = {i: len(command.after) for i, command in enumerate(commands)}
    followers: dict[int, list[int]] = {i: [] for i in waiting}
    uses = [0] * len(buffers)
    for i, command in enumerate(commands):
        for j in command.after:
            followers[j].append(i)
        for b in command.buffers:
            uses[b] += 1
    live = {b for b, buffer in enumerate(buffers) if buffer.before}
    total = sum(buffers[b].size for b in live)
    done = [False] * len(commands)
    first, waves = 0, []
    while first < len(commands):
        wave: list[int] = []
        for i in range(first, min(first + window, len(commands))):
            if done[i] or waiting[i]:
                continue
            fresh = commands[i].buffers - live
            growth = sum(buffers[b].size for b in fresh)
            if wave and total + growth > budget:
                continue
            wave.append(i)
            live |= fresh
            total += growth
        for i in wave:
            done[i] = True
            for j in followers[i]:
                waiting[j] -= 1
            for b in commands[i].buffers:
                uses[b] -= 1
                if uses[b] == 0 and not buffers[b].beyond:
                    live.discard(b)
                    total -= buffers[b].size
        waves.append(wave)
        while first < len(commands) and done[first]:
            first += 1
    return waves


def _peak(commands: Sequence[Command], buffers: Sequence[Buffer], waves: Sequence[Sequence[int]]) -> int:
    spans: dict[int, list[int]] = {}
    for step, wave in enumerate(waves):
        for i in wave:
            for b in commands[i].buffers:
                spans.setdefault(b, [step, step])[1] = step
    items = []
    for b, (start, end) in spans.items():
        buffer = buffers[b]
        items.append(Item(buffer.size, 0 if buffer.before else start, len(waves) if buffer.beyond else end))
    return lower_bound(items, 64)
