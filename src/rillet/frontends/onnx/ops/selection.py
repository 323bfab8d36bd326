"""TopK, NonZero, Compress, Unique: ops that choose elements; all but TopK have results whose size depends on data."""

from __future__ import annotations

from collections.abc import Callable

from torch_mlir import ir

from rillet.frontends.building import scalars
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.loops import for_each, for_range, read_extent, store
from rillet.frontends.building.scalars import Scalar, constant, select
from rillet.frontends.building.sorting import argsort, argsort_keys, rank_matrix, smallest_keys, sort_keys
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.registry import op
from rillet.ir.builders import Extent

_FEW = 32  # up to this number, inserting one by one is faster than sorting


@op("TopK", until=9)
def top_k_attribute(node: Node, x: Tensor) -> list[Tensor]:
    """TopK before opset 10, with ``k`` in an attribute."""
    return _top_k(node, x, node.attr("k"))


@op("TopK", since=10, ignores=["sorted"])  # any order is allowed where it is 0
def top_k(node: Node, x: Tensor, k: Tensor) -> list[Tensor]:
    """The k largest (or smallest) elements along ``axis`` in order, and their int64 positions.

    The lower position wins among equal elements. ``k`` [1] may be known only at run time. Raises InvalidNode unless
    ``k`` is one number.
    """
    counts = node.b.extents_of(k, "k", 1)
    if len(counts) != 1:
        raise InvalidNode(f"k has {len(counts)} elements; it is one number")
    return _top_k(node, x, counts[0])


def _top_k(node: Node, x: Tensor, k: Extent) -> list[Tensor]:
    """The first ``k`` of each row in descending (``largest``) or ascending order; the lower index wins among equals."""
    b = node.b
    axis = node.axis(node.attr("axis", -1), x.rank)
    if isinstance(k, int) and k < 0:
        raise InvalidNode(f"k is {k}")
    if isinstance(k, int) and isinstance(x.shape[axis], int) and not 0 <= k <= x.shape[axis]:  # type: ignore[operator]
        raise InvalidNode(f"k is {k}, but axis {axis} has {x.shape[axis]} elements")
    matrix, order, rows = rank_matrix(b, x, axis)
    source = b.value(matrix)
    keys = sort_keys(b, matrix, descending=bool(node.attr("largest", 1)))
    length = matrix.shape[1]
    bounds = [n for n in (k, length) if isinstance(n, int)]
    b.require("ge", k, 0, "k is {0}; it is {1} or more")
    b.require("le", k, length, "{0} elements are to be chosen of {1}")
    if bounds and 0 < min(bounds) <= _FEW:
        positions = smallest_keys(b, keys, min(bounds), k)
    else:
        positions = b.slice(argsort_keys(b, keys)[0], [0, 0], [rows, k])
    chosen = b.value(positions)

    def pick(at: list[Scalar]) -> Scalar:
        return b.element(source, x.dtype, [at[0], convert(b.element(chosen, "int64", at), "index")])

    values = b.indexed(x.dtype, [rows, k], pick)
    shape = [x.shape[a] for a in order[:-1]] + [k]
    back = [order.index(a) for a in range(x.rank)]
    return [b.transpose(b.reshape(t, shape), back) for t in (values, positions)]


@op("NonZero", since=9)
def non_zero(node: Node, x: Tensor) -> Tensor:
    """The indices [rank, count] (int64) of the elements that are not zero, in row-major order."""
    b = node.b
    source = b.value(x)
    capacity = b.extents.product(x.shape)
    rank = max(x.rank, 0)
    if capacity == 0:
        return b.tensor(b.empty("int64", [rank, 0]), "int64", [rank, 0])
    if rank == 0:
        flag = b.reshape(x, [1])
        return b.slice(b.constant([[0]], "int64"), [0, 0], [0, _count(node, flag)])

    def body(at: list[Scalar], found: ir.Value, count: ir.Value) -> list[ir.Value]:
        value = b.element(source, x.dtype, at)
        place = convert(Scalar(b.element(count, "int64", [0]).value, "int64"), "index")
        # Written at the end of what was found; if the element is zero the next one overwrites it.
        for axis, i in enumerate(at):
            found = store(convert(i, "int64"), "int64", found, [axis, place])
        hit = value if value.dtype == "bool" else value != 0
        return [found, store(convert(place, "int64") + convert(hit, "int64"), "int64", count, [0])]

    found, count = for_each(x.shape, [b.empty("int64", [rank, capacity]), b.init(0, "int64", [1])], body)
    return b.slice(b.tensor(found, "int64", [rank, capacity]), [0, 0], [rank, read_extent(b, count)])


def _count(node: Node, x: Tensor) -> Extent:
    b = node.b
    total = b.reduce(x, [0], 0, lambda v, acc: acc + convert(convert(v, "bool"), "int64"), dtype="int64")
    return read_extent(b, b.value(b.reshape(total, [1])))


@op("Compress", since=9)
def compress(node: Node, x: Tensor, condition: Tensor) -> Tensor:
    """The slices along ``axis`` (of the flattened input without it) where ``condition`` holds."""
    b = node.b
    if not node.has("axis"):
        x, axis = b.reshape(x, [b.extents.product(x.shape)]), 0
    else:
        axis = node.axis(node.attr("axis"), x.rank)
    condition = b.refine(condition, [None], "condition")
    length = condition.shape[0]
    flags = b.value(condition)

    def body(i: Scalar, found: ir.Value, count: ir.Value) -> list[ir.Value]:
        place = b.element(count, "int64", [0])
        found = store(convert(i, "int64"), "int64", found, [convert(place, "index")])
        hit = convert(b.element(flags, "bool", [i]), "int64")
        return [found, store(place + hit, "int64", count, [0])]

    found, count = for_range(0, length, [b.empty("int64", [length]), b.init(0, "int64", [1])], body)
    kept = read_extent(b, count)
    source = b.value(x)

    def pick(at: list[Scalar]) -> Scalar:
        chosen = convert(b.element(found, "int64", [at[axis]]), "index")
        return b.element(source, x.dtype, [*at[:axis], chosen, *at[axis + 1 :]])

    return b.indexed(x.dtype, [*x.shape[:axis], kept, *x.shape[axis + 1 :]], pick)


