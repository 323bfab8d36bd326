"""Groups of operations that become one dispatch, and when two of them may be one.

A group runs as a grid of independent *rows*. Rows are loops that every member has as parallel loops, and that index
every value passed inside the group on both sides. Two groups are joined along the values that pass between them; the
rows of the union are the pairs of rows that every such value links. So a softmax (a maximum, an exponential, a sum, a
quotient) keeps the loops around the reduced one as rows, and the code need not know that it is a softmax. A value that
a row computes from another row's values is never fused.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torch_mlir import ir

from rillet.dispatch.packing import winograd
from rillet.dispatch.regions.nodes import Kind, Node, is_source
from rillet.ir.rewrite import defining
from rillet.ir.structured import DYNAMIC, Map

Row = int
_SQUARE = 8  # elements: shorter axes make no square tiles of vectors


@dataclass(frozen=True)
class Limits:
    """Bounds on a group, so that kernels stay small. Below ``small`` points parallelism does not matter."""

    nodes: int = 64
    chain_cost: int = 512  # scalar operations, for groups that are elementwise only
    inputs: int = 16
    outputs: int = 8
    small: int = 4096
    turned: int = 1024  # points; fewer are transposed where they are computed, which saves a dispatch
    scratch: int = 0  # bytes that a worker may keep between the stages of a chain; 0: no chains
    compact: bool = False  # prefer less memory: padded tensors are not made, their readers bound-check instead
    transforms: winograd.Options | None = None  # convolutions that read transformed weights, and no padding; or none


Rows = dict[Node, tuple[Row | None, ...]]


@dataclass(eq=False)
class Group:
    """Members in block order, and for each its loops' rows (None for a loop that is no row).

    The values that the limits need are kept, since a group is examined again with each member that it gets.
    """

    nodes: list[Node]
    rows: Rows
    cost: int
    kinds: frozenset[Kind]
    operations: frozenset[ir.Operation]
    made: frozenset[ir.Value]
    taken: frozenset[ir.Value]  # read here, made elsewhere
    given: tuple[ir.Value, ...]  # made here, read elsewhere
    loose: tuple[Node, ...]  # members with a parallel loop that is no row

    @staticmethod
    def of(node: Node) -> Group:
        """The group of one node: every parallel loop is a row."""
        rows = tuple(i if parallel else None for i, parallel in enumerate(node.parallel))
        operations = frozenset((node.op,))
        return Group(
            nodes=[node],
            rows={node: rows},
            cost=node.cost,
            kinds=frozenset((node.kind,)),
            operations=operations,
            made=frozenset(node.result_maps),
            taken=frozenset(v for v, _ in node.operands if not is_source(defining(v))),
            given=tuple(v for v in node.result_maps if _leaves(v, operations)),
            loose=(),
        )

    def with_rows(self, rows: Rows) -> Group:
        """The same members with other rows."""
        return dataclasses.replace(self, rows=rows, loose=tuple(_loose(rows)))

    def merged(self, other: Group) -> Group:
        """The members of both, whose rows have the same numbers."""
        operations = self.operations | other.operations
        return Group(
            nodes=sorted(self.nodes + other.nodes, key=operator.attrgetter("index")),
            rows=self.rows | other.rows,
            cost=self.cost + other.cost,
            kinds=self.kinds | other.kinds,
            operations=operations,
            made=self.made | other.made,
            taken=(self.taken - other.made) | (other.taken - self.made),
            given=tuple(v for v in (*self.given, *other.given) if _leaves(v, operations)),
            loose=self.loose + other.loose,
        )

    @property
    def first(self) -> int:
        """The index of the first node, in program order."""
        return self.nodes[0].index

    @property
    def last(self) -> int:
        """The index of the last node, in program order."""
        return self.nodes[-1].index

    def root(self) -> Node | None:
        """The first node that is a root, or None."""
        return next((n for n in self.nodes if n.kind is Kind.ROOT), None) if Kind.ROOT in self.kinds else None

    def all_rows(self) -> set[Row]:
        """The rows that the first node runs over."""
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
    if len(of_a) < len(a.all_rows()):
        a = a.with_rows(_renumbered(a, of_a))
    return a.merged(b.with_rows(_renumbered(b, of_b)))


def _renumbered(group: Group, new: Mapping[Row, Row]) -> Rows:
    return {n: tuple(None if r is None else new.get(r) for r in loops) for n, loops in group.rows.items()}


def worthwhile(group: Group, edges: list[Edge], limits: Limits) -> bool:
    """Whether a union keeps its parallelism, computes nothing twice, and stays within the limits."""
    if any(e.consumer.kind is Kind.ROOT for e in edges):
        return False
    ends = (Kind.PAD, Kind.INSERT, Kind.SOLO)
    if any(e.producer.kind in ends or e.consumer.kind is Kind.SOLO for e in edges):
        return False
    if not _updates_alone(group) or (not limits.compact and _turns_while_computing(group, edges, limits)):
        return False
    if not _within(group, limits):
        return False
    if Kind.MOVE in group.kinds and not group.kinds <= {Kind.MOVE, Kind.ELEMENTWISE}:
        return False
    has_reduction = Kind.REDUCTION in group.kinds
    if Kind.ROOT in group.kinds and (has_reduction or not _gives_from_root(group)):
        return False
    if not has_reduction:
        return not group.loose
    if Kind.PAD in group.kinds or Kind.INSERT in group.kinds:
        return False
    if all(n.size is not None and n.size <= limits.small for n in group.nodes):
        return True
    if any(n.kind is Kind.REDUCTION for n in group.loose) or not _reads_by_rows(group):
        return False
    return all(_shares_data(n, group) for n in group.loose if n.kind is Kind.ELEMENTWISE)


def _gives_from_root(group: Group) -> bool:
    """Whether the group has one root, and all its outputs are computed from that.

    Code generation follows the root's result: for any other output it would have to leave the register tiles.
    """
    root, *more = (n for n in group.nodes if n.kind is Kind.ROOT)
    known = set(root.result_maps)
    for node in group.nodes:
        if any(v in known for v, _ in node.operands):
            known.update(node.result_maps)
    return not more and all(v in known for v in group.given)


def _turns_while_computing(group: Group, edges: list[Edge], limits: Limits) -> bool:
    """Whether the union would compute windows, contractions or rows along another axis than that along which its inputs
    or outputs are contiguous.

    Transpositions go by square tiles in registers, through memory that is contiguous along one axis on each side. A
    contraction has its results in registers along one axis. It would store them element by element along the other,
    which costs ten times as much as writing them and transposing them afterwards.
    """
    computes = Kind.ROOT in group.kinds or any(n.view is not None and n.view.is_windowed for n in group.nodes)
    for edge in edges:
        if computes and _turns(edge.consumer, edge.value, edge.map, limits):
            return True
        if edge.consumer.kind is Kind.REDUCTION:
            first = edge.producer
            if any(v in group.taken and _turns(first, v, map_, limits) for v, map_ in first.operands):
                return True
    return False


def _turns(node: Node, value: ir.Value, map_: Map | None, limits: Limits) -> bool:
    """Whether an elementwise operation reads ``value`` along another axis than that of its result, both axes long
    enough for square tiles."""
    if node.kind is not Kind.ELEMENTWISE or map_ is None or (node.size or limits.turned) < limits.turned:
        return False
    shape = ir.RankedTensorType(value.type).shape
    read = [loop for loop, extent in zip(map_, shape, strict=True) if extent != 1]
    made = [loop for loop in next(iter(node.result_maps.values())) if node.extents[loop] != 1]  # type: ignore[index]
    if not read or not made or read[-1] == made[-1] or not isinstance(read[-1], int) or made[-1] not in read:
        return False
    return all(node.extents[loop] == DYNAMIC or node.extents[loop] >= _SQUARE for loop in (read[-1], made[-1]))  # type: ignore[index]


def _reads_by_rows(group: Group) -> bool:
    """Whether each axis of an input tensor is indexed by the same row, or by none, in all its readers.

    Code generation knows rows by the axes that they index. A matrix that is read by rows here and by columns there
    leaves no row: the kernel would keep whole intermediates, whose size must be known, and run on one worker.
    """
    found: dict[tuple[ir.Value, int], Row | None] = {}
    for node in group.nodes:
        rows = group.rows[node]
        for value, map_ in node.operands:
            if map_ is None or value not in group.taken:
                continue
            for axis, loop in enumerate(map_):
                if isinstance(loop, int) and found.setdefault((value, axis), rows[loop]) != rows[loop]:
                    return False
    return True


def _updates_alone(group: Group) -> bool:
    """Whether no member reads a tensor that an insertion of the group updates in place."""
    if Kind.INSERT not in group.kinds:
        return True
    for node in group.nodes:
        if node.kind is Kind.INSERT:
            destination = node.op.operands[1]
            if any(v == destination for n in group.nodes if n is not node for v, _ in n.operands):
                return False
    return True


def _within(group: Group, limits: Limits) -> bool:
    simple = group.kinds == {Kind.ELEMENTWISE}
    if simple and group.cost > limits.chain_cost:
        return False
    if not simple and len(group.nodes) > limits.nodes:
        return False
    return len(group.taken) <= limits.inputs and len(group.given) <= limits.outputs


def outputs(group: Group) -> list[ir.Value]:
    """The group's values that ops outside it use, as the block is now."""
    return [v for n in group.nodes for v in n.result_maps if _leaves(v, group.operations)]


