"""Sequence and optional ops, resolved during import: positions must be known then."""

from __future__ import annotations

from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.registry import op
from rillet.frontends.onnx.sequences import ABSENT, Absent, Structured, TensorSequence
from rillet.ir.builders import Extent

_MAX_PARTS = 4096  # of SplitToSequence, each of which becomes operations of its own


@op("SequenceConstruct", since=11)
def sequence_construct(node: Node, *tensors: Tensor) -> TensorSequence:
    """A sequence of the given tensors."""
    return TensorSequence(tensors[0].dtype, tensors)


@op("SequenceEmpty", since=11)
def sequence_empty(node: Node) -> TensorSequence:
    """A sequence without tensors, of the element type ``dtype`` (default: float32)."""
    return TensorSequence(node.dtype_attr("dtype", "float32"), ())


@op("SequenceLength", since=11)
def sequence_length(node: Node, sequence: TensorSequence) -> Tensor:
    """The number of tensors, an int64 scalar known at compile time."""
    return node.b.constant(len(sequence.items), "int64")


@op("SequenceAt", since=11)
def sequence_at(node: Node, sequence: TensorSequence, position: Tensor) -> Structured:
    """The tensor at a position; a negative one counts from the end. Raises InvalidNode when it is out of range."""
    return sequence.items[_position(node, position, len(sequence.items))]


@op("SequenceInsert", since=11)
def sequence_insert(
    node: Node, sequence: TensorSequence, tensor: Tensor, position: Tensor | None = None
) -> TensorSequence:
    """The sequence with a tensor before ``position`` (default: at the end)."""
    items = list(sequence.items)
    at = len(items) if position is None else _position(node, position, len(items) + 1, len(items))
    items.insert(at, tensor)
    return TensorSequence(tensor.dtype, tuple(items))


@op("SequenceErase", since=11)
def sequence_erase(node: Node, sequence: TensorSequence, position: Tensor | None = None) -> TensorSequence:
    """The sequence without the tensor at ``position`` (default: the last one)."""
    items = list(sequence.items)
    del items[len(items) - 1 if position is None else _position(node, position, len(items))]
    return TensorSequence(sequence.dtype, tuple(items))


def _position(node: Node, position: Tensor, count: int, length: int | None = None) -> int:
    """A position below ``count``; negative ones count from the end of the sequence."""
    value = int(node.b.known(position, "the position").reshape(-1)[0])
    at = value + (count if length is None else length) if value < 0 else value
    if not 0 <= at < count:
        raise InvalidNode(f"position {value} is out of range for a sequence of {length or count}")
    return at


@op("SplitToSequence", since=11)
def split_to_sequence(node: Node, x: Tensor, split: Tensor | None = None) -> TensorSequence:
    """x cut along ``axis`` into parts.

    A vector ``split`` has the size of each part. A scalar is the size of all parts; the last one may be smaller.
    Without ``split`` each part has one position, and ``keepdims=0`` drops its axis. Raises UnsupportedFeature when the
    number of parts depends on a run-time dimension or exceeds 4096. Raises InvalidNode for parts that are not positive.
    """
    b, e = node.b, node.b.extents
    axis = node.axis(node.attr("axis", 0), x.rank)
    extent = x.shape[axis]
    keep = node.attr("keepdims", 1) or split is not None
    sizes: list[Extent]
    if split is not None and split.rank == 1:
        sizes = b.extents_of(split, "split")
        b.require("eq", e.sum(sizes), extent, f"the parts have {{0}} positions together, but axis {axis} has {{1}}")
    else:
        chunk = 1 if split is None else int(b.known(split, "split").reshape(-1)[0])
        if not isinstance(extent, int):
            raise UnsupportedFeature("the number of parts depends on a run-time dimension", "pin the input shapes")
        if chunk <= 0:
            raise InvalidNode(f"split is {chunk}")
        if extent > _MAX_PARTS * chunk:
            raise UnsupportedFeature(
                f"it makes {-(-extent // chunk):,} parts; at most {_MAX_PARTS:,} are supported", "make larger parts"
            )
        sizes = [min(chunk, extent - at) for at in range(0, extent, chunk)]
    parts = []
    offset: Extent = 0
    for size in sizes:
        part = b.slice_axis(x, axis, offset, size)
        parts.append(part if keep else b.squeeze(part, [axis]))
        offset = e.add(offset, size)
    return TensorSequence(x.dtype, tuple(parts))


@op("ConcatFromSequence", since=11)
def concat_from_sequence(node: Node, sequence: TensorSequence) -> Tensor:
    """The sequence's tensors, one after the other along ``axis``, which is a new one with ``new_axis=1``.

    Raises InvalidNode for an empty one.
    """
    if not sequence.items:
        raise InvalidNode("the sequence is empty")
    b = node.b
    rank = sequence.items[0].rank
    if not node.attr("new_axis", 0):
        return b.concat(sequence.tensors, node.axis(node.attr("axis"), rank))
    axis = node.axis(node.attr("axis"), rank + 1)
    return b.concat([b.unsqueeze(t, [axis]) for t in sequence.tensors], axis)


# --- optionals ---


@op("Optional", since=15)
def optional(node: Node, value: Structured | None = None) -> Structured:
    """An optional that holds ``value``, or nothing. One that holds a value is represented by the value."""
    if value is None:
        node.attr("type")
        return ABSENT
    node.attr("type", None)
    return value


@op("OptionalHasElement", since=15)
def optional_has_element(node: Node, value: Structured | None = None) -> Tensor:
    """Whether the optional holds a value, a bool known at compile time."""
    return node.b.constant(value is not None and not isinstance(value, Absent))


@op("OptionalGetElement", since=15)
def optional_get_element(node: Node, value: Structured) -> Structured:
    """The value in an optional. Raises InvalidNode when it holds nothing."""
    if isinstance(value, Absent):
        raise InvalidNode("the optional holds nothing")
    return value
