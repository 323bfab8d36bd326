"""Loop-carried values: the connection between an operand of a loop, its body's argument and the value that it
yields."""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir


@dataclass(frozen=True)
class Carried:
    """One loop-carried value.

    ``init``: operand number of the loop; ``argument``: of the block that yields; ``yielded``: operand number of that
    block's terminator; ``entry``: the argument of a while loop's condition block.
    """

    init: int
    argument: ir.Value
    terminator: ir.Operation
    yielded: int
    entry: ir.Value | None = None


def carried(loop: ir.Operation) -> list[Carried]:
    """The values that ``loop`` carries from one iteration to the next; empty when ``loop`` is no loop.

    A while loop's condition block must pass an argument on as it is, or it is not listed.
    """
    if loop.name == "scf.for":
        body = loop.regions[0].blocks[0]
        terminator = list(body.operations)[-1].operation
        # Operands: lower bound, upper bound, step, initial values. Arguments: induction variable, carried values.
        return [Carried(3 + i, argument, terminator, i) for i, argument in enumerate(list(body.arguments)[1:])]
    if loop.name != "scf.while":
        return []
    before, body = (region.blocks[0] for region in loop.regions)
    condition, terminator = (list(block.operations)[-1].operation for block in (before, body))
    found = []
    entries = list(before.arguments)
    for argument, passed in zip(body.arguments, list(condition.operands)[1:], strict=True):
        if passed in entries:
            i = entries.index(passed)
            found.append(Carried(i, argument, terminator, i, passed))
    return found
