"""The parameters of ops that only move elements, as values of the code that is built."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir

from rillet.codegen import index
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.index import Index
from rillet.ir import extents
from rillet.ir.builders import Extent
from rillet.ir.extents import joined_axis

PAD_INTERIOR = 1  # the position of a pad's interior among its ``parts``


def box(kernel: KernelBuilder, op: ir.Operation) -> tuple[list[Index], list[Index], list[Index]]:
    """Offsets, sizes and strides of a ``tensor.extract_slice`` or ``tensor.insert_slice``."""
    offsets, sizes, strides = extents.box(op)
    return _values(kernel, offsets), _values(kernel, sizes), _values(kernel, strides)


def margins(kernel: KernelBuilder, pad: ir.Operation) -> tuple[list[Index], list[Index]]:
    """How far a ``tensor.pad`` extends each axis, before and after."""
    low, high = extents.margins(pad)
    return _values(kernel, low), _values(kernel, high)


def padding_value(kernel: KernelBuilder, pad: ir.Operation) -> ir.Value:
    """The scalar that a ``tensor.pad`` puts around its source."""
    return kernel.scalar(extents.padding_value(pad))


def parts(kernel: KernelBuilder, op: ir.Operation, axis: int) -> list[Index]:
    """The boundaries along ``axis`` between the parts of a pad (before, interior, after) or of a concatenation along
    it."""
    if op.name == "tensor.concat":
        return concat_starts(kernel, op)
    low, _ = margins(kernel, op)
    inner = kernel.extents(op.operands[0])[axis]
    return [0, low[axis], index.add(low[axis], inner), kernel.extents(op.results[0])[axis]]


def concat_starts(kernel: KernelBuilder, op: ir.Operation) -> list[Index]:
    """Where each operand of a ``tensor.concat`` starts along the concatenated axis, and the end."""
    axis = joined_axis(op)
    starts: list[Index] = [0]
    for operand in op.operands:
        starts.append(index.add(starts[-1], kernel.extents(operand)[axis]))
    return starts


def _values(kernel: KernelBuilder, entries: Sequence[Extent]) -> list[Index]:
    return [e if isinstance(e, int) else kernel.scalar(e) for e in entries]
