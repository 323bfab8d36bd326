"""Lets a command overwrite memory whose content it is the last to need.

There are two cases. The copy before an update in place disappears when the original dies there. And a dispatch writes
its result over an argument of equal size where the kernel allows it (``may_alias``). Memory that another device reads
stays as it is, so that no device waits for another's reads.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rillet.dialects import stream
from rillet.ir import Program
from rillet.ir.rewrite import defining, int_constant


@dataclass(frozen=True)
class Options:
    """``reuse_arguments``: use ``may_alias``; copies in front of updates are dropped in any case."""

    reuse_arguments: bool = True


def run(program: Program, options: Options) -> None:
    """Merge allocations of ``@main``, block by block."""
    with program.context, ir.Location.unknown():
        for block in program.main().regions[0].blocks:
            _block(block, options)


def _block(block: ir.Block, options: Options) -> None:
    for op in [view.operation for view in block.operations]:
        for region in op.regions:
            for inner in region.blocks:
                _block(inner, options)
        if op.name == "stream.copy":
            target, source = stream.touches(op)
            if _mergeable(op, source, target):
                _merge(source.resource, target.resource)
                op.erase()
        elif op.name == "stream.dispatch" and options.reuse_arguments:
            _dispatch(op)


def _dispatch(op: ir.Operation) -> None:
    pairs = list(ir.DenseI64ArrayAttr(op.attributes["may_alias"]))
    touches = stream.touches(op)
    done: set[int] = set()
    for written, read in zip(pairs[::2], pairs[1::2], strict=True):
        if written in done or read in done:
            continue
        if _mergeable(op, touches[read], touches[written]):
            _merge(touches[read].resource, touches[written].resource)
            done |= {written, read}


def _mergeable(op: ir.Operation, source: stream.Touch, target: stream.Touch) -> bool:
    """Whether ``op`` is the last to need all of ``source``, and ``target`` is fresh memory of the same size."""
    old, new = _alloc_of(op, source), _alloc_of(op, target)
    if old is None or new is None or old == new or stream.device_of(old) != stream.device_of(new):
        return False
    if int_constant(source.offset) != 0 or int_constant(target.offset) != 0:
        return False
    sizes = (old.operands[0], new.operands[0], source.length, target.length)
    if len({_identity(size) for size in sizes}) != 1:
        return False
    for use in source.resource.uses:
        user = use.owner.operation
        if user == op:
            if use.operand_number != source.resource_operand:
                return False
        elif user.name not in (*stream.COMMANDS, "stream.load"):
            return False  # the memory may live on under another name
        elif op.is_before_in_block(_ancestor(op, user)) or _elsewhere(op, user):
            return False
    return all(
        op.is_before_in_block(_ancestor(op, use.owner.operation))
        for use in target.resource.uses
        if not (use.owner.operation == op and use.operand_number == target.resource_operand)
    )


def _elsewhere(op: ir.Operation, user: ir.Operation) -> bool:
    """Whether ``user`` is a command of another device than ``op``."""
    return user.name in stream.COMMANDS and stream.device_of(user) != stream.device_of(op)


def _alloc_of(op: ir.Operation, touch: stream.Touch) -> ir.Operation | None:
    """The allocation of a range in ``op``'s own block, if all its other uses are visible there."""
    alloc = defining(touch.resource, "stream.alloc")
    return alloc if alloc is not None and alloc.block == op.block else None


def _ancestor(op: ir.Operation, user: ir.Operation) -> ir.Operation:
    """The operation of ``op``'s block that holds ``user``."""
    while user.block != op.block:
        user = user.parent.operation
    return user


def _identity(value: ir.Value) -> object:
    constant = int_constant(value)
    return value if constant is None else constant


def _merge(keep: ir.Value, drop: ir.Value) -> None:
    kept, dropped = keep.owner.operation, drop.owner.operation
    if ir.StringAttr(dropped.attributes["lifetime"]).value == "external":
        kept.attributes["lifetime"] = dropped.attributes["lifetime"]
    drop.replace_all_uses_with(keep)
    dropped.erase()
