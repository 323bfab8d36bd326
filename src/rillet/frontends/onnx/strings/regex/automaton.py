"""Automata over bytes: a nondeterministic one of a parsed pattern, and the smallest deterministic one of that.

Assertions are resolved while the deterministic automaton is built: its states know what came before, and the byte that
comes next is known on each transition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

import numpy as np

from rillet.frontends.errors import UnsupportedFeature
from rillet.frontends.onnx.strings.regex.syntax import (
    AnyByte,
    Assertion,
    At,
    Characters,
    Choice,
    Expression,
    Repetition,
    Sequence,
)

_MAX_NODES = 100_000
_MAX_STATES = 10_000
_PARTS = ((0, 0x7F), (0x80, 0x7FF), (0x800, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x10FFFF))  # of one length in UTF-8


@dataclass(frozen=True)
class Automaton:
    """From state 0, byte ``c`` leads from state ``s`` to ``steps[s, classes[c]]``; ``accepts[s]`` says if the text may
    end there.
    """

    classes: np.ndarray  # int32 [256]
    steps: np.ndarray  # int32 [states, classes]
    accepts: np.ndarray  # bool [states]

    def matches(self, text: bytes) -> bool:
        """Whether the whole text matches."""
        state = 0
        for byte in text:
            state = self.steps[state, self.classes[byte]]
        return bool(self.accepts[state])


def build(expression: Expression) -> Automaton:
    """The smallest automaton that accepts the texts that match as a whole.

    Raises UnsupportedFeature when it would be too large.
    """
    graph = _Graph()
    start = graph.node()
    graph.final = graph.node()
    graph.add(expression, start, graph.final)
    return _minimal(_deterministic(graph, start))


# --- the nondeterministic automaton ---


@dataclass
class _Graph:
    """Nodes with edges that take a byte of a range, or nothing, perhaps only at a certain place."""

    bytes: list[list[tuple[int, int, int]]] = field(default_factory=list)  # first and last byte, target
    empty: list[list[tuple[At | None, int]]] = field(default_factory=list)
    final: int = 0

    def node(self) -> int:
        if len(self.bytes) == _MAX_NODES:
            raise UnsupportedFeature("the pattern is too large", "use smaller counts in its repetitions")
        self.bytes.append([])
        self.empty.append([])
        return len(self.bytes) - 1

    def add(self, expression: Expression, start: int, end: int) -> None:
        """Ways from ``start`` to ``end`` for the texts of ``expression``."""
        if isinstance(expression, Characters):
            self._characters(expression, start, end)
        elif isinstance(expression, AnyByte):
            self.bytes[start].append((0, 255, end))
        elif isinstance(expression, Assertion):
            self.empty[start].append((expression.at, end))
        elif isinstance(expression, Choice):
            for item in expression.items:
                self.add(item, start, end)
        elif isinstance(expression, Sequence):
            self._sequence(expression.items, start, end)
        else:
            self._repetition(expression, start, end)

    def _sequence(self, items: tuple[Expression, ...], start: int, end: int) -> None:
        for item in items:
            after = self.node()
            self.add(item, start, after)
            start = after
        self.empty[start].append((None, end))

    def _repetition(self, expression: Repetition, start: int, end: int) -> None:
        for _ in range(expression.low):
            start = self._once(expression.item, start)
        if expression.high is None:
            loop = self.node()
            self.empty[start].append((None, loop))
            self.empty[self._once(expression.item, loop)].append((None, loop))
            start = loop
        else:
            for _ in range(expression.high - expression.low):
                self.empty[start].append((None, end))
                start = self._once(expression.item, start)
        self.empty[start].append((None, end))

    def _once(self, item: Expression, start: int) -> int:
        after = self.node()
        inner = self.node()  # a node of its own, so that loops of the item do not join those around it
        self.empty[start].append((None, inner))
        self.add(item, inner, after)
        return after

    def _characters(self, expression: Characters, start: int, end: int) -> None:
        tails: dict[tuple[tuple[int, int], ...], int] = {(): end}

        def tail(ranges: tuple[tuple[int, int], ...]) -> int:
            """The node from which the last bytes of a character lead to the end; shared by all that end alike."""
            if ranges not in tails:
                tails[ranges] = self.node()
                self.bytes[tails[ranges]].append((*ranges[0], tail(ranges[1:])))
            return tails[ranges]

        for first, last in expression.runs:
            for ranges in utf8_ranges(first, last):
                self.bytes[start].append((*ranges[0], tail(ranges[1:])))


def utf8_ranges(first: int, last: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """The code points from ``first`` to ``last`` as ranges of first, second, … byte; surrogates have no bytes."""
    for low, high in _PARTS:
        low, high = max(low, first), min(high, last)
        if low <= high:
            yield from _aligned(low, high)


def _aligned(low: int, high: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Split until the bytes after the first one that differs take all their values."""
    for bits in (6, 12, 18):
        mask = (1 << bits) - 1
        if low & ~mask == high & ~mask:
            break
        if low & mask:
            yield from _aligned(low, low | mask)
            yield from _aligned((low | mask) + 1, high)
            return
        if high & mask != mask:
            yield from _aligned(low, (high & ~mask) - 1)
            yield from _aligned(high & ~mask, high)
            return
    yield tuple(zip(chr(low).encode("utf-8"), chr(high).encode("utf-8"), strict=True))


