"""Looks strings up in a list known at compile time, and sorts strings."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from torch_mlir import ir

from rillet.frontends.building.builder import Builder
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.loops import for_range, store
from rillet.frontends.building.scalars import Scalar, constant, select
from rillet.frontends.building.searching import last_not_above
from rillet.frontends.building.sorting import argsort
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.onnx.strings.ranges import Reader, compare, same
from rillet.frontends.onnx.strings.tensor import StringTensor, from_array


def find(b: Builder, x: StringTensor, keys: Sequence[str]) -> Tensor:
    """The place of each string in ``keys`` (int64), the last one among equal keys; -1 where it is not there.

    The keys are searched by their hashes, which are sorted at compile time; one string is compared.
    """
    place_of = {key.encode("utf-8"): place for place, key in enumerate(keys)}
    if not place_of:
        return b.fill(-1, "int64", x.shape)
    factor = next(
        f for f in itertools.count(_FNV_PRIME, 2) if len({_hash(key, f) for key in place_of}) == len(place_of)
    )
    ordered = sorted(place_of, key=lambda key: _hash(key, factor))
    source, table = Reader(b, x), Reader(b, from_array(b, np.array(ordered, dtype=object), "keys"))
    hashes, places = (
        b.value(b.constant(np.array(numbers, np.int64), name=name))
        for name, numbers in (
            ("hashes", [_hash(k, factor) for k in ordered]),
            ("places", [place_of[k] for k in ordered]),
        )
    )

    def one(position: Scalar, result: ir.Value) -> ir.Value:
        wanted = source.range(position)

        def add(at: Scalar, total: ir.Value) -> ir.Value:
            return (Scalar(total, "int64") * factor + convert(source.byte(at), "int64")).value

        total = Scalar(for_range(wanted.first, wanted.last, [constant(0, "int64").value], add)[0], "int64")
        at = last_not_above(b, hashes, "int64", len(ordered), total)
        hit = same(table, table.range(at), source, wanted)
        return store(select(hit, b.element(places, "int64", [at]), -1), "int64", result, [position])

    elements = b.extents.product(x.shape)
    found = for_range(0, elements, [b.empty("int64", [elements])], one)[0]
    return b.reshape(b.tensor(found, "int64", [elements]), x.shape)


_FNV_PRIME = 1099511628211


def _hash(text: bytes, factor: int) -> int:
    """The bytes as a number to the base ``factor``, in int64."""
    total = 0
    for byte in text:
        total = (total * factor + byte) % (1 << 64)
    return total - (1 << 64) if total >> 63 else total


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
