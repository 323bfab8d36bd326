"""Scatter, ScatterElements, ScatterND, TensorScatter: device loops over the updates, in order."""

from __future__ import annotations

from collections.abc import Callable

from torch_mlir import ir

from rillet.frontends.building.conversions import convert
from rillet.frontends.building.loops import for_each, scalar_of, store
from rillet.frontends.building.scalars import Scalar, maximum, minimum
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.gather import position
from rillet.frontends.onnx.registry import op

_COMBINE: dict[str, Callable[[Scalar, Scalar], Scalar]] = {
    "none": lambda old, new: new,
    "add": lambda old, new: (old | new) if old.dtype == "bool" else old + new,
    "mul": lambda old, new: (old & new) if old.dtype == "bool" else old * new,
    "max": maximum,
    "min": minimum,
}


def _combine(node: Node) -> Callable[[Scalar, Scalar], Scalar]:
    name = node.attr("reduction", "none")
    if name not in _COMBINE:
        raise InvalidNode(f"reduction '{name}' is not one of {', '.join(_COMBINE)}")
    return _COMBINE[name]


@op("Scatter", since=9)
@op("ScatterElements", since=11)
def scatter_elements(node: Node, data: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """result[.., indices[.., i, ..], ..] = updates[.., i, ..] along ``axis``, combined with ``reduction``.

    Raises InvalidNode when the ranks differ.
    """
    b = node.b
    if not data.rank == indices.rank == updates.rank:
        raise InvalidNode(f"data, indices and updates have ranks {data.rank}, {indices.rank} and {updates.rank}")
    updates = b.refine(updates, indices.shape, "updates")
    axis = node.axis(node.attr("axis", 0), data.rank)
    combine = _combine(node)
    extent = scalar_of(data.shape[axis])
    where, source = b.value(indices), b.value(updates)

    def body(at: list[Scalar], result: ir.Value) -> ir.Value:
        target = list(at)
        target[axis] = position(convert(b.element(where, indices.dtype, at), "index"), extent)
        new = b.element(source, updates.dtype, at)
        value = combine(b.element(result, data.dtype, target), new) if combine is not _COMBINE["none"] else new
        return store(value, data.dtype, result, target)

    return b.tensor(for_each(indices.shape, [b.value(data)], body)[0], data.dtype, data.shape)


@op("ScatterND", since=11)
def scatter_nd(node: Node, data: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """The last dimension of ``indices`` holds positions in the first dimensions of ``data``; updates are slices.

    Raises InvalidNode where their number does not fit ``data``.
    """
    b = node.b
    # The depth follows from the ranks too, however little is known of the dimensions.
    depth = indices.rank - 1 + data.rank - updates.rank
    if not 1 <= depth <= data.rank:
        raise InvalidNode(f"indices of {depth} dimensions do not fit data of rank {data.rank}")
    lead = indices.rank - 1
    combine = _combine(node)
    extents = [scalar_of(d) for d in data.shape[:depth]]

    def body(at: list[Scalar], result: ir.Value) -> ir.Value:
        chosen = [
            position(convert(b.element(where, indices.dtype, [*at[:lead], j]), "index"), extents[j])
            for j in range(depth)
        ]
        target = [*chosen, *at[lead:]]
        new = b.element(source, updates.dtype, at)
        value = combine(b.element(result, data.dtype, target), new) if combine is not _COMBINE["none"] else new
        return store(value, data.dtype, result, target)

    indices = b.refine(indices, [*indices.shape[:-1], depth])
    shape = [*indices.shape[:-1], *data.shape[depth:]]
    updates = b.refine(updates, shape, "updates")
    where, source = b.value(indices), b.value(updates)
    return b.tensor(for_each(shape, [b.value(data)], body)[0], data.dtype, data.shape)


@op("TensorScatter", since=24)
def tensor_scatter(node: Node, past: Tensor, update: Tensor, write_indices: Tensor | None = None) -> Tensor:
    """Write ``update`` into a cache from a position of its own for each batch; ``circular`` wraps around.

    Raises InvalidNode for axis 0, which is the batch.
    """
    b = node.b
    axis = node.axis(node.attr("axis", -2), past.rank)
    if axis == 0:
        raise InvalidNode("axis 0 is the batch")
    update = b.refine(update, [None if a == axis else d for a, d in enumerate(past.shape)], "update")
    if write_indices is not None:
        write_indices = b.refine(write_indices, past.shape[:1], "write_indices")
    circular = node.attr("mode", "linear") == "circular"
    extent = scalar_of(past.shape[axis])
    source = b.value(update)
    starts = b.value(write_indices) if write_indices is not None else None

    def body(at: list[Scalar], result: ir.Value) -> ir.Value:
        target = list(at)
        if starts is not None and write_indices is not None:
            target[axis] = at[axis] + convert(b.element(starts, write_indices.dtype, [at[0]]), "index")
        if circular:
            target[axis] = target[axis] % extent
        return store(b.element(source, update.dtype, at), past.dtype, result, target)

    return b.tensor(for_each(update.shape, [b.value(past)], body)[0], past.dtype, past.shape)
