"""Groups of operations that become one dispatch, and when two of them may be one.

Rows. A group runs as a grid of independent *rows*: loops that every member has, as parallel loops, and that every value
passed inside the group is indexed by on both sides. Two groups are joined along the values that pass between them; the
rows of the union are the pairs of rows that every such value links. So a softmax (a maximum, an exponential, a sum, a
quotient) keeps the loops around the reduced one as rows, and nothing needs to know that it is a softmax. What a row
computes from another row's values is never fused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch_mlir import ir

from rillet.dispatch.nodes import Kind, Node
from rillet.ir.structured import Map

Row = int


@dataclass(frozen=True)
class Limits:
    """Bounds on a group, so that kernels stay small. ``small`` is the number of points below which parallelism does not
    matter.
    """

    nodes: int = 64
    chain_cost: int = 512  # scalar operations, for groups that are elementwise only
    inputs: int = 16
    outputs: int = 8
    small: int = 4096
    compact: bool = False  # prefer less memory: padded tensors are not made, their readers bound-check instead


@dataclass(eq=False)
class Group:
    """Members in block order; for each its loops' rows, None for a loop that is no row."""

    nodes: list[Node]
    rows: dict[Node, tuple[Row | None, ...]]

    @staticmethod
    def of(node: Node) -> Group:
        """The group of one node: every parallel loop is a row."""
        rows = tuple(i if parallel else None for i, parallel in enumerate(node.parallel))
        return Group([node], {node: rows})

    @property
    def first(self) -> int:
        return self.nodes[0].index

    @property
    def last(self) -> int:
        return self.nodes[-1].index

    def root(self) -> Node | None:
        return next((n for n in self.nodes if n.kind is Kind.ROOT), None)

    def has(self, kind: Kind) -> bool:
        return any(n.kind is kind for n in self.nodes)

    def all_rows(self) -> set[Row]:
        return {r for r in self.rows[self.nodes[0]] if r is not None}


@dataclass(frozen=True)
class Edge:
    """A value that ``producer`` makes and ``consumer`` reads through ``map`` (None: at arbitrary positions)."""

    producer: Node
    value: ir.Value
    consumer: Node
    map: Map | None


def joined(a: Group, b: Group, edges: list[Edge]) -> Group | None:
    """The union of two groups, with its rows; None when a value is read at arbitrary positions."""
    links: set[tuple[Row, Row]] | None = None
    for edge in edges:
        if edge.map is None:
            return None
        forward = edge.producer in a.rows
        produced = (a if forward else b).rows[edge.producer]
        consumed = (b if forward else a).rows[edge.consumer]
        pairs = set()
        for made, read in zip(edge.producer.result_maps[edge.value], edge.map, strict=True):
            if not isinstance(made, int) or not isinstance(read, int):
                continue
            x, y = produced[made], consumed[read]
            if x is not None and y is not None:
                pairs.add((x, y) if forward else (y, x))
        links = pairs if links is None else links & pairs
    ordered = sorted(links or ())
    if len({x for x, _ in ordered}) != len(ordered) or len({y for _, y in ordered}) != len(ordered):
        return None
    # Rows keep the numbers they have in ``a``.
    of_a = {x: x for x, _ in ordered}
    of_b = {y: x for x, y in ordered}
    rows = a.rows if len(of_a) == len(a.all_rows()) else _renumbered(a, of_a)
    rows = rows | _renumbered(b, of_b)
    return Group(sorted(a.nodes + b.nodes, key=lambda n: n.index), rows)


def _renumbered(group: Group, new: dict[Row, Row]) -> dict[Node, tuple[Row | None, ...]]:
    return {n: tuple(None if r is None else new.get(r) for r in loops) for n, loops in group.rows.items()}


