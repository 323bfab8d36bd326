"""Gathers: generics whose bodies read the data at run-time indices."""

from __future__ import annotations

from rillet.frontends.building import element_types
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.scalars import Scalar, select
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.shape import scalar_of
from rillet.frontends.onnx.registry import op
from rillet.ir import builders
from rillet.ir.builders import Extent


def position(index: Scalar, extent: Scalar) -> Scalar:
    """An ONNX index as a position: negative ones count from the end. Both are ``index`` scalars."""
    return select(index < 0, index + extent, index)


@op("Gather")
def gather(node: Node, data: Tensor, indices: Tensor) -> Tensor:
    """data[..., indices, ...] along ``axis``; a constant scalar index is a slice."""
    return gather_along(node, data, indices, node.axis(node.attr("axis", 0), data.rank))


def gather_along(node: Node, data: Tensor, indices: Tensor, axis: int, from_end: bool = True) -> Tensor:
    """``gather`` along a non-negative axis; negative indices count from the end with ``from_end``, else they are out of
    bounds.
    """
    b = node.b
    if indices.array is not None and indices.array.size == 1 and (from_end or indices.array.reshape(-1)[0] >= 0):
        single = _slice(node, data, axis, int(indices.array.reshape(-1)[0]))
        return b.reshape(single, [*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :]])
    shape = [*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :]]
    loops = builders.dims(len(shape))
    source, extent = b.value(data), scalar_of(data.shape[axis])
    negative = from_end and element_types.is_signed(indices.dtype)

    def body(i: Scalar, _: Scalar) -> Scalar:
        at = [Scalar(_loop(d), "index") for d in range(len(shape))]
        chosen = convert(i, "index")
        chosen = position(chosen, extent) if negative else chosen
        return b.element(source, data.dtype, [*at[:axis], chosen, *at[axis + indices.rank :]])

    output = (b.empty(data.dtype, shape), loops, data.dtype, shape)
    return b.generic([(indices, loops[axis : axis + indices.rank])], [output], "p" * len(shape), body)[0]


def _loop(axis: int) -> builders.ir.Value:
    from rillet.dialects import linalg

    return linalg.IndexOp(axis).result


def _slice(node: Node, data: Tensor, axis: int, index: int) -> Tensor:
    extent = data.shape[axis]
    if isinstance(extent, int) and not -extent <= index < extent:
        raise InvalidNode(f"index {index} is out of range for extent {extent} of axis {axis}")
    offset: Extent = index if index >= 0 else node.b.extents.add(extent, index)
    return node.b.slice_axis(data, axis, offset, 1)


@op("GatherElements", since=11)
def gather_elements(node: Node, data: Tensor, indices: Tensor) -> Tensor:
    """y[i, j, ...] = data[..., indices[i, j, ...], ...]: the index replaces the position along ``axis``.

    The result has the indices' shape; negative indices count from the end.
    """
    b = node.b
    axis = node.axis(node.attr("axis", 0), data.rank)
    source, extent = b.value(data), scalar_of(data.shape[axis])
    rank = indices.rank

    def body(i: Scalar, _: Scalar) -> Scalar:
        at = [Scalar(_loop(d), "index") for d in range(rank)]
        at[axis] = position(convert(i, "index"), extent)
        return b.element(source, data.dtype, at)

    loops = builders.dims(rank)
    output = (b.empty(data.dtype, indices.shape), loops, data.dtype, indices.shape)
    return b.generic([(indices, loops)], [output], "p" * rank, body)[0]


@op("GatherND", since=11)
def gather_nd(node: Node, data: Tensor, indices: Tensor) -> Tensor:
    """The last dimension of ``indices`` holds positions in the dimensions of ``data`` after the batch dimensions.

    Raises InvalidNode where these dimensions do not fit, and UnsupportedFeature where their number is not known.
    """
    b = node.b
    batch = node.attr("batch_dims", 0)
    depth = indices.shape[-1]
    if not isinstance(depth, int):  # the declared rank of the result may tell
        rank = node.declared_rank(0)
        if rank is None:
            raise UnsupportedFeature(
                "the last dimension of the indices is not known", "pin the shape of the indices or declare the result's"
            )
        depth = indices.rank - 1 + data.rank - batch - rank
        indices = b.refine(indices, [*indices.shape[:-1], depth])
    if not 1 <= depth <= data.rank - batch:
        raise InvalidNode(
            f"indices of {depth} dimensions do not fit data of rank {data.rank} with {batch} batch dimensions"
        )
    if batch:
        rest: list[Extent | None] = [None] * (indices.rank - batch)
        indices = b.refine(indices, [*data.shape[:batch], *rest], "indices")
    source, positions = b.value(data), b.value(indices)
    lead = indices.rank - 1
    shape = [*indices.shape[:-1], *data.shape[batch + depth :]]
    extents = [scalar_of(d) for d in data.shape[batch : batch + depth]]

    def body(at: list[Scalar]) -> Scalar:
        chosen = [
            position(convert(b.element(positions, indices.dtype, [*at[:lead], j]), "index"), extents[j])
            for j in range(depth)
        ]
        return b.element(source, data.dtype, [*at[:batch], *chosen, *at[lead:]])

    return b.indexed(data.dtype, shape, body)
