"""Decides which operations become one dispatch, and marks them: ``flow.region = n`` on each member.

Greedy, in program order: each elementwise operation, reduction or pad joins the groups that make its operands,
contractions first, as far as ``groups.worthwhile`` allows and no cycle between dispatches arises. Nothing is keyed on
what an operation was called.
"""

from __future__ import annotations

from torch_mlir import ir

from rillet.dispatch.groups import Edge, Group, Limits, edges_between, joined, worthwhile
from rillet.dispatch.nodes import Kind, Node, guards, host_blocks, node
from rillet.dispatch.padded_uses import redirect
from rillet.ir import Program
from rillet.ir.rewrite import defining
from rillet.ir.structured import reads

REGION = "flow.region"


def run(program: Program, limits: Limits) -> None:
    """Mark the members of each dispatch in ``@main`` and in its control flow."""
    number = 0
    with program.context, ir.Location.unknown():
        for block in host_blocks(program.main()):
            former = _Former(block, limits)
            groups = former.form()
            if redirect(former.group, former.producers, former.nodes):
                groups = _Former(block, limits).form()
            for group in groups:
                attribute = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)
                for member in group.nodes:
                    member.op.attributes[REGION] = attribute
                number += 1


class _Former:
    """Forms the groups of one block."""

    def __init__(self, block: ir.Block, limits: Limits) -> None:
        self.limits = limits
        self.operations = [op.operation for op in block.operations]
        self.position = {op: i for i, op in enumerate(self.operations)}
        self.nodes = {i: n for i, op in enumerate(self.operations) if (n := node(op, i)) is not None}
        self.producers = {v: n for n in self.nodes.values() for v in n.result_maps}
        self.predecessors = [
            [*self._predecessors(op), *([] if check is None else [self.position[check]])]
            for op, check in zip(self.operations, guards(self.operations), strict=True)
        ]
        self.group = {i: Group.of(n) for i, n in self.nodes.items()}

    def form(self) -> list[Group]:
        for index, member in self.nodes.items():
            if member.kind in (Kind.ELEMENTWISE, Kind.REDUCTION, Kind.PAD):
                for candidate in self._candidates(member):
                    self._join(candidate, self.group[index])
        return list(dict.fromkeys(self.group.values()))

    def _candidates(self, member: Node) -> list[Group]:
        """The groups that make the operands of ``member``: those with a contraction first, the latest first."""
        found = dict.fromkeys(
            self.group[p.index] for v, _ in member.operands if (p := self.producers.get(v)) is not None
        )
        return sorted(found, key=lambda g: (g.root() is None, -g.last))

    def _join(self, maker: Group, user: Group) -> None:
        if maker is user:
            return
        edges = list(edges_between(maker, user, self.producers))
        if not self._allowed(edges):
            return
        union = joined(maker, user, edges)
        if union is None or not worthwhile(union, edges, self.limits) or self._is_cyclic(union):
            return
        for member in union.nodes:
            self.group[member.index] = union

    def _allowed(self, edges: list[Edge]) -> bool:
        """A pad moves into the dispatch that makes its source only if nothing else reads the source."""
        pads = (edge for edge in edges if edge.consumer.kind is Kind.PAD)
        return all(len(list(edge.value.uses)) == 1 for edge in pads)

    def _is_cyclic(self, union: Group) -> bool:
        """Whether an operation outside the union both uses and feeds it."""
        members = {n.index for n in union.nodes}
        pending = [p for i in members for p in self.predecessors[i] if p not in members]
        seen = set()
        while pending:
            index = pending.pop()
            if index in members:
                return True
            group = self.group.get(index)
            last = group.last if group is not None else index
            if index in seen or last < union.first:
                continue
            reached = [n.index for n in group.nodes] if group is not None else [index]
            seen.update(reached)
            pending += [p for i in reached for p in self.predecessors[i]]
        return False

    def _predecessors(self, op: ir.Operation) -> list[int]:
        found = []
        for value in reads(op):
            owner = defining(value)
            if owner is not None and owner in self.position:
                found.append(self.position[owner])
        return found
