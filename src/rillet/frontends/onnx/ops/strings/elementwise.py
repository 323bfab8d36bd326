"""StringConcat, and Equal on strings."""

from __future__ import annotations

from torch_mlir import ir

from rillet.frontends.building.loops import for_range, store
from rillet.frontends.building.scalars import Scalar
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.registry import op
from rillet.frontends.onnx.strings.build import build
from rillet.frontends.onnx.strings.ranges import Reader, same
from rillet.frontends.onnx.strings.tensor import StringTensor
from rillet.ir.builders import Extent


def _broadcast(node: Node, a: StringTensor, b: StringTensor) -> tuple[list[Extent], Reader, Reader]:
    """The common shape of two operands, and readers of their elements at positions of that shape."""
    shape = node.b.broadcast_shape([a.shape, b.shape])
    readers = [Reader(node.b, x.with_ids(node.b.broadcast_exactly(x.ids, shape))) for x in (a, b)]
    return shape, readers[0], readers[1]


@op("StringConcat", since=20, strings=True)
def string_concat(node: Node, a: StringTensor, b: StringTensor) -> StringTensor:
    """The strings of a with those of b after them, broadcast to one shape."""
    shape, left, right = _broadcast(node, a, b)

    def length(position: Scalar) -> Scalar:
        return left.range(position).length + right.range(position).length

    def write(position: Scalar, at: Scalar, data: ir.Value) -> ir.Value:
        head = left.range(position)
        data = left.copy(head, data, at)
        return right.copy(right.range(position), data, at + head.length)

    return build(node.b, shape, length, write)


@op("Equal", since=19, strings=True)
def equal(node: Node, a: StringTensor, b: StringTensor) -> Tensor:
    """Whether the strings are equal byte for byte, as bool, broadcast to one shape."""
    shape, left, right = _broadcast(node, a, b)
    count = node.b.extents.product(shape)

    def one(position: Scalar, result: ir.Value) -> ir.Value:
        alike = same(left, left.range(position), right, right.range(position))
        return store(alike, "bool", result, [position])

    flags = for_range(0, count, [node.b.empty("bool", [count])], one)[0]
    return node.b.reshape(node.b.tensor(flags, "bool", [count]), shape)
