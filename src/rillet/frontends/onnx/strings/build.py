"""New strings: their lengths first, whose sum the host reads, then their bytes, one string after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch_mlir import ir

from rillet.frontends.building.builder import Builder
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.loops import for_range, read_extent, store
from rillet.frontends.building.scalars import Scalar, constant, maximum, select
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.onnx.strings.ranges import Reader
from rillet.frontends.onnx.strings.tensor import StringTensor, from_packed
from rillet.ir.builders import Extent


def build(
    b: Builder,
    shape: Sequence[Extent],
    length: Callable[[Scalar], Scalar],
    write: Callable[[Scalar, Scalar, ir.Value], ir.Value],
) -> StringTensor:
    """A tensor of new strings, for each row-major position.

    ``length(position)`` gives a string's number of bytes, and ``write(position, at, data)`` the uint8 tensor ``data``
    with exactly these bytes stored from ``at`` on. Both are called in device loops and get index scalars.
    """
    count = b.extents.product(shape)

    def measure(position: Scalar, ends: ir.Value, total: ir.Value) -> list[ir.Value]:
        end = b.element(total, "int64", [0]) + convert(length(position), "int64")
        return [store(end, "int64", ends, [position]), store(end, "int64", total, [0])]

    ends, total = for_range(0, count, [b.empty("int64", [count]), b.init(0, "int64", [1])], measure)
    size = read_extent(b, total)

    def fill(position: Scalar, data: ir.Value) -> ir.Value:
        before = convert(b.element(ends, "int64", [maximum(position - 1, 0)]), "index")
        return write(position, select(position == 0, constant(0, "index"), before), data)

    data = for_range(0, count, [b.empty("uint8", [size])], fill)[0]
    packed = b.reshape(b.tensor(ends, "int64", [count]), shape)
    return from_packed(b, packed, b.tensor(data, "uint8", [size]))


def packed(b: Builder, x: StringTensor) -> tuple[Tensor, Tensor]:
    """The ends and bytes of a tensor's strings, one after the other in row-major order."""
    if x.ends is not None:
        return x.ends, x.data
    source = Reader(b, x)
    result = build(
        b,
        x.shape,
        lambda position: source.range(position).length,
        lambda position, at, data: source.copy(source.range(position), data, at),
    )
    assert result.ends is not None
    return result.ends, result.data
