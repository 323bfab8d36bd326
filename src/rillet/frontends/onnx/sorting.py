"""Stable sorting on the device: a bottom-up merge sort of positions, row by row."""

from __future__ import annotations

from collections.abc import Callable

from torch_mlir import ir

from rillet.frontends.layout import Builder
from rillet.frontends.onnx.loops import for_range, scalar_of, store
from rillet.frontends.scalars import Scalar, constant, convert, minimum, select, shift_left
from rillet.frontends.tensors import Tensor
from rillet.ir.builders import Extent

_PASSES = 40  # rows of up to 2^40 elements


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
        # A pass whose runs are as long as the row has nothing to do.
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


def rank_matrix(b: Builder, x: Tensor, axis: int) -> tuple[Tensor, list[int], Extent]:
    """``x`` with ``axis`` last as [rows, count]; also the permutation that moved it and the number of rows."""
    order = [a for a in range(x.rank) if a != axis] + [axis]
    moved = b.transpose(x, order)
    rows = b.extents.product(moved.shape[:-1])
    return b.reshape(moved, [rows, moved.shape[-1]]), order, rows
