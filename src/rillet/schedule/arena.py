"""Packs transient memory into arenas.

Each device has arenas of its own. All scratch of static size shares one arena with static offsets. Scratch whose size
is a multiple of the same product of unknown extents shares an arena whose offsets are multiples of that product:
packing works on the factors at compile time and holds for every extent. Memory that escapes into control flow keeps an
allocation of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch_mlir import ir

from rillet.dialects import stream
from rillet.ir import Program
from rillet.ir.builders import i64_attr
from rillet.schedule import host, sizes
from rillet.schedule.packing import Item, Packing, live_at_peak, pack


@dataclass(frozen=True)
class Options:
    """``alignment``: bytes at which each tensor starts."""

    alignment: int = 64


@dataclass
class _Scratch:
    alloc: ir.Operation
    factor: int
    first: int
    last: int


def run(program: Program, options: Options) -> None:
    """Replace allocations by ranges of arenas; records ``stream.arena_bytes`` and ``stream.arena_lower_bound``.

    Both count the static arenas of all devices; ``stream.arena_is_dynamic`` is 1 where there are others, sized at each
    call. ``stream.arena_peak`` lists the tensors that make up the lower bound, as aligned ``bytes`` and ``of``, the
    location.
    """
    with program.context, ir.Location.unknown():
        block = program.main().regions[0].blocks[0]
        clock = _Clock()
        clock.number(block)
        groups: dict[object, tuple[int, tuple[ir.Value, ...], list[_Scratch]]] = {}
        for op in list(clock.allocs):
            scratch = clock.lifetime(op)
            if scratch is None:
                continue
            size = sizes.monomial(op.operands[0])
            scratch.factor = size.factor
            # Dynamic sizes are grouped by block, where all their extents are known at the first allocation.
            home = op.block if size.atoms else None
            device = stream.device_of(op)
            groups.setdefault((device, home, size.basis), (device, size.atoms, []))[2].append(scratch)
        total = bound = 0
        peak: list[ir.Attribute] = []
        for device, atoms, members in groups.values():
            if atoms:
                _dynamic(members, atoms, options.alignment, device)
            else:
                peak += _live_at_peak(members, options.alignment)
                packing = _static(block, members, options.alignment, device)
                total, bound = total + packing.total, bound + packing.lower_bound
        module = program.module.operation
        module.attributes["stream.arena_bytes"] = i64_attr(total)
        module.attributes["stream.arena_lower_bound"] = i64_attr(bound)
        module.attributes["stream.arena_peak"] = ir.ArrayAttr.get(peak)
        module.attributes["stream.arena_is_dynamic"] = i64_attr(any(atoms for _, atoms, _ in groups.values()))


def _static(block: ir.Block, members: list[_Scratch], alignment: int, device: int) -> Packing:
    packing = pack(_items(members), alignment)
    with ir.InsertionPoint(_within(block, members[0].alloc)):
        arena = _alloc(host.index(packing.total), device)
    for member, offset in zip(members, packing.offsets, strict=True):
        _move(member.alloc, arena, lambda offset=offset: host.index(offset))
    return packing


def _items(members: list[_Scratch]) -> list[Item]:
    return [Item(m.factor, m.first, m.last) for m in members]


def _live_at_peak(members: list[_Scratch], alignment: int) -> list[ir.Attribute]:
    live = [members[number] for number in live_at_peak(_items(members), alignment)]
    return [
        ir.DictAttr.get(
            {
                "bytes": i64_attr(-(-m.factor // alignment) * alignment),
                "of": ir.StringAttr.get(str(m.alloc.location)),
            }
        )
        for m in live
        if m.factor
    ]


def _dynamic(members: list[_Scratch], atoms: tuple[ir.Value, ...], alignment: int, device: int) -> None:
    """Sizes are ``factor * unit``; ``unit`` is the product of ``atoms``, rounded up so that all offsets are aligned."""
    packing = pack(_items(members), 1)
    granule = alignment // math.gcd(alignment, *(m.factor for m in members))
    with ir.InsertionPoint(members[0].alloc):
        unit = host.round_up(host.product(list(atoms), 1), granule)
        arena = _alloc(host.multiply(unit, packing.total), device)
    for member, offset in zip(members, packing.offsets, strict=True):
        _move(member.alloc, arena, lambda offset=offset: host.multiply(unit, offset))


def _alloc(size: ir.Value, device: int) -> ir.Value:
    alloc = stream.AllocOp(stream.ResourceType.get(), size, ir.StringAttr.get("transient"))
    stream.set_device(alloc, device)
    return alloc.operation.results[0]


def _move(alloc: ir.Operation, arena: ir.Value, offset_of: object) -> None:
    """Make every use of ``alloc`` a range of ``arena``."""
    with ir.InsertionPoint(alloc):
        offset = offset_of()  # type: ignore[operator]
    for use in list(alloc.results[0].uses):
        user = use.owner.operation
        if user.name == "stream.load":
            with ir.InsertionPoint(user):
                user.operands[1] = host.add(offset, user.operands[1])
            user.operands[0] = arena
            continue
        touch = next(t for t in stream.touches(user) if t.resource_operand == use.operand_number)
        with ir.InsertionPoint(stream.step_of(user)):
            start = host.add(offset, touch.offset)
        touch.move(arena, start)
    alloc.erase()


def _signals(op: ir.Operation) -> bool:
    """Whether ``op`` runs beside the host."""
    return any(isinstance(result.type, stream.FenceType) for result in op.results)


def _within(block: ir.Block, op: ir.Operation) -> ir.Operation:
    """The operation of ``block`` that is ``op`` or holds it."""
    while op.block != block:
        op = op.parent.operation
    return op


class _Clock:
    """A time for every operation of the host program, in which the commands of one wave are simultaneous.

    Regions of several devices run at once, but are numbered in the order in which they are written. ``_done_for`` gives
    the time from which a device knows that an operation of another device is done.
    """

    def __init__(self) -> None:
        self.time: dict[ir.Operation, tuple[int, int]] = {}
        self.allocs: list[ir.Operation] = []
        self._now = 0

    def number(self, block: ir.Block) -> None:
        for view in block.operations:
            op = view.operation
            if op.name == "stream.alloc" and sizes.is_transient(op.results[0]):
                self.allocs.append(op)
            if op.name == "stream.execute":
                self._waves(op)
                continue
            self._now += 1
            start = self._now
            for region in op.regions:
                for inner in region.blocks:
                    self.number(inner)
            self._now += 1
            self.time[op] = (start, self._now)

    def _waves(self, execute: ir.Operation) -> None:
        self._now += 1
        start = self._now
        for view in execute.regions[0].blocks[0].operations:
            if view.operation.name == "stream.barrier":
                self._now += 1
            else:
                self.time[view.operation] = (self._now, self._now)
        self.time[execute] = (start, self._now)

    def lifetime(self, alloc: ir.Operation) -> _Scratch | None:
        """When ``alloc``'s memory is needed, or None when it escapes. A use in a loop lasts as long as the loop."""
        spans = []
        uses = list(alloc.results[0].uses)
        for use in uses:
            user = use.owner.operation
            if not stream.touches(user) and user.name != "stream.load":
                return None
            if user.name == "stream.transfer":  # the transfer may return the same memory
                uses += user.results[0].uses
            top = self._in_block_of(alloc, user)
            start, end = self.time[top]
            step = stream.step_of(top)
            if _signals(step) and stream.device_of(step) != stream.device_of(alloc):
                end = max(end, self._done_for(stream.device_of(alloc), step))
            spans.append((start, end))
        if not spans:
            return _Scratch(alloc, 0, *self.time[alloc])
        return _Scratch(alloc, 0, min(s[0] for s in spans), max(s[1] for s in spans))

    def _done_for(self, device: int, step: ir.Operation) -> int:
        """The last time at which ``device`` may still be ahead of ``step``, which runs beside it.

        A device's regions await each other, so all of them are behind ``step`` from the first one on.
        """
        reached = set(step.results)
        for view in step.block.operations:
            op = view.operation
            if op.name == "stream.await" and step.is_before_in_block(op):
                return self.time[op][0]
            if not _signals(op) or reached.isdisjoint(op.operands):
                continue
            if stream.device_of(op) == device:
                return self.time[op][0] - 1
            reached |= set(op.results)
        return self._now

    def _in_block_of(self, alloc: ir.Operation, user: ir.Operation) -> ir.Operation:
        """The operation through which ``alloc``'s block uses it: a command itself, or the control flow around it."""
        top = user
        while top.block != alloc.block:
            inner, top = top, top.parent.operation
            if top.name == "stream.execute" and top.block == alloc.block:
                return inner
        return top
