"""Looks strings up in a list known at compile time, and sorts strings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch_mlir import ir

from rillet.frontends.building.builder import Builder
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.loops import for_range, store
from rillet.frontends.building.scalars import Scalar, constant, minimum, select, truncdiv
from rillet.frontends.building.sorting import argsort
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.onnx.strings.ranges import Reader, compare
from rillet.frontends.onnx.strings.tensor import StringTensor, from_array


def find(b: Builder, x: StringTensor, keys: Sequence[str]) -> Tensor:
    """The place of each string in ``keys`` (int64), the last one among equal keys; -1 where it is not there.

    A binary search: the keys are sorted at compile time.
    """
    place_of = {key: place for place, key in enumerate(keys)}
    ordered = sorted(place_of)
    if not ordered:
        return b.fill(-1, "int64", x.shape)
    source, table = Reader(b, x), Reader(b, from_array(b, np.array(ordered, dtype=object), "keys"))
    places = b.value(b.constant(np.array([place_of[key] for key in ordered], np.int64), name="places"))
    last = len(ordered) - 1

    def one(position: Scalar, result: ir.Value) -> ir.Value:
        wanted = source.range(position)

        def order(at: Scalar) -> Scalar:
            return compare(table, table.range(minimum(at, last)), source, wanted)

        def halve(_: Scalar, low: ir.Value, high: ir.Value) -> list[ir.Value]:
            lower, upper = Scalar(low, "index"), Scalar(high, "index")
            middle = truncdiv(lower + upper, 2)
            before = (lower < upper) & (order(middle) < 0)
            return [select(before, middle + 1, lower).value, select(before, upper, minimum(middle, upper)).value]

        ends = [constant(0, "index").value, constant(len(ordered), "index").value]
        found = Scalar(for_range(0, len(ordered).bit_length(), ends, halve)[0], "index")
        hit = (found <= last) & (order(found) == 0)
        place = b.element(places, "int64", [minimum(found, last)])
        return store(select(hit, place, -1), "int64", result, [position])

    count = b.extents.product(x.shape)
    found = for_range(0, count, [b.empty("int64", [count])], one)[0]
    return b.reshape(b.tensor(found, "int64", [count]), x.shape)


def ranks(b: Builder, x: StringTensor) -> tuple[Tensor, Tensor]:
    """The rank of each string, and the table's entry of each rank (int64 [elements]). A string's rank is the number of
    distinct smaller ones (int64, in the shape of ``x``).
    """
    count = b.extents.product(x.shape)
    source = Reader(b, x)
    ids = b.value(b.reshape(x.ids, [count]))

    def before(_: Scalar, i: Scalar, j: Scalar) -> Scalar:
        return compare(source, source.range(i), source, source.range(j)) < 0

    order = b.value(argsort(b, 1, count, before))

    def number(step: Scalar, numbers: ir.Value, entries: ir.Value, total: ir.Value) -> list[ir.Value]:
        item, previous = (
            convert(b.element(order, "int64", [0, at]), "index")
            for at in (step, select(step == 0, constant(0, "index"), step - 1))
        )
        differs = compare(source, source.range(previous), source, source.range(item)) != 0
        rank = b.element(total, "int64", [0]) + convert(differs, "int64")
        return [
            store(rank, "int64", numbers, [item]),
            store(b.element(ids, "int64", [item]), "int64", entries, [convert(rank, "index")]),
            store(rank, "int64", total, [0]),
        ]

    state = [b.init(0, "int64", [count]), b.init(0, "int64", [count]), b.init(0, "int64", [1])]
    numbers, entries, _ = for_range(0, count, state, number)
    return b.reshape(b.tensor(numbers, "int64", [count]), x.shape), b.tensor(entries, "int64", [count])
