"""Which values control flow carries around a loop: how many objects that one operation makes live at the same time."""

from __future__ import annotations

from torch_mlir import ir

_HOLDERS = ("hal.buffer_subspan", "hal.view_create", "arith.select")  # their results hold on to their operands


def carriers(value: ir.Value) -> list[ir.Value]:
    """The block arguments by which objects that ``value`` was in earlier rounds of a loop may still be alive.

    A place for each of them and one more are enough for all objects that the operation behind ``value`` makes.
    """
    home = value.owner.operation.block
    return [a for a in _reached(value) if reaches(a.owner, home) and reaches(home, a.owner)]


def is_in_cycle(block: ir.Block) -> bool:
    """Whether control can come back to the block."""
    return any(reaches(successor, block) for successor in block.successors)


def reaches(start: ir.Block, end: ir.Block) -> bool:
    """Whether control can get from the start of one block to the start of another (true when they are the same)."""
    seen = {start}
    pending = [start]
    while pending:
        block = pending.pop()
        if block == end:
            return True
        for successor in block.successors:
            if successor not in seen:
                seen.add(successor)
                pending.append(successor)
    return False


def _reached(value: ir.Value) -> list[ir.Value]:
    """The block arguments that the value, or what holds on to it, is passed to, directly or through others."""
    found: list[ir.Value] = []
    pending = [value]
    seen = {value}
    while pending:
        for use in pending.pop().uses:
            user, number = use.owner.operation, use.operand_number
            if user.name in _HOLDERS:
                following = list(user.results)
            elif user.name.startswith("cf."):
                following = [_argument(user, number)]
                found += [a for a in following if a not in seen]
            else:
                continue
            pending += [v for v in following if v not in seen]
            seen.update(following)
    return found


def _argument(branch: ir.Operation, operand: int) -> ir.Value:
    """The block argument that an operand of a branch becomes."""
    if branch.name == "cf.br":
        return branch.successors[0].arguments[operand]
    _, first, _ = list(ir.DenseI32ArrayAttr(branch.attributes["operandSegmentSizes"]))
    if operand <= first:
        return branch.successors[0].arguments[operand - 1]
    return branch.successors[1].arguments[operand - 1 - first]
