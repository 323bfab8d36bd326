"""The operands of a windowed reduction: each one's elements at the positions of a window, each read once for a tile."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch_mlir import ir
from torch_mlir.dialects import vector

from rillet.codegen import index
from rillet.codegen.coordinates import Coordinate, Lane
from rillet.codegen.cpu.windowed.padding import Base, PaddedInput, Places, Range, range_of
from rillet.codegen.cpu.windowed.plan import WindowedPlan
from rillet.codegen.emit import memory
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.memory import Buffer, reshape_memref
from rillet.codegen.emit.values import broadcast
from rillet.codegen.index import Index
from rillet.codegen.recognize.linear_access import Access, GroupedAccess, argument_of


@dataclass
class Loaded:
    """Values read for a tile, by operand, distance and mask; and the places chosen for padded operands."""

    values: dict[tuple[object, tuple[int, ...], ir.Value | None], ir.Value] = field(default_factory=dict)
    places: dict[object, Places] = field(default_factory=dict)


class Input:
    """One operand as flat memory. The part of an address that is constant within a tile is kept apart, for each tensor
    axis, so that equal addresses are recognized."""

    def __init__(self, kernel: KernelBuilder, plan: WindowedPlan, which: Access):
        port = argument_of(kernel.function, which.value)
        assert port is not None
        column, lanes = plan.column_loop, plan.tile.lanes
        extents = kernel.extents(which.value)
        self.forms = which.axes
        self.strides: list[Index] = [index.product(extents[n + 1 :]) for n in range(len(extents))]
        flat = reshape_memref(kernel.argument(port.binding), [index.product(extents)])
        self.buffer = Buffer.whole(flat, port.type.element_type)
        self.grouped = which if isinstance(which, GroupedAccess) else None
        step = 1 if self.grouped else which.static_stride(column)
        assert step is not None
        self.step = step
        self.lanes = lanes
        self.column_loop = column
        self.padded = None if which.padding is None else PaddedInput(kernel, plan, which, flat, self.strides)

    def at(self, position: dict[int, Index], ranges: dict[int, Range]) -> Base:
        """The element at these loop coordinates; ``ranges``: the known ranges of those that are not constant."""
        column = 0 if self.grouped else index.mul(position[self.column_loop], self.step)
        around = {n: p for n, p in position.items() if self.grouped or n != self.column_loop}
        total: Index = 0
        coordinates: list[Index] = []
        for form, stride in zip(self.forms, self.strides, strict=True):
            coordinate: Index = form.constant
            for loop, value in around.items():
                if form.coefficients[loop]:
                    coordinate = index.add(coordinate, index.mul(value, form.coefficients[loop]))
            coordinates.append(coordinate)
            total = index.add(total, index.mul(coordinate, stride))
        if self.grouped:
            group = index.floordiv(position[self.grouped.group_loop], self.grouped.columns)
            total = index.add(total, index.mul(group, self.strides[-2]))
        known = tuple(range_of(form, around, ranges) for form in self.forms)
        return Base(total, column, tuple(coordinates), known)

    def shift(self, steps: dict[int, int]) -> tuple[int, ...]:
        """How far each axis moves when loops move by these steps."""
        moved = [sum(form.coefficients[loop] * n for loop, n in steps.items()) for form in self.forms]
        if self.grouped:
            moved[-2] = steps.get(self.grouped.group_loop, 0) // self.grouped.columns
        return tuple(moved)

    def load(self, base: Base, shift: tuple[int, ...], mask: ir.Value | None, loaded: Loaded) -> ir.Value:
        """The element, or the vector along the columns, ``shift`` away from ``base``; ``loaded``: earlier reads."""
        key = (self, shift, mask)
        if key not in loaded.values:
            loaded.values[key] = self._load(base, shift, mask, loaded)
        return loaded.values[key]

    def _load(self, base: Base, shift: tuple[int, ...], mask: ir.Value | None, loaded: Loaded) -> ir.Value:
        buffer = self.buffer
        if self.padded is None:
            offset = self._offset(base, shift)
        else:
            flat, offset = self.padded.place(base, shift, loaded.places.setdefault(self, {}))
            buffer = Buffer.whole(flat, buffer.element)
        if self.grouped:
            groups = self.lanes // self.grouped.columns
            if groups == 1:
                return broadcast(memory.load(buffer, [offset], 1), self.lanes)
            run = self._load_groups(base, (*shift[:-1], 0), groups, mask, loaded)
            elements = self.grouped.shape[-1]
            spread = [n // self.grouped.columns * elements + shift[-1] for n in range(self.lanes)]
            return vector.ShuffleOp(run, run, spread).result
        where: Coordinate = Lane(offset, self.step) if self.step and self.lanes > 1 else offset
        return memory.load(buffer, [where], self.lanes, mask)

    def _offset(self, base: Base, shift: tuple[int, ...]) -> Index:
        offset = index.add(base.offset, base.column)
        for n, stride in zip(shift, self.strides, strict=True):
            offset = index.add(offset, index.mul(stride, n))
        return offset

    def _load_groups(
        self, base: Base, shift: tuple[int, ...], groups: int, mask: ir.Value | None, loaded: Loaded
    ) -> ir.Value:
        """The elements of all groups in a vector, read once for all vectors made of them."""
        assert self.grouped is not None
        key = (self, (*shift, groups), mask)
        if key not in loaded.values:
            elements, columns = self.grouped.shape[-1], self.grouped.columns
            run = groups * elements
            if mask is not None:
                mask = vector.ShuffleOp(mask, mask, [n // elements * columns for n in range(run)]).result
            loaded.values[key] = memory.load(self.buffer, [Lane(self._offset(base, shift))], run, mask)
        return loaded.values[key]
