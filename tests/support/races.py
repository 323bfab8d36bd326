"""Finds commands of a scheduled program that touch the same bytes, one of them writing, in no order."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from torch_mlir import ir

from rillet.dialects import stream
from rillet.ir import Program
from rillet.ir.rewrite import int_constant


@dataclass(frozen=True)
class _Access:
    text: str
    step: int
    wave: int
    resource: ir.Value
    first: int
    last: int
    writes: bool


def races(program: Program) -> list[str]:
    """Pairs of commands in a race, as text; sizes and offsets of the program must be static."""
    with program.context:
        return [text for block in _blocks(program.main()) for group in _groups(block) for text in _races(group)]


def _blocks(op: ir.Operation) -> list[ir.Block]:
    found = []
    for region in op.regions:
        for block in region.blocks:
            found.append(block)
            for view in block.operations:
                if view.operation.name.startswith("scf."):
                    found += _blocks(view.operation)
    return found


def _groups(block: ir.Block) -> list[list[ir.Operation]]:
    """The steps between two points where the host waits."""
    groups: list[list[ir.Operation]] = [[]]
    for view in block.operations:
        op = view.operation
        if op.name in ("stream.execute", "stream.transfer"):
            waits = not any(isinstance(r.type, stream.FenceType) for r in op.results)
            groups += [[op], []] if waits else []
            if not waits:
                groups[-1].append(op)
        elif op.name == "stream.await":
            groups.append([])
    return [group for group in groups if group]


def _races(group: list[ir.Operation]) -> list[str]:
    number = {op: i for i, op in enumerate(group)}
    before: list[set[int]] = []
    for op in group:
        awaited = {number[v.owner.operation] for v in op.operands if isinstance(v.type, stream.FenceType)}
        before.append(awaited.union(*(before[j] for j in awaited)))
    found = []
    for a, b in itertools.combinations([a for i, op in enumerate(group) for a in _accesses(i, op)], 2):
        is_apart = a.resource != b.resource or a.last < b.first or b.last < a.first
        if is_apart or not (a.writes or b.writes):
            continue
        if a.step == b.step:
            if a.wave == b.wave and a.text != b.text:
                found.append(f"{a.text}\n  beside {b.text}")
        elif a.step not in before[b.step]:
            found.append(f"{a.text}\n  beside {b.text}")
    return found


def _accesses(step: int, op: ir.Operation) -> list[_Access]:
    commands = [op] if op.name == "stream.transfer" else [o.operation for o in op.regions[0].blocks[0].operations]
    found, wave = [], 0
    for command in commands:
        wave += command.name == "stream.barrier"
        for touch in stream.touches(command):
            resource, start = _root(touch.resource)
            first = start + _constant(touch.offset)
            last = first + _constant(touch.length) - 1
            text = f"{command} (step {step}, wave {wave})"
            found.append(_Access(text, step, wave, resource, first, last, touch.writes))
    return found


def _root(resource: ir.Value) -> tuple[ir.Value, int]:
    """The memory behind views and transfers, which may be the identity, and where a resource starts in it."""
    start = 0
    while not isinstance(resource.owner, ir.Block) and resource.owner.name in ("stream.subview", "stream.transfer"):
        start += _constant(resource.owner.operands[1])
        resource = resource.owner.operands[0]
    return resource, start


def _constant(value: ir.Value) -> int:
    number = int_constant(value)
    assert number is not None
    return number