def _leaves(value: ir.Value, members: frozenset[ir.Operation]) -> bool:
    """Whether an op outside ``members`` uses a value of one of them."""
    maker = value.owner.operation  # type: ignore[union-attr]
    return any(_top(u.owner, maker) not in members for u in value.uses)


def reads_only_within(value: ir.Value, reader: ir.Operation, group: Group) -> bool:
    """Whether only ``reader``, once, and members of ``group`` read ``value``."""
    readers = [_top(use.owner, reader) for use in value.uses]
    return readers.count(reader) == 1 and all(op == reader or op in group.operations for op in readers)


def _top(user: ir.OpView | ir.Operation, sibling: ir.Operation) -> ir.Operation:
    """The operation in ``sibling``'s block that is ``user`` or contains it."""
    operation = user.operation
    while operation.block != sibling.block:
        operation = operation.parent.operation
    return operation


def _loose(rows: Rows) -> list[Node]:
    return [n for n, own in rows.items() if any(r is None and p for r, p in zip(own, n.parallel, strict=True))]


def _shares_data(node: Node, group: Group) -> bool:
    """Whether the node shares a tensor that has inner loops with another member: makes it, takes it, or reads it
    too."""
    others = [n for n in group.nodes if n is not node]
    made = {v for n in others for v in n.result_maps}
    read = {v for n in others for v, _ in n.operands}
    inner = {i for i, row in enumerate(group.rows[node]) if row is None}
    if any(v in read for v in node.result_maps):
        return True
    return any(map_ is not None and inner & set(map_) and (v in made or v in read) for v, map_ in node.operands)


def edges_between(
    maker: Group, user: Group, producers: Mapping[ir.Value, Node], consumers: Mapping[ir.Value, Iterable[Node]]
) -> list[Edge]:
    """The values that ``user`` takes from ``maker``. The reverse has none: dispatches form no cycles."""
    return [
        Edge(producers[value], value, node, map_)
        for value in maker.made & user.taken
        for node in consumers[value]
        if node in user.rows
        for read, map_ in node.operands
        if read == value
    ]