@op("Unique", since=11)
def unique(node: Node, x: Tensor) -> list[Tensor]:
    """Distinct slices along ``axis`` (elements without it) with first positions, inverse and counts.

    Raises InvalidNode for an axis out of range.
    """
    b = node.b
    in_order = bool(node.attr("sorted", 1))
    if not node.has("axis"):
        return distinct(node, b.reshape(x, [b.extents.product(x.shape)]), in_order)[: node.output_count]
    axis = node.axis(node.attr("axis"), x.rank)
    order = [axis] + [a for a in range(x.rank) if a != axis]
    values, *rest = distinct(node, b.transpose(x, order), in_order)
    values = b.transpose(values, [order.index(a) for a in range(x.rank)])
    return [values, *rest][: node.output_count]


def distinct(node: Node, moved: Tensor, in_order: bool) -> list[Tensor]:
    """Distinct slices along the first dimension, their first positions, the number of each slice, and the counts.

    A stable sort brings equal slices together, the first of each group first; groups are then numbered in sorted order
    (``in_order``) or in the order of their first slice.
    """
    b = node.b
    count = moved.shape[0]
    width = b.extents.product(moved.shape[1:])
    slices = b.reshape(moved, [count, width])
    source = b.value(slices)
    compare = _slice_order(node, source, moved.dtype, width)
    order_of = b.value(argsort(b, 1, count, lambda _, i, j: compare(i, j) < 0))

    def group(t: Scalar, *state: ir.Value) -> list[ir.Value]:
        numbers, firsts, counts, total = state
        item = convert(b.element(order_of, "int64", [0, t]), "index")
        previous = convert(b.element(order_of, "int64", [0, scalars.maximum(t - 1, 0)]), "index")
        new = (t == 0) | (compare(previous, item) != 0)
        groups = b.element(total, "int64", [0]) + convert(new, "int64")
        place = convert(groups, "index") - 1
        numbers = store(groups - 1, "int64", numbers, [item])
        first = select(new, convert(item, "int64"), b.element(firsts, "int64", [place]))
        size = select(new, constant(0, "int64"), b.element(counts, "int64", [place])) + 1
        return [
            numbers,
            store(first, "int64", firsts, [place]),
            store(size, "int64", counts, [place]),
            store(groups, "int64", total, [0]),
        ]

    state = [b.init(0, "int64", [count]) for _ in range(3)] + [b.init(0, "int64", [1])]
    numbers, firsts, counts, total = for_range(0, count, state, group)
    groups = read_extent(b, total)
    if not in_order:
        numbers, firsts, counts = _in_order_of_appearance(node, count, numbers, firsts, counts)
    first_of = b.slice(b.tensor(firsts, "int64", [count]), [0], [groups])
    count_of = b.slice(b.tensor(counts, "int64", [count]), [0], [groups])
    chosen = b.value(first_of)

    def pick(at: list[Scalar]) -> Scalar:
        return b.element(source, moved.dtype, [convert(b.element(chosen, "int64", [at[0]]), "index"), at[1]])

    values = b.reshape(b.indexed(moved.dtype, [groups, width], pick), [groups, *moved.shape[1:]])
    return [values, first_of, b.tensor(numbers, "int64", [count]), count_of]


def _slice_order(node: Node, source: ir.Value, dtype: str, width: Extent) -> Callable[[Scalar, Scalar], Scalar]:
    """Compare two slices lexicographically: -1, 0 or 1 as an int32 scalar."""
    b = node.b

    def compare(i: Scalar, j: Scalar) -> Scalar:
        def element(at: Scalar, result: ir.Value) -> ir.Value:
            u, v = b.element(source, dtype, [i, at]), b.element(source, dtype, [j, at])
            sign = select(_less(u, v), constant(-1, "int32"), select(_less(v, u), constant(1, "int32"), 0))
            known = Scalar(result, "int32")
            return select(known != 0, known, sign).value

        return Scalar(for_range(0, width, [constant(0, "int32").value], element)[0], "int32")

    return compare


def _less(u: Scalar, v: Scalar) -> Scalar:
    return (~u) & v if u.dtype == "bool" else u < v


def _in_order_of_appearance(
    node: Node, count: Extent, numbers: ir.Value, firsts: ir.Value, counts: ir.Value
) -> list[ir.Value]:
    b = node.b

    def visit(i: Scalar, *state: ir.Value) -> list[ir.Value]:
        new_numbers, new_firsts, new_counts, renamed, total = state
        old = convert(b.element(numbers, "int64", [i]), "index")
        first = b.element(firsts, "int64", [old]) == convert(i, "int64")
        next_ = b.element(total, "int64", [0])
        number = select(first, next_, b.element(renamed, "int64", [old]))
        place = convert(number, "index")
        return [
            store(number, "int64", new_numbers, [i]),
            store(b.element(firsts, "int64", [old]), "int64", new_firsts, [place]),
            store(b.element(counts, "int64", [old]), "int64", new_counts, [place]),
            store(number, "int64", renamed, [old]),
            store(next_ + convert(first, "int64"), "int64", total, [0]),
        ]

    state = [b.init(0, "int64", [count]) for _ in range(4)] + [b.init(0, "int64", [1])]
    return for_range(0, count, state, visit)[:3]
