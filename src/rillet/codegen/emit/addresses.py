"""Where a linear access reads or writes: its operand's memory, laid out flat, with a stride for each loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rillet.codegen import index
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.memory import Buffer, reshape_memref
from rillet.codegen.index import Index
from rillet.codegen.recognize.linear_access import Access, argument_of


@dataclass(frozen=True)
class Bound:
    """An access inside a kernel: element ``base + sum(strides[l] * loop_l)`` of a flat memref."""

    memref: ir.Value
    base: Index
    strides: tuple[Index, ...]
    panel_stride: Index = 0

    def offset(self, coordinates: dict[int, Index]) -> Index:
        """The position of the element at these loop coordinates (absent loops are at 0)."""
        total = self.base
        for loop, coordinate in coordinates.items():
            total = index.add(total, index.mul(coordinate, self.strides[loop]))
        return total


def bind(kernel: KernelBuilder, access: Access, memref: ir.Value) -> Bound:
    """Lay ``access`` over ``memref``, the tensor's row-major contents."""
    extents: Sequence[Index] = access.shape if access.together > 1 else kernel.extents(access.value)
    count = len(access.axes[0].coefficients) if access.axes else 0
    strides: list[Index] = [0] * count
    base: Index = 0
    step: Index = 1
    panel_stride: Index = 0
    for axis in reversed(range(len(extents))):
        form, extent = access.axes[axis], extents[axis]
        base = index.add(base, index.mul(form.constant, step))
        for loop, coefficient in enumerate(form.coefficients):
            if coefficient:
                strides[loop] = index.add(strides[loop], index.mul(coefficient, step))
        if axis == access.panel_axis:
            panel_stride = step
        step = index.mul(step, extent)
    return Bound(reshape_memref(memref, [step]), base, tuple(strides), panel_stride)


def bind_argument(kernel: KernelBuilder, access: Access) -> Bound:
    """Lay ``access``, which reads an argument of the kernel, over its memory; in a stage that may be a tile."""
    port = argument_of(kernel.function, access.value)
    assert port is not None
    buffer = kernel.buffer(port)
    if port.value in kernel.tiles:
        return bind_tile(kernel, access, buffer)
    return bind(kernel, access, buffer.memref)


def bind_tile(kernel: KernelBuilder, access: Access, tile: Buffer) -> Bound:
    """Lay ``access`` over a part of its tensor: a row-major block that has every axis whole except the first."""
    extents = kernel.extents(access.value)
    strides: list[Index] = [0] * len(access.axes[0].coefficients)
    base: Index = 0
    step: Index = 1
    for axis, origin in reversed(list(zip(tile.axes, tile.origin, strict=True))):
        form = access.axes[axis]
        base = index.add(base, index.mul(index.sub(form.constant, origin), step))
        for loop, coefficient in enumerate(form.coefficients):
            if coefficient:
                strides[loop] = index.add(strides[loop], index.mul(coefficient, step))
        step = index.mul(step, extents[axis])
    return Bound(reshape_memref(tile.memref, [step]), base, tuple(strides))