# --- the deterministic automaton ---


class _Kind(Enum):
    """The kind of neighbour that a position has."""

    EDGE = auto()  # the text's begin or end
    NEWLINE = auto()
    WORD = auto()
    OTHER = auto()


def _kind(byte: int) -> _Kind:
    if byte == 10:
        return _Kind.NEWLINE
    return _Kind.WORD if byte < 128 and (chr(byte).isalnum() or byte == 95) else _Kind.OTHER


def _holds(at: At, before: _Kind, after: _Kind) -> bool:
    boundary = (before is _Kind.WORD) != (after is _Kind.WORD)
    return {
        At.TEXT_BEGIN: before is _Kind.EDGE,
        At.TEXT_END: after is _Kind.EDGE,
        At.LINE_BEGIN: before in (_Kind.EDGE, _Kind.NEWLINE),
        At.LINE_END: after in (_Kind.EDGE, _Kind.NEWLINE),
        At.WORD_BOUNDARY: boundary,
        At.NO_WORD_BOUNDARY: not boundary,
    }[at]


def _closure(graph: _Graph, nodes: frozenset[int], before: _Kind, after: _Kind) -> set[int]:
    """The nodes that can be reached without a byte."""
    reached = set(nodes)
    pending = list(nodes)
    while pending:
        for at, target in graph.empty[pending.pop()]:
            if target not in reached and (at is None or _holds(at, before, after)):
                reached.add(target)
                pending.append(target)
    return reached


def _byte_classes(graph: _Graph) -> np.ndarray:
    """One number for all bytes that no edge and no assertion distinguishes."""
    cuts = {0, 10, 11, 48, 58, 65, 91, 95, 96, 97, 123}  # newline and word characters
    for edges in graph.bytes:
        for first, last, _ in edges:
            cuts |= {first, last + 1}
    starts = np.zeros(256, np.int32)
    starts[[c for c in cuts if 0 < c < 256]] = 1
    return np.cumsum(starts, dtype=np.int32)


def _deterministic(graph: _Graph, start: int) -> Automaton:
    classes = _byte_classes(graph)
    kinds = [_kind(int(np.argmax(classes == c))) for c in range(int(classes[-1]) + 1)]
    edges = [[(int(classes[a]), int(classes[b]), target) for a, b, target in of] for of in graph.bytes]
    asserts = any(at is not None for empty in graph.empty for at, _ in empty)
    first = (frozenset([start]), _Kind.EDGE)
    numbers = {first: 0}
    states = [first]
    rows: list[list[int]] = []
    accepts: list[bool] = []
    for nodes, before in states:  # grows while it is walked
        accepts.append(graph.final in _closure(graph, nodes, before, _Kind.EDGE))
        targets: list[set[int]] = [set() for _ in kinds]
        for after in (_Kind.NEWLINE, _Kind.WORD, _Kind.OTHER) if asserts else (None,):
            for node in _closure(graph, nodes, before, after or _Kind.OTHER):
                for low, high, target in edges[node]:
                    for number in range(low, high + 1):
                        if after is None or kinds[number] is after:
                            targets[number].add(target)
        row = []
        for reached, kind in zip(targets, kinds, strict=True):
            # What came before matters to assertions only, and not where nothing can match any more.
            key = (frozenset(reached), kind if asserts and reached else _Kind.OTHER)
            if key not in numbers:
                numbers[key] = len(states)
                states.append(key)
                if len(states) > _MAX_STATES:
                    raise UnsupportedFeature(
                        f"the pattern needs an automaton of more than {_MAX_STATES:,} states",
                        "use smaller counts in its repetitions",
                    )
            row.append(numbers[key])
        rows.append(row)
    return Automaton(classes, np.array(rows, np.int32), np.array(accepts, bool))


def _minimal(automaton: Automaton) -> Automaton:
    """Merge the states that no text distinguishes (Moore's algorithm), and the bytes that no state does."""
    group = automaton.accepts.astype(np.int64)
    count = 0
    while True:
        described = np.concatenate([group[:, None], group[automaton.steps]], axis=1)
        _, representatives, group = np.unique(described, axis=0, return_index=True, return_inverse=True)
        group = group.reshape(-1).astype(np.int64)
        if len(representatives) == count:
            break
        count = len(representatives)
    # The first state keeps number 0.
    order = np.argsort(representatives)
    renamed = np.empty_like(order)
    renamed[order] = np.arange(count)
    chosen = representatives[order]
    steps = renamed[group][automaton.steps[chosen]]
    columns, which = np.unique(steps, axis=1, return_inverse=True)
    classes = which.reshape(-1)[automaton.classes]
    return Automaton(classes.astype(np.int32), columns.astype(np.int32), automaton.accepts[chosen])
