"""Complex numbers in scratch memory, and tables of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import memref, vector

from rillet.codegen import index
from rillet.codegen.cpu.fourier.butterflies import Complex
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.values import broadcast
from rillet.codegen.index import Index


class Numbers(Protocol):
    """Complex numbers of one row or of several, which are read and written as many at a time as there are lanes."""

    @property
    def lanes(self) -> int:
        """The lanes of a register."""
        ...

    @property
    def step(self) -> int:
        """How many numbers of a row a register holds."""
        ...

    def load(self, number: Index, offset: int = 0) -> Complex:
        """The number ``number + offset``, or as many from there as a step has."""
        ...

    def store(self, number: Index, value: Complex, offset: int = 0) -> None:
        """Write what ``load`` reads there."""
        ...


@dataclass(frozen=True)
class Workspace:
    """Numbers of ``lanes`` rows side by side: for each number its real parts, then its imaginary parts. They begin at
    element ``first``."""

    memref: ir.Value
    lanes: int
    first: Index = 0
    step = 1

    @staticmethod
    def local(kernel: KernelBuilder, count: int, lanes: int, element: ir.Type) -> Workspace:
        """Scratch memory for ``count`` numbers of each row."""
        return Workspace(kernel.local([2 * count * lanes], element), lanes)

    def load(self, number: Index, offset: int = 0) -> Complex:
        """The number ``number + offset`` of each row."""
        return Complex(*(load(self.memref, self.part(number, offset, part), self.lanes) for part in range(2)))

    def store(self, number: Index, value: Complex, offset: int = 0) -> None:
        """Write the number ``number + offset`` of each row."""
        for part, x in enumerate(value):
            store(self.memref, self.part(number, offset, part), x)

    def part(self, number: Index, offset: int = 0, part: int = 0) -> Index:
        """Where a part of the number ``number + offset`` begins."""
        place = index.add(index.mul(number, 2 * self.lanes), (2 * offset + part) * self.lanes)
        return index.add(place, self.first)


@dataclass(frozen=True)
class Planes:
    """Numbers of one row: first their real parts, then their imaginary parts. A step may reach ``lanes`` numbers beyond
    either end."""

    memref: ir.Value
    lanes: int
    distance: int  # of the planes, in elements

    @staticmethod
    def local(kernel: KernelBuilder, count: int, lanes: int, element: ir.Type) -> Planes:
        """Scratch memory for ``count`` numbers."""
        distance = count + 2 * lanes
        return Planes(kernel.local([2 * distance], element), lanes, distance)

    @property
    def step(self) -> int:
        """The numbers of a register."""
        return self.lanes

    def load(self, number: Index, offset: int = 0) -> Complex:
        """The numbers from ``number + offset`` on."""
        return Complex(*(load(self.memref, self._part(number, offset, part), self.lanes) for part in range(2)))

    def store(self, number: Index, value: Complex, offset: int = 0) -> None:
        """Write the numbers from ``number + offset`` on."""
        for part, x in enumerate(value):
            store(self.memref, self._part(number, offset, part), x)

    def store_imaginary(self, number: int, value: ir.Value) -> None:
        """Write the imaginary part of one number."""
        store(self.memref, self._part(number, 0, 1), value)

    def _part(self, number: Index, offset: int, part: int) -> Index:
        return index.add(number, offset + self.lanes + part * self.distance)


@dataclass(frozen=True)
class Columns:
    """Neighbouring columns, one for each lane, of a matrix whose rows lie ``pitch`` apart in planes: their number ``n``
    is in row ``n``."""

    planes: Planes
    first: Index
    pitch: int
    step = 1

    @property
    def lanes(self) -> int:
        """The columns."""
        return self.planes.lanes

    def load(self, number: Index, offset: int = 0) -> Complex:
        """The number ``number + offset`` of each column."""
        return self.planes.load(self._place(number), offset * self.pitch)

    def store(self, number: Index, value: Complex, offset: int = 0) -> None:
        """Write the number ``number + offset`` of each column."""
        self.planes.store(self._place(number), value, offset * self.pitch)

    def _place(self, number: Index) -> Index:
        return index.add(index.mul(number, self.pitch), self.first)


@dataclass(frozen=True)
class Table:
    """Complex constants of the kernel: first their real parts, then their imaginary parts."""

    memref: ir.Value
    distance: int

    @staticmethod
    def of(kernel: KernelBuilder, values: np.ndarray, element: ir.Type, lanes: int = 1) -> Table:
        """The table of these numbers, rounded to ``element``, with room for steps of ``lanes`` beyond its end."""
        padded = np.append(values.reshape(-1), np.zeros(lanes - 1))
        dtype = np.float64 if element.width == 64 else np.float32  # type: ignore[attr-defined]
        parts = np.concatenate([padded.real, padded.imag]).astype(dtype)
        return Table(kernel.constant_table(parts), padded.size)

    def load(self, number: Index, like: Numbers, offset: int = 0) -> Complex:
        """The constants for the numbers that ``like`` has at ``number``, the constant at ``number + offset`` onwards:
        one for all rows, or one for each number of a step."""
        places = [index.add(number, offset + part * self.distance) for part in range(2)]
        return Complex(*(broadcast(load(self.memref, place, like.step), like.lanes) for place in places))


def load(memory: ir.Value, place: Index, lanes: int) -> ir.Value:
    """The element at ``place``, or a vector of ``lanes`` from there on."""
    if lanes == 1:
        return memref.LoadOp(memory, [index.value(place)]).result
    element = ir.MemRefType(memory.type).element_type
    return vector.LoadOp(ir.VectorType.get([lanes], element), memory, [index.value(place)]).result


def store(memory: ir.Value, place: Index, value: ir.Value, mask: ir.Value | None = None) -> None:
    """Write a scalar or a vector from ``place`` on, where ``mask`` holds."""
    position = [index.value(place)]
    if not isinstance(value.type, ir.VectorType):
        memref.StoreOp(value, memory, position)
    elif mask is None:
        vector.StoreOp(value, memory, position)
    else:
        vector.MaskedStoreOp(memory, position, mask, value)
