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
            _Merger(block, options).run()


@dataclass(frozen=True)
class _Uses:
    """Of an allocation: the positions in its block of its first and last use, the devices of its commands, and whether
    all uses are commands and loads, so that the memory does not live on under another name."""

    first: int
    last: int
    devices: frozenset[int]
    is_plain: bool

    def joined(self, other: _Uses) -> _Uses:
        return _Uses(
            min(self.first, other.first),
            max(self.last, other.last),
            self.devices | other.devices,
            self.is_plain and other.is_plain,
        )


class _Merger:
    """Merges the allocations of one block. What is known of their uses is kept, since a tensor that is updated in
    place a thousand times has that many."""

    def __init__(self, block: ir.Block, options: Options) -> None:
        self.operations = [view.operation for view in block.operations]
        self.position = {op: i for i, op in enumerate(self.operations)}
        self.options = options
        self.uses: dict[ir.Value, _Uses] = {}

    def run(self) -> None:
        for op in self.operations:
            for region in op.regions:
                for inner in region.blocks:
                    _Merger(inner, self.options).run()
            if op.name == "stream.copy":
                target, source = stream.touches(op)
                if self._mergeable(op, source, target):
                    self._merge(source.resource, target.resource)
                    op.erase()
            elif op.name == "stream.dispatch" and self.options.reuse_arguments:
                self._dispatch(op)

    def _dispatch(self, op: ir.Operation) -> None:
        pairs = list(ir.DenseI64ArrayAttr(op.attributes["may_alias"]))
        touches = stream.touches(op)
        done: set[int] = set()
        for written, read in zip(pairs[::2], pairs[1::2], strict=True):
            if written in done or read in done:
                continue
            if self._mergeable(op, touches[read], touches[written]):
                self._merge(touches[read].resource, touches[written].resource)
                done |= {written, read}

    def _mergeable(self, op: ir.Operation, source: stream.Touch, target: stream.Touch) -> bool:
        """Whether ``op`` is the last to need all of ``source``, and ``target`` is fresh memory of the same size."""
        old, new = _alloc_of(op, source), _alloc_of(op, target)
        if old is None or new is None or old == new or stream.device_of(old) != stream.device_of(new):
            return False
        if int_constant(source.offset) != 0 or int_constant(target.offset) != 0:
            return False
        sizes = (old.operands[0], new.operands[0], source.length, target.length)
        if len({_identity(size) for size in sizes}) != 1:
            return False
        if any(list(op.operands).count(touch.resource) != 1 for touch in (source, target)):
            return False
        read, written, now = self._uses_of(source.resource), self._uses_of(target.resource), self.position[op]
        is_last = read.is_plain and read.last == now and read.devices == {stream.device_of(op)}
        return is_last and written.first == now

    def _uses_of(self, resource: ir.Value) -> _Uses:
        if resource not in self.uses:
            users = [use.owner.operation for use in resource.uses]
            positions = [self._position(user) for user in users]
            self.uses[resource] = _Uses(
                min(positions),
                max(positions),
                frozenset(stream.device_of(user) for user in users if user.name in stream.COMMANDS),
                all(user.name in (*stream.COMMANDS, "stream.load") for user in users),
            )
        return self.uses[resource]

    def _position(self, user: ir.Operation) -> int:
        """The position of the operation of this block that is ``user`` or holds it."""
        while user not in self.position:
            user = user.parent.operation
        return self.position[user]

    def _merge(self, keep: ir.Value, drop: ir.Value) -> None:
        kept, dropped = keep.owner.operation, drop.owner.operation
        if ir.StringAttr(dropped.attributes["lifetime"]).value == "external":
            kept.attributes["lifetime"] = dropped.attributes["lifetime"]
        self.uses[keep] = self.uses[keep].joined(self.uses.pop(drop))
        drop.replace_all_uses_with(keep)
        del self.position[dropped]
        dropped.erase()


def _alloc_of(op: ir.Operation, touch: stream.Touch) -> ir.Operation | None:
    """The allocation of a range in ``op``'s own block, if all its other uses are visible there."""
    alloc = defining(touch.resource, "stream.alloc")
    return alloc if alloc is not None and alloc.block == op.block else None


def _identity(value: ir.Value) -> object:
    constant = int_constant(value)
    return value if constant is None else constant
