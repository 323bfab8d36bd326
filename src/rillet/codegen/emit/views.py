"""The parameters of ops that only move elements: slices, pads, concatenations, reshapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch_mlir import ir

from rillet.codegen import index
from rillet.codegen.index import Index
from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.ir.structured import DYNAMIC


class Scalars(Protocol):
    """The code that is being built, as far as it has a function's scalars and extents: a ``KernelBuilder``."""

    function: KernelFunction

    def scalar(self, value: ir.Value) -> ir.Value:
        """A scalar of the function as a value of the code."""
        ...

    def extents(self, value: ir.Value) -> list[Index]:
        """The extents of a tensor of the function."""
        ...


PAD_INTERIOR = 1  # the number of a pad's part, of ``parts``, that is not padding


def mixed(kernel: Scalars, static: Sequence[int], dynamic: Sequence[ir.Value]) -> list[Index]:
    """Static and dynamic values of an op's offset, size or stride list, in order."""
    values = iter(dynamic)
    return [kernel.scalar(next(values)) if s == DYNAMIC else s for s in static]


def slice_parameters(kernel: Scalars, op: ir.Operation) -> tuple[list[Index], list[Index], list[Index]]:
    """Offsets, sizes and strides of a ``tensor.extract_slice`` or ``tensor.insert_slice``."""
    segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    tensors = len(segments) - 3
    position = sum(segments[:tensors])
    lists = []
    for number, name in enumerate(("static_offsets", "static_sizes", "static_strides")):
        count = segments[tensors + number]
        static = list(ir.DenseI64ArrayAttr(op.attributes[name]))
        lists.append(mixed(kernel, static, list(op.operands)[position : position + count]))
        position += count
    return lists[0], lists[1], lists[2]


def kept_axes(rank: int, sizes: Sequence[Index], smaller: Sequence[object], smaller_type: ir.Type) -> set[int]:
    """Axes of a slice that remain in the rank-reduced tensor: unit sizes are dropped, from the front, until the ranks
    agree."""
    shape = list(ir.RankedTensorType(smaller_type).shape)
    kept: set[int] = set()
    position = 0
    for axis in range(rank):
        remaining_axes, remaining_shape = rank - axis, len(shape) - position
        unit = isinstance(sizes[axis], int) and sizes[axis] == 1
        matches = position < len(shape) and (not unit or shape[position] == 1)
        if matches and (not unit or remaining_axes == remaining_shape or shape[position] == 1):
            kept.add(axis)
            position += 1
    return kept


def pad_amounts(kernel: Scalars, op: ir.Operation) -> tuple[list[Index], list[Index]]:
    """Low and high padding of a ``tensor.pad``."""
    segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    operands = list(op.operands)
    low = mixed(kernel, list(ir.DenseI64ArrayAttr(op.attributes["static_low"])), operands[1 : 1 + segments[1]])
    high = mixed(kernel, list(ir.DenseI64ArrayAttr(op.attributes["static_high"])), operands[1 + segments[1] :])
    return low, high


def pad_value(kernel: Scalars, op: ir.Operation) -> ir.Value:
    """The scalar a ``tensor.pad`` pads with."""
    block = op.regions[0].blocks[0]
    yielded = list(block.operations)[-1].operation.operands[0]
    return kernel.scalar(yielded)


def parts(kernel: Scalars, op: ir.Operation, axis: int) -> list[Index]:
    """The boundaries, along ``axis``, of what a pad (before, interior, after) or a concatenation along that axis is put
    together from."""
    if op.name == "tensor.concat":
        return concat_starts(kernel, op)
    low, _ = pad_amounts(kernel, op)
    inner = kernel.extents(op.operands[0])[axis]
    return [0, low[axis], index.add(low[axis], inner), kernel.extents(op.results[0])[axis]]


def concat_starts(kernel: Scalars, op: ir.Operation) -> list[Index]:
    """Where each operand of a ``tensor.concat`` starts along the concatenated axis, and the end."""
    axis = ir.IntegerAttr(op.attributes["dim"]).value
    starts: list[Index] = [0]
    for operand in op.operands:
        starts.append(index.add(starts[-1], kernel.extents(operand)[axis]))
    return starts
