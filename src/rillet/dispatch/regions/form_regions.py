"""Decides which operations become one dispatch, and marks them: ``flow.region = n`` on each member.

Greedy, in program order: each elementwise operation, reduction or pad joins the groups that make its operands,
contractions first, as far as ``groups.worthwhile`` allows and no cycle between dispatches arises. The names of the
model's nodes do not matter.
"""

from __future__ import annotations

from torch_mlir import ir

from rillet.dialects import flow
from rillet.dispatch.concat_in_place import place_parts
from rillet.dispatch.packing import winograd
from rillet.dispatch.regions import unread_padding
from rillet.dispatch.regions.chains import Graph, chain_from
from rillet.dispatch.regions.groups import Edge, Group, Limits, edges_between, joined, reads_only_within, worthwhile
from rillet.dispatch.regions.nodes import Kind, Node, guards, host_blocks, node
from rillet.dispatch.regions.padded_uses import redirect
from rillet.ir import Program
from rillet.ir.rewrite import defining
from rillet.ir.structured import reads

_CHECKED_RUN = 4  # elements; shorter runs are not worth a check for each


def run(program: Program, limits: Limits) -> None:
    """Mark the members of each dispatch in ``@main`` and in its control flow."""
    number = 0
    with program.context, ir.Location.unknown():
        for block in host_blocks(program.main()):
            former = _Former(program, block, limits)
            groups = former.form()
            for rewrite in (redirect, place_parts):
                if rewrite(former.group, former.producers, former.nodes):
                    former = _Former(program, block, limits)
                    groups = former.form()
            if limits.scratch:
                groups = former.chain()
            for group in groups:
                attribute = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)
                for member in group.nodes:
                    member.op.attributes[flow.REGION] = attribute
                number += 1


class _Former:
    """Forms the groups of one block."""

    def __init__(self, program: Program, block: ir.Block, limits: Limits) -> None:
        self.program = program
        self.limits = limits
        self.operations = [op.operation for op in block.operations]
        self.position = {op: i for i, op in enumerate(self.operations)}
        self.nodes = {i: n for i, op in enumerate(self.operations) if (n := node(op, i)) is not None}
        self.producers = {v: n for n in self.nodes.values() for v in n.result_maps}
        self.consumers: dict[ir.Value, dict[Node, None]] = {}
        for member in self.nodes.values():
            for value, _ in member.operands:
                self.consumers.setdefault(value, {})[member] = None
        self.predecessors = [
            [*self._predecessors(op), *([] if check is None else [self.position[check]])]
            for op, check in zip(self.operations, guards(self.operations), strict=True)
        ]
        self.group = {i: Group.of(n) for i, n in self.nodes.items()}

    def form(self) -> list[Group]:
        read_padded = self._read_padded()
        # Insertions come last: they join if all other readers of the inserted tensor have.
        for kinds in ((Kind.ELEMENTWISE, Kind.REDUCTION, Kind.PAD), (Kind.INSERT,)):
            for index, member in self.nodes.items():
                if index not in read_padded and member.kind in kinds:
                    for candidate in self._candidates(member):
                        self._join(candidate, self.group[index])
        for pad, reader in read_padded.items():
            # The pad only feeds its reader, so no cycle can arise. It has no rows of its own.
            alone = self.group[pad].with_rows({self.nodes[pad]: (None,) * self.nodes[pad].loops})
            union = self.group[reader].merged(alone)
            for node_ in union.nodes:
                self.group[node_.index] = union
        return list(dict.fromkeys(self.group.values()))

    def chain(self) -> list[Group]:
        """Make one group of each chain of groups; members are marked with their stage."""
        graph = Graph(self.producers, self.consumers, self.group)
        for group in list(dict.fromkeys(self.group.values())):
            if self.group[group.first] is not group:
                continue
            chain = chain_from(group, graph, self.limits.scratch)
            if chain is None:
                continue
            i64 = ir.IntegerType.get_signless(64)
            for number, stage in enumerate(chain.stages):
                for member in stage.nodes:
                    member.op.attributes[flow.STAGE] = ir.IntegerAttr.get(i64, number)
                    self.group[member.index] = chain.whole
            for value, axis in chain.long.items():
                self.producers[value].op.attributes[flow.LONG] = ir.IntegerAttr.get(i64, axis)
        return list(dict.fromkeys(self.group.values()))

    def _read_padded(self) -> dict[int, int]:
        """The pads that join the dispatch of their only reader, by position, and that reader.

        The reader must have whole runs of elements between two checks: only outer axes are padded. Unless memory use is
        to be small, it must be depthwise, or skip enough of the padding for it to pay.
        """
        found = {}
        for index, member in self.nodes.items():
            if member.kind is not Kind.PAD:
                continue
            source = ir.RankedTensorType(member.op.operands[0].type)
            result = ir.RankedTensorType(member.op.results[0].type)
            readers = {u.owner.operation for u in member.op.results[0].uses}
            positions = [self.position.get(op) for op in readers]
            if len(positions) != 1 or positions[0] is None or not source.has_static_shape:
                continue
            reader = self.nodes.get(positions[0])
            whole = source.shape[-1] == result.shape[-1] >= _CHECKED_RUN
            if not whole or reader is None or reader.kind is not Kind.ROOT or reader.view is None:
                continue
            at_no_cost = self.limits.compact or unread_padding.is_depthwise(member.op, reader.view)
            if not at_no_cost and not unread_padding.pays(member.op, reader.view):
                continue
            if self.limits.transforms and winograd.gains(reader.view, self.limits.transforms):
                continue
            adds_nothing = unread_padding.adds_nothing(self.program, member.op, reader.view)
            if adds_nothing:
                member.op.attributes[flow.ADDS_NOTHING] = ir.UnitAttr.get()
            if at_no_cost or adds_nothing:
                found[index] = positions[0]
        return found

    def _candidates(self, member: Node) -> list[Group]:
        """The groups that make the operands of ``member``: those with a contraction first, the latest first."""
        found = dict.fromkeys(
            self.group[p.index] for v, _ in member.operands if (p := self.producers.get(v)) is not None
        )
        return sorted(found, key=lambda g: (g.root() is None, -g.last))

    def _join(self, maker: Group, user: Group) -> None:
        if maker is user:
            return
        edges = edges_between(maker, user, self.producers, self.consumers)
        if not self._allowed(edges, maker):
            return
        union = joined(maker, user, edges)
        if union is None or not worthwhile(union, edges, self.limits) or self._is_cyclic(maker, user):
            return
        for member in union.nodes:
            self.group[member.index] = union

    def _allowed(self, edges: list[Edge], maker: Group) -> bool:
        """Whether a pad's source, or an inserted tensor, has no other readers. A pad may join the dispatch that makes
        its source only then; an insertion, if no op outside that dispatch reads it."""
        for edge in edges:
            if edge.consumer.kind is Kind.PAD and len(list(edge.value.uses)) > 1:
                return False
            if edge.consumer.kind is Kind.INSERT and not reads_only_within(edge.value, edge.consumer.op, maker):
                return False
        return True

    def _is_cyclic(self, maker: Group, user: Group) -> bool:
        """Whether an op outside both is fed by ``maker`` and feeds ``user``; the reverse cannot be."""
        first = min(maker.first, user.first)
        pending = [p for n in user.nodes for p in self.predecessors[n.index] if self.group.get(p) not in (maker, user)]
        seen = set()
        while pending:
            index = pending.pop()
            group = self.group.get(index)
            if group is maker:
                return True
            last = group.last if group is not None else index
            if index in seen or last < first:
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
