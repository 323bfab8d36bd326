"""Tables of keys and values known at compile time, whose keys are searched by halves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rillet.frontends.building import element_types
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.scalars import Scalar, constant, is_nan, select
from rillet.frontends.building.searching import last_not_above
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.strings.search import find
from rillet.frontends.onnx.strings.tensor import StringTensor, from_array


def places(node: Node, x: Tensor | StringTensor, keys: Sequence[str] | np.ndarray) -> Tensor:
    """The place of each element among ``keys`` (int64), the last one among equal keys; -1 where it is not there.

    Every NaN is equal to a key that is NaN. The keys are of the kind of x: strings or numbers.
    """
    if isinstance(x, StringTensor):
        return find(node.b, x, list(keys))
    return _places_of_numbers(node, x, np.asarray(keys))


def _places_of_numbers(node: Node, x: Tensor, given: np.ndarray) -> Tensor:
    b = node.b
    with np.errstate(all="ignore"):
        converted = given.astype(x.dtype)
    # A key that x's type cannot hold is found nowhere.
    held = {key: place for place, key in enumerate(converted.tolist()) if given[place] == key}
    keys = np.array(sorted(held), x.dtype)
    order = np.array([held[key] for key in sorted(held)], np.int64)
    unknown = np.flatnonzero(given != given)
    nan = int(unknown[-1]) if unknown.size else -1
    if not keys.size:
        return b.map(lambda v: _or_nan(v, constant(-1, "int64"), nan), x, dtype="int64")
    if np.array_equal(keys, np.arange(keys.size)) and np.array_equal(order, keys) and element_types.is_integer(x.dtype):
        inside = element_types.is_signed(x.dtype)

        def same(v: Scalar) -> Scalar:
            known = (v < keys.size) & (v >= 0) if inside else v < keys.size
            return select(known, convert(v, "int64"), -1)

        return b.map(same, x, dtype="int64")
    table, numbers = b.value(b.constant(keys, name="keys")), b.value(b.constant(order, name="places"))

    def search(v: Scalar) -> Scalar:
        at = last_not_above(b, table, x.dtype, keys.size, v)
        hit = b.element(table, x.dtype, [at]) == v
        return _or_nan(v, select(hit, b.element(numbers, "int64", [at]), -1), nan)

    return b.map(search, x, dtype="int64")


def _or_nan(v: Scalar, place: Scalar, nan: int) -> Scalar:
    return select(is_nan(v), constant(nan, "int64"), place) if nan >= 0 else place


def entries(
    node: Node, at: Tensor, values: Sequence[str] | np.ndarray, default: str | float | None = None
) -> Tensor | StringTensor:
    """The value at each place (int64); ``default`` at the place -1, which does not occur where there is none."""
    b = node.b
    array = np.array(values, dtype=object) if isinstance(values[0], str) else np.asarray(values)
    if default is not None:
        array = np.append(array, np.array([default], array.dtype))
    count = len(values)
    table = from_array(b, array, "values") if array.dtype == object else None
    held = table.ids if table else b.constant(array, name="values")
    source = b.value(held)

    def pick(place: Scalar) -> Scalar:
        known = place if default is None else select(place < 0, constant(count, "int64"), place)
        return b.element(source, held.dtype, [convert(known, "index")])

    found = b.map(pick, at, dtype=held.dtype)
    return table.with_ids(found) if table else found
