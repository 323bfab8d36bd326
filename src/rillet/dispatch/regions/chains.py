"""Chains: contractions behind each other, with or without row-wise computations between them, as one dispatch.

Suppose that a contraction reads, row for row, the result of another dispatch, which does the same. They may then run as
one grid of blocks of rows: a worker's scratch holds the tensors between them, one block at a time. Attention is such a
chain: the matrix of all scores is never in memory. It pays where a block's tiles stay in cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rillet.dispatch.regions.groups import Edge, Group, edges_between, joined, outputs
from rillet.dispatch.regions.nodes import Kind, Node
from rillet.ir import dtypes
from rillet.ir.contraction import Contraction, contraction
from rillet.ir.panels import is_interleaved
from rillet.ir.structured import DYNAMIC

FEWEST_ROWS, MOST_ROWS = 16, 64  # of a block
MOST_CONTRACTIONS = 4  # of a chain: its kernel holds the code of each, and shorter chains are shared more often
NEARER = 2  # how much cheaper a byte of an rhs is than a byte between stages
_UNKNOWN = 128  # stands for an extent that is not known
_MOST_LONG = 3  # values that pass with rows of unknown length: each has room for the longest
_MEMBERS = frozenset((Kind.ROOT, Kind.REDUCTION, Kind.ELEMENTWISE))


@dataclass(frozen=True)
class Graph:
    """How the nodes of a block depend on each other."""

    producers: Mapping[ir.Value, Node]
    consumers: Mapping[ir.Value, Iterable[Node]]
    group: Mapping[int, Group]  # by position


@dataclass(frozen=True)
class Chain:
    """Groups that follow each other. ``long``: values between them whose rows have a length that is known at run time
    only, and the axis along such a row."""

    whole: Group
    stages: tuple[Group, ...]
    long: dict[ir.Value, int]


@dataclass(frozen=True)
class _Row:
    """One row of a value between stages: its bytes (estimated where unknown), and the axis whose extent is unknown."""

    bytes: int
    axis: int | None


def chain_from(first: Group, graph: Graph, scratch: int) -> Chain | None:
    """The longest chain that begins with ``first``, ends with a contraction and pays. ``scratch``: bytes that the tiles
    of a block of rows may take.
    """
    roles, root = _roles(first), first.root()
    loops = [n for n in roles.m if root.extents[n] != 1] if roles is not None and root is not None else []
    if root is None or not loops:
        return None
    found, union, stages, shared = None, first, [first], _rhs_bytes(first)
    rows: dict[ir.Value, _Row] = {}
    while (link := _link(stages[-1], graph)) is not None:
        value, user = link
        if sum(Kind.ROOT in stage.kinds for stage in (*stages, user)) > MOST_CONTRACTIONS:
            break
        extended = _extended(union, user, value, graph)
        row = None if extended is None else _row(value, graph.producers[value], extended, root, loops[-1])
        if extended is None or row is None or _reads_by_row(user, extended, extended.rows[root][loops[-1]]):
            break
        rows[value] = row
        union = extended
        stages.append(user)
        if Kind.ROOT in user.kinds:
            shared += _rhs_bytes(user)
            passed = sum(r.bytes for r in rows.values())
            # Code generation knows one result: with several, each stage is better off as a dispatch of its own.
            one = len(outputs(user)) == 1
            if one and _pays(passed, _kept(rows, stages), shared, scratch, [root.extents[n] for n in loops]):
                long = {v: r.axis for v, r in rows.items() if r.axis is not None}
                found = Chain(union, tuple(stages), long) if len(long) <= _MOST_LONG else found
    return found


def _kept(rows: dict[ir.Value, _Row], stages: Sequence[Group]) -> int:
    """Bytes that the tiles take for each row: a row-wise stage writes over what it reads where sizes are known."""
    made = list(rows.values())
    total = made[0].bytes
    for maker, before, row in zip(stages[1:], made, made[1:], strict=False):
        over = Kind.ROOT not in maker.kinds and row == before and row.axis is None
        total += 0 if over else row.bytes
    return total


def _pays(passed: int, tiles: int, shared: int, scratch: int, extents: Sequence[int]) -> bool:
    """Whether a chain reads and writes less than its stages one by one.

    Single stages write and read the values between them, ``passed`` bytes for each row. A chain instead reads the rhs
    again for each block, ``shared`` bytes; a block has as many rows as ``scratch`` holds at ``tiles`` bytes each. The
    rhs comes from a cache more often than the values between stages. ``extents``: of the loops that only the lhs has; a
    block is a part of the last one.
    """
    total = math.inf if extents[-1] == DYNAMIC else extents[-1]
    rows = min(MOST_ROWS, scratch // max(tiles, 1), total)
    if rows < min(FEWEST_ROWS, total):
        return False
    is_one_block = rows == total and len(extents) == 1
    return is_one_block or shared <= 2 * NEARER * rows * passed


def _rhs_bytes(group: Group) -> int:
    """Bytes of the rhs of the group's root at one point of the batch."""
    roles, root = _roles(group), group.root()
    assert roles is not None and root is not None and root.view is not None
    extents = [_UNKNOWN if root.extents[n] == DYNAMIC else root.extents[n] for n in (*roles.n, *roles.k)]
    element = ir.RankedTensorType(root.view.inputs[roles.rhs].type).element_type
    return math.prod(extents) * dtypes.storage_bytes(element)


