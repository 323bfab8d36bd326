"""Stable sorting on the device, row by row: by a comparison (merge sort), by keys (radix sort), or the smallest few."""

from __future__ import annotations

from collections.abc import Callable

from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.frontends.building import element_types, scalars
from rillet.frontends.building.builder import Builder
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.loops import for_range, scalar_of, store
from rillet.frontends.building.scalars import Scalar, constant, minimum, select, shift_left
from rillet.frontends.building.tensor import Tensor
from rillet.ir.builders import Extent

_PASSES = 40  # rows of up to 2^40 elements
_DIGIT_BITS = 8


def argsort(b: Builder, rows: Extent, count: Extent, before: Callable[[Scalar, Scalar, Scalar], Scalar]) -> Tensor:
    """The positions [rows, count] (int64) that sort each row: ``before(row, i, j)`` says whether element ``i`` comes
    strictly before element ``j``. Elements that are equal keep their order.
    """
    shape = [rows, count]
    total = scalar_of(count)

    def initial(indices: list[Scalar]) -> Scalar:
        return convert(indices[1], "int64")

    start = b.value(b.indexed("int64", shape, initial))
    spare = b.empty("int64", shape)
    passes = (count - 1).bit_length() if isinstance(count, int) else _PASSES

    def one_row(row: Scalar, current: ir.Value, other: ir.Value) -> list[ir.Value]:
        return for_range(0, passes, [current, other], lambda p, *state: one_pass(row, p, *state))

    def one_pass(row: Scalar, number: Scalar, current: ir.Value, other: ir.Value) -> list[ir.Value]:
        width = shift_left(constant(1, "index"), number)
        # Runs as long as the row are sorted already.
        limit = select(width < total, total, 0)

        def merge(low: Scalar, other: ir.Value) -> ir.Value:
            middle = minimum(low + width, total)
            high = minimum(middle + width, total)

            def step(place: Scalar, i: ir.Value, j: ir.Value, other: ir.Value) -> list[ir.Value]:
                left, right = Scalar(i, "index"), Scalar(j, "index")
                # Both heads are read even when one run is used up: from a valid place.
                a = b.element(current, "int64", [row, minimum(left, total - 1)])
                c = b.element(current, "int64", [row, minimum(right, total - 1)])
                takes_right = before(row, convert(c, "index"), convert(a, "index"))
                from_right = (left >= middle) | ((right < high) & takes_right)
                other = store(select(from_right, c, a), "int64", other, [row, place])
                one = constant(1, "index")
                return [
                    (left + select(from_right, constant(0, "index"), one)).value,
                    (right + select(from_right, one, 0)).value,
                    other,
                ]

            return for_range(low, high, [low.value, middle.value, other], step)[2]

        other = for_range(0, limit, [other], merge, step=width * 2)[0]

        def copy_back(place: Scalar, current: ir.Value) -> ir.Value:
            return store(b.element(other, "int64", [row, place]), "int64", current, [row, place])

        return [for_range(0, limit, [current], copy_back)[0], other]

    result = for_range(0, rows, [start, spare], one_row)
    return b.tensor(result[0], "int64", shape)


def sort_keys(b: Builder, x: Tensor, descending: bool) -> Tensor:
    """Unsigned numbers in the order of ``x``'s elements or the reverse: uint32, or uint64 for wider types.

    0 and -0 have the same key. NaN is larger than any number, whatever its sign.
    """

    def key(value: Scalar) -> Scalar:
        bits = _ordered_bits(value)
        return ~bits if descending else bits

    return b.map(key, x, dtype="uint64" if element_types.bits(element_types.compute_dtype(x.dtype)) == 64 else "uint32")


def _ordered_bits(value: Scalar) -> Scalar:
    width = 64 if element_types.bits(value.dtype) == 64 else 32
    signed, unsigned = f"int{width}", f"uint{width}"
    if not element_types.is_float(value.dtype):
        if not element_types.is_signed(value.dtype):
            return convert(value, unsigned)
        return convert(convert(value, signed), unsigned) ^ (1 << (width - 1))
    # All bits of negative numbers are flipped, and only the sign of others.
    canonical = select(value == 0, constant(0, value.dtype), value)
    bits = Scalar(arith.bitcast(element_types.element_type(signed), canonical.value), signed)
    sign = Scalar(arith.shrsi(bits.value, constant(width - 1, signed).value), signed)
    turned = bits ^ (sign | -(1 << (width - 1)))
    return select(scalars.is_nan(value), constant((1 << width) - 1, unsigned), convert(turned, unsigned))


