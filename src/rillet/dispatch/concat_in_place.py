"""Lets the dispatches that make the parts of a concatenation write them into place, so that nothing is copied.

``concat(a, b)`` becomes ``insert b (insert a (empty))``. Each insertion follows the op that makes its part and joins
that op's dispatch; the tensor is updated in place from one to the next. Concatenations whose results are concatenated
further (a densely connected block) share the memory of the last one. Each is the start of that memory, which its other
readers, all elementwise, read as a slice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from torch_mlir import ir

from rillet.dispatch.regions.groups import Group, outputs, reads_only_within
from rillet.dispatch.regions.nodes import Kind, Node, argument
from rillet.ir import builders, dtypes
from rillet.ir.extents import joined_axis
from rillet.ir.rewrite import users

_LEAST_BYTES = 16 * 1024  # a smaller one costs less to copy than making its parts one after the other


@dataclass(frozen=True)
class _Part:
    """``value`` lies at ``start`` of the concatenation's axis; it is written after its ``maker``, or before
    ``concat``."""

    value: ir.Value
    start: int
    maker: Node | None
    concat: Node

    @property
    def place(self) -> tuple[int, int]:
        return (self.concat.index, 0) if self.maker is None else (self.maker.index, 1)


@dataclass(frozen=True)
class _Shared:
    """A concatenation at the start of another's memory, and the last position at which it is read."""

    concat: Node
    last: int

    @property
    def place(self) -> tuple[int, int]:
        return (self.concat.index, 1)


@dataclass
class _Plan:
    concat: Node
    parts: list[_Part] = field(default_factory=list)
    shared: list[_Shared] = field(default_factory=list)

    @property
    def copies(self) -> int:
        """The number of parts that need a dispatch of their own to write them."""
        return sum(part.maker is None for part in self.parts)

    def is_consistent(self) -> bool:
        """Whether nothing overwrites a shared concatenation's memory between its making and its last reader.

        Otherwise the result would still be correct, but it would be copied.
        """
        return all(not s.place < p.place <= (s.last, 1) for s in self.shared for p in self.parts)


def place_parts(groups: Mapping[int, Group], producers: Mapping[ir.Value, Node], nodes: Mapping[int, Node]) -> bool:
    """Rewrite the concatenations of one block, given the groups formed until now. True when the block changed."""
    taken: set[Node] = set()
    plans = []
    for node in reversed(list(nodes.values())):
        if not _is_concat(node) or node in taken or node.op.results[0] not in outputs(groups[node.index]):
            continue
        plan = _Planner(groups, producers, nodes, share=True).plan(node)
        if not plan.is_consistent():
            plan = _Planner(groups, producers, nodes, share=False).plan(node)
        if plan.copies <= 1 < len(plan.parts):  # adds no dispatch
            plans.append(plan)
            taken.update(s.concat for s in plan.shared)
    for plan in plans:
        with plan.concat.op.location:
            _rewrite(plan)
    return bool(plans)


class _Planner:
    def __init__(
        self,
        groups: Mapping[int, Group],
        producers: Mapping[ir.Value, Node],
        nodes: Mapping[int, Node],
        *,
        share: bool,
    ) -> None:
        self.groups = groups
        self.producers = producers
        self.by_op = {n.op: n for n in nodes.values()}
        self.share = share
        self.writers: set[Group] = set()  # a dispatch writes one part only

    def plan(self, concat: Node) -> _Plan:
        plan = _Plan(concat)
        self._add(plan, concat)
        return plan

    def _add(self, plan: _Plan, concat: Node) -> None:
        for value, start in _operands(concat.op):
            maker = self.producers.get(value)
            last = self._last_reader(concat, maker) if maker is not None and start == 0 else None
            if maker is not None and last is not None:
                self._add(plan, maker)
                plan.shared.append(_Shared(maker, last))
            else:
                writer = maker if maker is not None and self._can_write(value, maker, concat) else None
                plan.parts.append(_Part(value, start, writer, concat))

    def _can_write(self, value: ir.Value, maker: Node, concat: Node) -> bool:
        """Whether the dispatch that makes ``value``, which no other dispatch reads, can write it elsewhere."""
        group = self.groups[maker.index]
        if group in self.writers or not reads_only_within(value, concat.op, group):
            return False
        if any(n.kind not in (Kind.ROOT, Kind.ELEMENTWISE) for n in group.nodes):
            return False
        self.writers.add(group)
        return True

    def _last_reader(self, outer: Node, inner: Node) -> int | None:
        """The position of the last reader of ``inner``, the first part of ``outer``; None if it cannot be the start of
        its memory."""
        value = inner.op.results[0]
        if not self.share or not _is_concat(inner) or joined_axis(inner.op) != joined_axis(outer.op):
            return None
        readers = [self.by_op.get(op) for op in users(value) if op != outer.op]
        if list(outer.op.operands).count(value) != 1:
            return None
        if any(n is None or n.kind is not Kind.ELEMENTWISE for n in readers):
            return None
        return max((n.index for n in readers if n is not None), default=inner.index)


def _is_concat(node: Node) -> bool:
    if node.op.name != "tensor.concat":
        return False
    tensor = ir.RankedTensorType(node.op.results[0].type)
    parts = [ir.RankedTensorType(v.type) for v in node.op.operands]
    if not all(t.has_static_shape for t in (tensor, *parts)):
        return False
    return math.prod(tensor.shape) * dtypes.storage_bytes(tensor.element_type) >= _LEAST_BYTES


def _operands(op: ir.Operation) -> Iterator[tuple[ir.Value, int]]:
    """The parts and where they start."""
    start = 0
    for value in op.operands:
        yield value, start
        start += ir.RankedTensorType(value.type).shape[joined_axis(op)]


def _rewrite(plan: _Plan) -> None:
    op = plan.concat.op
    axis, type_ = joined_axis(op), ir.RankedTensorType(op.results[0].type)
    steps: list[_Part | _Shared] = [*plan.parts, *plan.shared]
    steps.sort(key=lambda step: step.place)
    with ir.InsertionPoint(_anchor(steps[0])):
        whole = builders.empty(list(type_.shape), type_.element_type)
    for step in steps:
        anchor = _anchor(step)
        if isinstance(step, _Shared):
            with ir.InsertionPoint(anchor):
                _read_start(anchor.results[0], whole)
            continue
        with ir.InsertionPoint(anchor):
            shape = list(ir.RankedTensorType(step.value.type).shape)
            start = argument(step.start) if step.start else 0
            offsets = [start if a == axis else 0 for a in range(len(shape))]
            # As an argument, so that one kernel makes parts that differ only in their place.
            whole = builders.insert_slice(step.value, whole, offsets, shape, [1] * len(shape))
        if step.maker is not None:
            whole.owner.operation.move_after(anchor)
    op.results[0].replace_all_uses_with(whole)
    op.erase()
    for shared in reversed(plan.shared):
        shared.concat.op.erase()


def _anchor(step: _Part | _Shared) -> ir.Operation:
    if isinstance(step, _Part) and step.maker is not None:
        return step.maker.op
    return step.concat.op


def _read_start(old: ir.Value, whole: ir.Value) -> None:
    """Make the readers of ``old`` read the start of ``whole``."""
    shape = list(ir.RankedTensorType(old.type).shape)
    old.replace_all_uses_with(builders.extract_slice(whole, [0] * len(shape), shape, [1] * len(shape)))
