"""Makes updates of loop-carried memory happen in place.

A dispatch that updates a loop-carried tensor was given a copy of it. The copy is removed when the loop owns the memory:
the initial value and each value that the body yields for it must be an allocation that nothing else uses.
"""

from __future__ import annotations

from torch_mlir import ir

from rillet.dialects import stream
from rillet.ir import Program
from rillet.ir.rewrite import defining, int_constant
from rillet.schedule import host
from rillet.schedule.carried import Carried, carried


def run(program: Program, options: None) -> None:
    """Drop the copies of every loop of ``@main``, inner loops first."""
    with program.context, ir.Location.unknown():
        _visit(program.main())
        # A value that a loop passes on unchanged is known outside again.
        host.simplify(program)


def _visit(op: ir.Operation) -> None:
    for region in op.regions:
        for block in region.blocks:
            for inner in [view.operation for view in block.operations if len(view.operation.regions)]:
                _visit(inner)
    for value in carried(op):
        if isinstance(value.argument.type, stream.ResourceType):
            _drop_copy(op, value)


def _drop_copy(loop: ir.Operation, value: Carried) -> None:
    copy = _final_copy(value)
    if copy is None or not _owned(loop.operands[value.init], loop):
        return
    target = stream.touches(copy)[0].resource
    yielded = value.terminator.operands[value.yielded]
    # The copy's target may go round as the next value, or die here; it must not live on under another name.
    if _escapes(target) > (yielded == target) or not _owned(yielded, value.terminator):
        return
    if value.entry is not None and _escapes(value.entry) != 1:
        return
    target.replace_all_uses_with(value.argument)
    copy.erase()
    target.owner.operation.erase()


def _final_copy(value: Carried) -> ir.Operation | None:
    """The copy of all of the argument into fresh memory, when it is the last use of the argument."""
    copies = []
    for use in value.argument.uses:
        user = use.owner.operation
        if _escaping(user):
            return None
        if user.name == "stream.copy" and use.operand_number == 2 and user.block == value.terminator.block:
            copies.append(user)
    if len(copies) != 1:
        return None
    copy = copies[0]
    target, source = stream.touches(copy)
    owner = defining(target.resource, "stream.alloc")
    if owner is None or owner.operation.block != copy.block:
        return None
    whole = int_constant(source.offset) == 0 and int_constant(target.offset) == 0
    if not whole or not _same(owner.operands[0], target.length):
        return None
    for use in value.argument.uses:
        user = use.owner.operation
        while user.block != copy.block:
            user = user.parent.operation
        if copy.is_before_in_block(user):
            return None
    return copy


def _owned(resource: ir.Value, user: ir.Operation) -> bool:
    """Whether ``resource`` is memory that only ``user`` passes on, and that nothing in its block touches afterwards."""
    owner = defining(resource, "stream.alloc")
    if owner is None or owner.operation.block != user.block:
        return False
    if _escapes(resource) != 1:
        return False
    for use in resource.uses:
        other = use.owner.operation
        while other.block != user.block:
            other = other.parent.operation
        if user.is_before_in_block(other):
            return False
    return True


def _escapes(resource: ir.Value) -> int:
    """The number of uses that pass the memory on under another name."""
    return sum(_escaping(use.owner.operation) for use in resource.uses)


def _escaping(user: ir.Operation) -> bool:
    return user.name not in (*stream.COMMANDS, "stream.load")


def _same(a: ir.Value, b: ir.Value) -> bool:
    return a == b or (int_constant(a) is not None and int_constant(a) == int_constant(b))
