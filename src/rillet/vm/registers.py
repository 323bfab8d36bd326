"""Register allocation by linear scan over the blocks (Poletto and Sarkar, "Linear Scan Register Allocation", 1999).

There are as many registers as a function needs, so nothing is ever spilled; reuse keeps frames small. A value passed
to a block argument prefers that argument's register, which saves the move at the branch.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from torch_mlir import ir

from rillet.dialects import vm
from rillet.errors import CompileError
from rillet.vm.liveness import Liveness, edges, reads

_MAX_REGISTERS = 1 << 16


@dataclass(frozen=True)
class Allocation:
    """The register of every value, in the file of its kind, and how many each file needs."""

    register: dict[ir.Value, int]
    int_registers: int
    ref_registers: int


def allocate(function: ir.Operation, liveness: Liveness) -> Allocation:
    """Assign registers; arguments of the function get the first ones of their kinds, in order."""
    intervals = _intervals(liveness)
    hints = _hints(liveness)
    register: dict[ir.Value, int] = {}
    counts = {}
    for is_ref in (False, True):
        values = [v for v in intervals if _is_ref(v) == is_ref]
        counts[is_ref] = _scan(values, intervals, hints, register)
        if counts[is_ref] > _MAX_REGISTERS - 1:
            raise CompileError("the host program needs more than 65535 registers; split the model")
    return Allocation(register, counts[False], counts[True])


def _scan(
    values: list[ir.Value],
    intervals: dict[ir.Value, tuple[int, int]],
    hints: dict[ir.Value, list[ir.Value]],
    register: dict[ir.Value, int],
) -> int:
    """Assign registers to values of one kind, which come in order of their starts; return how many are needed."""
    active: list[tuple[int, int]] = []  # (end, register)
    free: list[int] = []
    count = 0
    for value in values:
        start, end = intervals[value]
        # A register that is read for the last time by the defining operation is free for its result.
        while active and active[0][0] <= start:
            heapq.heappush(free, heapq.heappop(active)[1])
        wanted = [register[h] for h in hints.get(value, ()) if h in register]
        choice = next((r for r in wanted if r in free), None)
        if choice is not None:
            free.remove(choice)
            heapq.heapify(free)
        elif free:
            choice = heapq.heappop(free)
        else:
            choice = count
            count += 1
        register[value] = choice
        heapq.heappush(active, (end, choice))
    return count


def _intervals(liveness: Liveness) -> dict[ir.Value, tuple[int, int]]:
    """From definition to last use, in a numbering in which definitions follow the uses of their operation."""
    spans: dict[ir.Value, list[int]] = {}
    now = 0
    for block in liveness.blocks:
        start = now
        for argument in block.arguments:
            spans[argument] = [start, start + 1]
        for value in liveness.live_in[block]:
            spans[value][1] = max(spans[value][1], start)
        now += 1
        for view in block.operations:
            op = view.operation
            now += 1
            for operand in reads(op):
                spans[operand][1] = max(spans[operand][1], now)
            for result in () if op.name == "vm.test" else op.results:
                spans[result] = [now, now + 1]
        now += 1
        for value in liveness.live_out[block]:
            spans[value][1] = max(spans[value][1], now)
    return {value: (start, end) for value, (start, end) in spans.items()}


def _hints(liveness: Liveness) -> dict[ir.Value, list[ir.Value]]:
    """Pairs of values that should share a register: branch operands and block arguments."""
    hints: dict[ir.Value, list[ir.Value]] = {}
    for block in liveness.blocks:
        for successor, operands in edges(list(block.operations)[-1].operation):
            for operand, argument in zip(operands, successor.arguments, strict=True):
                hints.setdefault(operand, []).append(argument)
                hints.setdefault(argument, []).append(operand)
    return hints


def _is_ref(value: ir.Value) -> bool:
    return isinstance(value.type, vm.RefType)