def argsort_keys(
    b: Builder, keys: Tensor, chosen: Callable[[Scalar, Scalar], Scalar] | None = None
) -> tuple[Tensor, ir.Value]:
    """The positions [rows, count] (int64) that sort each row of ``keys`` (uint32 or uint64), the smallest key first.

    Only elements for which ``chosen(row, i)`` holds take part. The second result [rows] (int64) counts them; positions
    after that count are undefined. Equal keys keep their order. The sort is a radix sort from the lowest digit up, so
    its time does not depend on the keys.
    """
    rows, count = keys.shape
    source, width = b.value(keys), element_types.bits(keys.dtype)
    digits = 1 << _DIGIT_BITS
    zero, one = constant(0, "int64"), constant(1, "int64")

    def digit(row: Scalar, item: Scalar, shift: Scalar) -> Scalar:
        key = b.element(source, keys.dtype, [row, item])
        moved = Scalar(arith.shrui(key.value, shift.value), keys.dtype)
        return convert(moved & (digits - 1), "index")

    def one_row(row: Scalar, first: ir.Value, second: ir.Value, ends: ir.Value, sizes: ir.Value) -> list[ir.Value]:
        def collect(i: Scalar, first: ir.Value, size: ir.Value) -> list[ir.Value]:
            # An element that is not chosen is overwritten by the next one.
            first = store(convert(i, "int64"), "int64", first, [row, Scalar(size, "index")])
            step = constant(1, "index") if chosen is None else convert(convert(chosen(row, i), "int64"), "index")
            return [first, (Scalar(size, "index") + step).value]

        first, size = for_range(0, count, [first, constant(0, "index").value], collect)
        items = Scalar(size, "index")
        sizes = store(convert(items, "int64"), "int64", sizes, [row])

        def one_pass(shift: Scalar, given: ir.Value, sorted_: ir.Value, ends: ir.Value) -> tuple[ir.Value, ir.Value]:
            ends = for_range(0, digits, [ends], lambda d, ends: store(zero, "int64", ends, [d]))[0]

            def tally(t: Scalar, ends: ir.Value) -> ir.Value:
                d = digit(row, convert(b.element(given, "int64", [row, t]), "index"), shift)
                return store(b.element(ends, "int64", [d]) + one, "int64", ends, [d])

            ends = for_range(0, items, [ends], tally)[0]

            def begin(d: Scalar, ends: ir.Value, before: ir.Value) -> list[ir.Value]:
                here = b.element(ends, "int64", [d])
                return [store(Scalar(before, "int64"), "int64", ends, [d]), (Scalar(before, "int64") + here).value]

            ends = for_range(0, digits, [ends, zero.value], begin)[0]

            def place(t: Scalar, sorted_: ir.Value, ends: ir.Value) -> list[ir.Value]:
                item = b.element(given, "int64", [row, t])
                d = digit(row, convert(item, "index"), shift)
                at = b.element(ends, "int64", [d])
                return [
                    store(item, "int64", sorted_, [row, convert(at, "index")]),
                    store(at + one, "int64", ends, [d]),
                ]

            sorted_, ends = for_range(0, items, [sorted_, ends], place)
            return sorted_, ends

        def two_passes(low: Scalar, first: ir.Value, second: ir.Value, ends: ir.Value) -> list[ir.Value]:
            second, ends = one_pass(convert(low, keys.dtype), first, second, ends)
            first, ends = one_pass(convert(low + _DIGIT_BITS, keys.dtype), second, first, ends)
            return [first, second, ends]

        first, second, ends = for_range(0, width, [first, second, ends], two_passes, step=2 * _DIGIT_BITS)
        return [first, second, ends, sizes]

    state = [b.empty("int64", [rows, count]), b.empty("int64", [rows, count])]
    state += [b.empty("int64", [digits]), b.empty("int64", [rows])]
    order, _, _, sizes = for_range(0, rows, state, one_row)
    return b.tensor(order, "int64", [rows, count]), sizes


def smallest_keys(b: Builder, keys: Tensor, kept: int, count: Extent) -> Tensor:
    """The positions [rows, count] (int64) of the ``count`` smallest of each row of ``keys``, the smallest first.

    ``kept`` is a small constant that bounds ``count``. Each element that is among the smallest so far is inserted among
    them.
    """
    rows, length = keys.shape
    source = b.value(keys)

    def one_row(row: Scalar, best: ir.Value, places: ir.Value) -> list[ir.Value]:
        def visit(i: Scalar, best: ir.Value, places: ir.Value) -> list[ir.Value]:
            key = b.element(source, keys.dtype, [row, i])
            enters = (i < kept) | (key < b.element(best, keys.dtype, [kept - 1]))

            def insert(
                at: Scalar, best: ir.Value, places: ir.Value, key: ir.Value, place: ir.Value, moved: ir.Value
            ) -> list[ir.Value]:
                # From the first larger key on, each takes the place of the one behind it; the first free place ends it.
                old, old_place = b.element(best, keys.dtype, [at]), b.element(places, "int64", [row, at])
                new, new_place = Scalar(key, keys.dtype), Scalar(place, "int64")
                takes = Scalar(moved, "bool") | (new < old) | (at >= i)
                best = store(select(takes, new, old), keys.dtype, best, [at])
                places = store(select(takes, new_place, old_place), "int64", places, [row, at])
                rest, rest_place = select(takes, old, new), select(takes, old_place, new_place)
                return [best, places, rest.value, rest_place.value, takes.value]

            end = select(enters, minimum(i + 1, kept), 0)
            carried = [best, places, key.value, convert(i, "int64").value, constant(False, "bool").value]
            return for_range(0, end, carried, insert)[:2]

        return for_range(0, length, [best, places], visit)

    state = [b.empty(keys.dtype, [kept]), b.empty("int64", [rows, kept])]
    _, places = for_range(0, rows, state, one_row)
    found = b.tensor(places, "int64", [rows, kept])
    return found if count == kept else b.slice(found, [0, 0], [rows, count])


def rank_matrix(b: Builder, x: Tensor, axis: int) -> tuple[Tensor, list[int], Extent]:
    """``x`` with ``axis`` last as [rows, count]; also the permutation that moved it and the number of rows."""
    order = [a for a in range(x.rank) if a != axis] + [axis]
    moved = b.transpose(x, order)
    rows = b.extents.product(moved.shape[:-1])
    return b.reshape(moved, [rows, moved.shape[-1]]), order, rows