def _roles(group: Group) -> Contraction | None:
    """The loops of the group's root by their roles, when it is a plain contraction; else None."""
    root = group.root()
    if root is None or root.view is None or not group.kinds <= _MEMBERS:
        return None
    roles = contraction(root.view)
    if roles is None or roles.is_convolution or len(roles.n) != 1 or root.view.init_maps[0][-1] != roles.n[0]:
        return None
    # Where steps are multiplied together, rows of the lhs are copied to scratch first.
    return None if is_interleaved(root.view.maps[roles.rhs]) else roles


def _link(maker: Group, graph: Graph) -> tuple[ir.Value, Group] | None:
    """The only value that leaves a group, and the only group that reads it."""
    made = outputs(maker)
    readers = list(graph.consumers.get(made[0], ())) if len(made) == 1 else []
    groups = {graph.group[n.index] for n in readers} - {maker}
    if len(groups) != 1:
        return None
    (user,) = groups
    inside = user.operations | maker.operations
    return (made[0], user) if all(u.owner.operation in inside for u in made[0].uses) else None


def _extended(union: Group, user: Group, value: ir.Value, graph: Graph) -> Group | None:
    """The chain with one more stage, the only reader of ``value``; None when its rows are not those of the chain.

    No other dispatch can lie between the two, since only ``value`` leaves the chain.
    """
    if not user.kinds <= _MEMBERS:
        return None
    edges = edges_between(union, user, graph.producers, graph.consumers)
    extended = joined(union, user, edges)
    if extended is None:
        return None
    if Kind.ROOT in user.kinds:
        return extended if _continues(extended, user, value, edges) else None
    reductions = [n for n in user.nodes if n.kind is Kind.REDUCTION]
    return extended if reductions and not {*reductions} & {*extended.loose} else None


def _continues(chain: Group, user: Group, value: ir.Value, edges: list[Edge]) -> bool:
    """Whether a contraction reads the chain's last value as its lhs only, and its rows are the chain's."""
    roles, root = _roles(user), user.root()
    if roles is None or root is None or root.view is None:
        return False
    only = len(edges) == 1 and edges[0].consumer is root
    own = chain.rows[root]
    rows = all(own[n] is not None for n in (*roles.batch, *roles.m))
    return only and rows and root.view.inputs[roles.lhs] == value and own[roles.n[0]] is None


def _reads_by_row(user: Group, chain: Group, row: int | None) -> bool:
    """Whether a contraction's rhs differs between the rows of a block: all rows must share it."""
    roles, root = _roles(user), user.root()
    return roles is not None and root is not None and row in [chain.rows[root][n] for n in roles.batch]


def _row(value: ir.Value, producer: Node, chain: Group, root: Node, loop: int) -> _Row | None:
    """A row of ``value``; None when rows are not contiguous or their size cannot be bounded.

    ``loop`` of ``root`` runs over the rows.
    """
    type_ = ir.RankedTensorType(value.type)
    row = chain.rows[root][loop]
    loops = [chain.rows[producer][e] if isinstance(e, int) else None for e in producer.result_maps[value]]
    inner = [n for n, r in enumerate(loops) if r is None and type_.shape[n] != 1]
    if row is None or row not in loops or any(n < loops.index(row) for n in inner):
        return None
    size = dtypes.storage_bytes(type_.element_type)
    if all(type_.shape[n] != DYNAMIC for n in inner):
        return _Row(size * math.prod(type_.shape[n] for n in inner), None)
    if len(inner) > 1 or root.extents[loop] != DYNAMIC:
        return None
    return _Row(size * _UNKNOWN, inner[0])