def worthwhile(group: Group, edges: list[Edge], limits: Limits) -> bool:
    """Whether a union keeps its parallelism, computes nothing twice, and stays within the limits."""
    if any(e.consumer.kind is Kind.ROOT for e in edges):
        return False
    ends = (Kind.PAD, Kind.INSERT, Kind.SOLO)
    if any(e.producer.kind in ends or e.consumer.kind is Kind.SOLO for e in edges):
        return False
    if not _updates_alone(group):
        return False
    if not _within(group, limits):
        return False
    if group.has(Kind.MOVE) and not all(n.kind in (Kind.MOVE, Kind.ELEMENTWISE) for n in group.nodes):
        return False
    roots = sum(n.kind is Kind.ROOT for n in group.nodes)
    has_reduction = group.has(Kind.REDUCTION)
    if roots > 1 or (roots and has_reduction):
        return False
    if not has_reduction:
        return all(_keeps_rows(n, group) for n in group.nodes)
    if group.has(Kind.PAD) or group.has(Kind.INSERT):
        return False
    if all(n.size is not None and n.size <= limits.small for n in group.nodes):
        return True
    if not all(_keeps_rows(n, group) for n in group.nodes if n.kind is Kind.REDUCTION):
        return False
    return all(_keeps_rows(n, group) or _shares_data(n, group) for n in group.nodes if n.kind is Kind.ELEMENTWISE)


def _updates_alone(group: Group) -> bool:
    """Nothing in the group reads a tensor that an insertion of it updates in place."""
    for node in group.nodes:
        if node.kind is Kind.INSERT:
            destination = node.op.operands[1]
            if any(v == destination for n in group.nodes if n is not node for v, _ in n.operands):
                return False
    return True


def _within(group: Group, limits: Limits) -> bool:
    simple = all(n.kind is Kind.ELEMENTWISE for n in group.nodes)
    if simple and sum(n.cost for n in group.nodes) > limits.chain_cost:
        return False
    if not simple and len(group.nodes) > limits.nodes:
        return False
    made = {v for n in group.nodes for v in n.result_maps}
    read = {v for n in group.nodes for v, _ in n.operands}
    return len(read - made) <= limits.inputs and len(outputs(group)) <= limits.outputs


def outputs(group: Group) -> list[ir.Value]:
    """The values of the group that something outside of it uses."""
    members = {n.op for n in group.nodes}
    return [v for n in group.nodes for v in n.result_maps if any(_top(u.owner, n.op) not in members for u in v.uses)]


def reads_only_within(value: ir.Value, reader: ir.Operation, group: Group) -> bool:
    """Whether ``reader``, once, and members of ``group`` are all that reads ``value``."""
    members = {n.op for n in group.nodes}
    readers = [_top(use.owner, reader) for use in value.uses]
    return readers.count(reader) == 1 and all(op == reader or op in members for op in readers)


def _top(user: ir.OpView | ir.Operation, sibling: ir.Operation) -> ir.Operation:
    """The operation in the block of ``sibling`` that ``user`` is or is nested in."""
    operation = user.operation
    while operation.block != sibling.block:
        operation = operation.parent.operation
    return operation


def _keeps_rows(node: Node, group: Group) -> bool:
    """Every parallel loop of the node is a row of the group."""
    return all(row is not None for row, parallel in zip(group.rows[node], node.parallel, strict=True) if parallel)


def _shares_data(node: Node, group: Group) -> bool:
    """The node shares a tensor with inner loops with another member: makes it, takes it, or reads it too."""
    others = [n for n in group.nodes if n is not node]
    made = {v for n in others for v in n.result_maps}
    read = {v for n in others for v, _ in n.operands}
    inner = {i for i, row in enumerate(group.rows[node]) if row is None}
    if any(v in read for v in node.result_maps):
        return True
    return any(map_ is not None and inner & set(map_) and (v in made or v in read) for v, map_ in node.operands)


def edges_between(a: Group, b: Group, producers: dict[ir.Value, Node]) -> Iterator[Edge]:
    """The values passed between two groups, either way."""
    for consumers, makers in ((b, a), (a, b)):
        for node in consumers.nodes:
            for value, map_ in node.operands:
                producer = producers.get(value)
                if producer is not None and producer in makers.rows:
                    yield Edge(producer, value, node, map_)
