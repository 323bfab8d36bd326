"""OneHot, Trilu, ReverseSequence, Col2Im, MaxUnpool, Det: ops that compute with positions."""

from __future__ import annotations

from torch_mlir import ir

from rillet.dialects import linalg
from rillet.frontends.building import element_types
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.loops import for_each, for_range, scalar_of, store
from rillet.frontends.building.scalars import Scalar, absolute, constant, select
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.registry import op
from rillet.ir.builders import Extent


def _loop(axis: int) -> Scalar:
    return Scalar(linalg.IndexOp(axis).result, "index")


@op("OneHot", since=9)
def one_hot(node: Node, indices: Tensor, depth: Tensor, values: Tensor) -> Tensor:
    """values[1] where the position along the new ``axis`` is the index, else values[0], also where the index is out of
    range.

    Raises InvalidNode unless ``depth`` is one number.
    """
    b = node.b
    counts = b.extents_of(_whole(node, depth), "depth", 1)
    if len(counts) != 1:
        raise InvalidNode(f"depth has {len(counts)} elements; it is one number")
    (count,) = counts
    values = b.refine(values, [2], "values")
    axis = node.axis(node.attr("axis", -1), indices.rank + 1)
    source, pair = b.value(indices), b.value(values)
    extent = scalar_of(count)

    def body(at: list[Scalar]) -> Scalar:
        wanted = convert(convert(b.element(source, indices.dtype, [*at[:axis], *at[axis + 1 :]]), "int64"), "index")
        wanted = select(wanted < 0, wanted + extent, wanted)
        off, on = b.element(pair, values.dtype, [0]), b.element(pair, values.dtype, [1])
        return select(at[axis] == wanted, on, off)

    return b.indexed(values.dtype, [*indices.shape[:axis], count, *indices.shape[axis:]], body)


def _whole(node: Node, tensor: Tensor) -> Tensor:
    return tensor if element_types.is_signed(tensor.dtype) else node.b.cast(tensor, "int64")


@op("Trilu", since=14)
def trilu(node: Node, x: Tensor, k: Tensor | None = None) -> Tensor:
    """The upper or lower triangle from diagonal ``k``; the rest is zero. Raises InvalidNode for a rank below 2."""
    b = node.b
    if x.rank < 2:
        raise InvalidNode(f"the input has rank {x.rank}; it must have at least 2 dimensions")
    shift = constant(0, "index") if k is None else convert(b.scalar(k), "index")
    upper = node.attr("upper", 1)

    def body(v: Scalar) -> Scalar:
        row, column = _loop(x.rank - 2), _loop(x.rank - 1)
        kept = column >= row + shift if upper else column <= row + shift
        return select(kept, v, 0)

    return b.map(body, x)


@op("ReverseSequence", since=10)
def reverse_sequence(node: Node, x: Tensor, lengths: Tensor) -> Tensor:
    """The first ``lengths[batch]`` steps of each sequence in reverse order.

    Raises InvalidNode unless time and batch are the axes 0 and 1.
    """
    b = node.b
    time, batch = node.attr("time_axis", 0), node.attr("batch_axis", 1)
    if {time, batch} != {0, 1}:
        raise InvalidNode(f"time_axis {time} and batch_axis {batch} must be 0 and 1")
    source, counts = b.value(x), b.value(b.refine(lengths, [x.shape[batch]], "sequence_lens"))

    def body(at: list[Scalar]) -> Scalar:
        length = convert(b.element(counts, lengths.dtype, [at[batch]]), "index")
        place = list(at)
        place[time] = select(at[time] < length, length - at[time] - 1, at[time])
        return b.element(source, x.dtype, place)

    return b.indexed(x.dtype, x.shape, body)


@op("Col2Im", since=18)
def col2im(node: Node, x: Tensor, image_shape: Tensor, block_shape: Tensor) -> Tensor:
    """Columns [N, C * block, L] added up at the positions that they came from, without those in the padding."""
    b, e = node.b, node.b.extents
    image, block = b.extents_of(image_shape, "image_shape"), b.extents_of(block_shape, "block_shape")
    rank = len(image)
    pads = node.attr("pads", None) or [0] * (2 * rank)
    strides = node.attr("strides", None) or [1] * rank
    dilations = node.attr("dilations", None) or [1] * rank
    counts: list[Extent] = []
    for axis in range(rank):
        window = e.add(e.mul(e.sub(block[axis], 1), dilations[axis]), 1)
        span = e.sub(e.add(image[axis], pads[axis] + pads[rank + axis]), window)
        counts.append(e.add(e.floordiv(span, strides[axis]), 1))
    channels = e.floordiv(x.shape[1], e.product(block))
    x = b.refine(x, [None, e.mul(channels, e.product(block)), e.product(counts)], "input")
    columns = b.reshape(x, [x.shape[0], channels, *block, *counts])
    source = b.value(columns)
    shape = [x.shape[0], channels, *image]

    def body(at: list[Scalar], result: ir.Value) -> ir.Value:
        within, place = at[2 : 2 + rank], at[2 + rank :]
        target = []
        inside = constant(True, "bool")
        for axis in range(rank):
            position = place[axis] * strides[axis] + within[axis] * dilations[axis] - pads[axis]
            valid = (position >= 0) & (position < scalar_of(image[axis]))
            inside = inside & valid
            target.append(select(valid, position, 0))
        value = select(inside, b.element(source, x.dtype, at), 0)
        old = b.element(result, x.dtype, [*at[:2], *target])
        return store(old + value, x.dtype, result, [*at[:2], *target])

    return b.tensor(for_each(columns.shape, [b.init(0, x.dtype, shape)], body)[0], x.dtype, shape)


