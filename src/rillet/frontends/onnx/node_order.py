"""The order of a graph's nodes: ONNX wants each behind those that it reads, but many tools write others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rillet.errors import CompileError

if TYPE_CHECKING:
    import onnx

_SHOWN = 8  # nodes of a cycle that a message names


def reads(node: onnx.NodeProto) -> Iterator[str]:
    """Every name that a node reads: its inputs, and what its subgraphs take from outside."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        for graph in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
            defined = {i.name for i in graph.input} | {t.name for t in graph.initializer}
            defined |= {t.values.name for t in graph.sparse_initializer}
            defined.update(o for inner in graph.node for o in inner.output)
            yield from (name for inner in graph.node for name in reads(inner) if name not in defined)
            yield from (o.name for o in graph.output if o.name not in defined)


def is_sorted(graph: onnx.GraphProto | onnx.FunctionProto) -> bool:
    """Whether no node reads what a later one defines."""
    later = {o for node in graph.node for o in node.output if o}
    for node in graph.node:
        if not later.isdisjoint(reads(node)):
            return False
        later.difference_update(node.output)
    return True


def sort_nodes(graph: onnx.GraphProto | onnx.FunctionProto) -> None:
    """Put each node behind those that it reads; nodes keep their order where they can.

    Raises CompileError for a cycle, naming its nodes.
    """
    nodes = list(graph.node)
    ordered = [nodes[number] for number in _order(nodes, graph.name)]
    del graph.node[:]
    graph.node.extend(ordered)


def _order(nodes: Sequence[onnx.NodeProto], graph: str) -> list[int]:
    """The nodes' numbers, depth first: each is preceded by what it reads, and they begin in the order given."""
    makers: dict[str, int] = {}
    for number, node in enumerate(nodes):
        for output in node.output:
            makers.setdefault(output, number)
    order: list[int] = []
    unvisited: dict[int, Iterator[int]] = {}  # for each node on the path: what it reads, as far as not visited yet
    done = [False] * len(nodes)
    for first in range(len(nodes)):
        path = [] if done[first] else [first]
        while path:
            number = path[-1]
            if number not in unvisited:
                unvisited[number] = (makers[name] for name in reads(nodes[number]) if name in makers)
            needed = next((n for n in unvisited[number] if not done[n]), None)
            if needed is None:
                done[number] = True
                order.append(path.pop())
                del unvisited[number]
            elif needed in unvisited:
                cycle = _listed([nodes[n] for n in path[path.index(needed) :]])
                raise CompileError(f"graph '{graph}' has a cycle, in which each node reads the next: {cycle}")
            else:
                path.append(needed)
    return order


def _listed(cycle: Sequence[onnx.NodeProto]) -> str:
    labels = [f"{node.op_type} '{node.name or next(iter(node.output), '')}'" for node in cycle]
    more = [f"{len(labels) - _SHOWN} more"] if len(labels) > _SHOWN else []
    return " → ".join([*labels[:_SHOWN], *more, labels[0]])
