"""StringSplit: each string's pieces between delimiters or runs of whitespace, as new ranges of the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, reduce
from itertools import pairwise

import numpy as np
from torch_mlir import ir

from rillet.frontends.building.conversions import convert
from rillet.frontends.building.loops import for_range, read_extent, scalar_of, store
from rillet.frontends.building.scalars import Scalar, constant, maximum, select
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.registry import op
from rillet.frontends.onnx.strings.ranges import Range, Reader
from rillet.frontends.onnx.strings.tensor import StringTensor, counted


@op("StringSplit", since=20, strings=True)
def string_split(node: Node, x: StringTensor) -> list[StringTensor | Tensor]:
    """The pieces with one more dimension, filled up with empty strings, and their numbers (int64).

    Without a delimiter, pieces lie between runs of Unicode's whitespace; the rest after ``maxsplit`` splits keeps the
    whitespace at its end.
    """
    b, e = node.b, node.b.extents
    splitter = _Splitter(node, Reader(b, x), node.attr("delimiter", "").encode("utf-8"), node.attr("maxsplit", -1))
    count = e.product(x.shape)

    def measure(position: Scalar, counts: ir.Value, most: ir.Value) -> list[ir.Value]:
        pieces = convert(splitter.pieces(position, None)[0], "int64")
        widest = maximum(b.element(most, "int64", [0]), pieces)
        return [store(pieces, "int64", counts, [position]), store(widest, "int64", most, [0])]

    counts, most = for_range(0, count, [b.empty("int64", [count]), b.init(0, "int64", [1])], measure)
    width = read_extent(b, most)
    entries = e.mul(count, width)

    def fill(position: Scalar, spans: ir.Value) -> ir.Value:
        _, result = splitter.pieces(position, _Target(spans, position * scalar_of(width), scalar_of(entries)))
        assert result is not None
        return result

    # One more entry takes the stores at places where no piece ends.
    size = e.add(entries, 1)
    spans = for_range(0, count, [b.init(0, "int64", [size, 2])], fill)[0]
    shape = [*x.shape, width]
    pieces = StringTensor(counted(b, shape), b.tensor(spans, "int64", [size, 2]), x.data)
    return [pieces, b.reshape(b.tensor(counts, "int64", [count]), x.shape)]


@dataclass(frozen=True)
class _Target:
    """Where the ranges of one string's pieces go: entries of ``spans`` from ``base``; ``spare`` is one to overwrite."""

    spans: ir.Value
    base: Scalar
    spare: Scalar


class _Splitter:
    """Goes through one string; the state is (splits, begin of the piece, first position not yet used, inside a piece),
    and the spans where they are wanted.
    """

    def __init__(self, node: Node, reader: Reader, delimiter: bytes, limit: int):
        self._b, self._reader, self._limit = node.b, reader, limit
        self._size = len(delimiter)
        self._delimiter = node.b.value(node.b.constant(np.frombuffer(delimiter, np.uint8), name="delimiter"))

    def pieces(self, position: Scalar, target: _Target | None) -> tuple[Scalar, ir.Value | None]:
        """The number of pieces of a string (index), and the spans with their ranges in."""
        text = self._reader.range(position)
        step = self._delimited if self._size else self._spaced
        start = [constant(0, "index").value, text.first.value, text.first.value]
        start.append(constant(bool(self._size), "bool").value)  # between delimiters there always is a piece
        spans = [] if target is None else [target.spans]

        def one(at: Scalar, *values: ir.Value) -> list[ir.Value]:
            state = _scalars(values)
            ends, after = step(at, text, state)
            return [*(s.value for s in after), *self._store(ends, state, at, target, values[len(state) :])]

        result = for_range(text.first, text.last, [*start, *spans], one)
        state = _scalars(result)
        splits, inside = state[0], state[3]
        stored = self._store(inside, state, text.last, target, result[len(state) :])
        return splits + convert(inside, "index"), (stored[0] if stored else None)

    def _store(
        self, ends: Scalar, state: Sequence[Scalar], at: Scalar, target: _Target | None, spans: Sequence[ir.Value]
    ) -> list[ir.Value]:
        """The spans with the range of a piece that ends at ``at``, where one does."""
        if target is None:
            return []
        place = select(ends, target.base + state[0], target.spare)
        first = store(convert(state[1], "int64"), "int64", spans[0], [place, 0])
        return [store(convert(at, "int64"), "int64", first, [place, 1])]

    def _may_split(self, splits: Scalar) -> Scalar:
        return constant(True, "bool") if self._limit < 0 else splits < self._limit

    def _delimited(self, at: Scalar, text: Range, state: Sequence[Scalar]) -> tuple[Scalar, list[Scalar]]:
        splits, begin, free, inside = state
        fits = (at >= free) & (at + self._size <= text.last) & self._may_split(splits)

        def one(offset: Scalar, going: ir.Value) -> ir.Value:
            wanted = convert(self._b.element(self._delimiter, "uint8", [offset]), "int32")
            return (Scalar(going, "bool") & (self._reader.byte(at + offset) == wanted)).value

        compared = select(fits, constant(self._size, "index"), 0)
        hit = Scalar(for_range(0, compared, [fits.value], one)[0], "bool")
        after = at + self._size
        return hit, [splits + convert(hit, "index"), select(hit, after, begin), select(hit, after, free), inside]

    def _spaced(self, at: Scalar, text: Range, state: Sequence[Scalar]) -> tuple[Scalar, list[Scalar]]:
        splits, begin, free, inside = state
        active = at >= free
        code_point, size = self._reader.character(at, text.last)
        space = _is_space(code_point)
        starts, ends = active & ~space & ~inside, active & space & inside
        used = select(starts & ~self._may_split(splits), text.last, at + size)
        return ends, [
            splits + convert(ends, "index"),
            select(starts, at, begin),
            select(active, used, free),
            (inside | starts) & ~ends,
        ]


def _scalars(values: Sequence[ir.Value]) -> list[Scalar]:
    return [Scalar(value, dtype) for value, dtype in zip(values, ("index", "index", "index", "bool"), strict=False)]


@cache
def _spaces() -> list[tuple[int, int]]:
    """Unicode's whitespace as runs of code points, first and last."""
    found = [c for c in range(0x110000) if chr(c).isspace()]
    breaks = [i + 1 for i, (a, b) in enumerate(pairwise(found)) if b != a + 1]
    return [(found[i], found[j - 1]) for i, j in pairwise([0, *breaks, len(found)])]


def _is_space(code_point: Scalar) -> Scalar:
    return reduce(lambda a, b: a | b, ((code_point >= low) & (code_point <= high) for low, high in _spaces()))