@op("MaxUnpool", since=9)
def max_unpool(node: Node, x: Tensor, indices: Tensor, output_shape: Tensor | None = None) -> Tensor:
    """Values at the flat positions where MaxPool found them; zero elsewhere."""
    b, e = node.b, node.b.extents
    kernel = node.attr("kernel_shape")
    rank = len(kernel)
    strides = node.attr("strides", None) or [1] * rank
    pads = node.attr("pads", None) or [0] * (2 * rank)
    shape = list(x.shape[:2])
    for axis in range(rank):
        span = e.mul(e.sub(x.shape[2 + axis], 1), strides[axis])
        shape.append(e.add(span, kernel[axis] - pads[axis] - pads[rank + axis]))
    total = e.product(shape)
    source, places = b.value(x), b.value(b.refine(indices, x.shape, "I"))

    def body(at: list[Scalar], result: ir.Value) -> ir.Value:
        place = convert(b.element(places, indices.dtype, at), "index")
        return store(b.element(source, x.dtype, at), x.dtype, result, [place])

    flat = b.tensor(for_each(x.shape, [b.init(0, x.dtype, [total])], body)[0], x.dtype, [total])
    result = b.reshape(flat, shape)
    if output_shape is None:
        return result
    target = b.extents_of(output_shape, "output_shape", x.rank)
    return b.pad(result, [0] * len(shape), [e.sub(t, s) for t, s in zip(target, shape, strict=True)])


@op("Det", since=11)
def det(node: Node, x: Tensor) -> Tensor:
    """The product of the pivots of a Gaussian elimination with partial pivoting."""
    b, e = node.b, node.b.extents
    size = x.shape[-1]
    batch = list(x.shape[:-2])
    count = e.product(batch)
    compute = element_types.compute_dtype(x.dtype)
    matrices = b.cast(b.reshape(x, [count, size, size]), compute)

    def eliminate(n: Scalar, work: ir.Value, result: ir.Value) -> list[ir.Value]:
        def column(k: Scalar, work: ir.Value, product: ir.Value) -> list[ir.Value]:
            def best(i: Scalar, at: ir.Value) -> ir.Value:
                found = Scalar(at, "index")
                better = absolute(b.element(work, compute, [n, i, k])) > absolute(
                    b.element(work, compute, [n, found, k])
                )
                return select(better, i, found).value

            pivot = Scalar(for_range(k, size, [k.value], best)[0], "index")

            def swap(j: Scalar, work: ir.Value) -> ir.Value:
                upper, lower = b.element(work, compute, [n, k, j]), b.element(work, compute, [n, pivot, j])
                return store(upper, compute, store(lower, compute, work, [n, k, j]), [n, pivot, j])

            work = for_range(0, size, [work], swap)[0]
            head = b.element(work, compute, [n, k, k])
            singular = head == 0.0
            safe = select(singular, constant(1.0, compute), head)

            def rows(i: Scalar, work: ir.Value) -> ir.Value:
                factor = b.element(work, compute, [n, i, k]) / safe

                def subtract(j: Scalar, work: ir.Value) -> ir.Value:
                    value = b.element(work, compute, [n, i, j]) - factor * b.element(work, compute, [n, k, j])
                    return store(value, compute, work, [n, i, j])

                return for_range(k, size, [work], subtract)[0]

            work = for_range(k + 1, size, [work], rows)[0]
            before = Scalar(product, compute)
            signed = select(pivot == k, before, -before)
            return [work, (signed * head).value]

        work, product = for_range(0, size, [work, constant(1.0, compute).value], column)
        return [work, store(Scalar(product, compute), x.dtype, result, [n])]

    start = [b.value(matrices), b.empty(x.dtype, [count])]
    return b.reshape(b.tensor(for_range(0, count, start, eliminate)[1], x.dtype, [count]), batch)
