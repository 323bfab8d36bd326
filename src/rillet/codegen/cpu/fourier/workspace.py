"""Complex numbers in scratch memory, and tables of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import memref, vector

from rillet.codegen import index
from rillet.codegen.cpu.fourier.butterflies import Complex
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.values import broadcast
from rillet.codegen.index import Index


@dataclass(frozen=True)
class Workspace:
    """Numbers of ``lanes`` rows side by side: for each number its real parts, then its imaginary parts."""

    memref: ir.Value
    lanes: int

    @staticmethod
    def local(kernel: KernelBuilder, count: int, lanes: int, element: ir.Type) -> Workspace:
        """Scratch memory for ``count`` numbers."""
        return Workspace(kernel.local([2 * count * lanes], element), lanes)

    def load(self, number: Index, offset: int = 0) -> Complex:
        """The number ``number + offset``."""
        return Complex(*(self.load_part(self._part(number, offset, part)) for part in range(2)))

    def store(self, number: Index, value: Complex, offset: int = 0) -> None:
        """Write the number ``number + offset``."""
        for part, x in enumerate(value):
            self.store_part(self._part(number, offset, part), x)

    def load_part(self, place: Index) -> ir.Value:
        """The part that begins at element ``place``."""
        if self.lanes == 1:
            return memref.LoadOp(self.memref, [index.value(place)]).result
        element = ir.MemRefType(self.memref.type).element_type
        return vector.LoadOp(ir.VectorType.get([self.lanes], element), self.memref, [index.value(place)]).result

    def store_part(self, place: Index, value: ir.Value) -> None:
        """Write the part that begins at element ``place``."""
        if self.lanes == 1:
            memref.StoreOp(value, self.memref, [index.value(place)])
        else:
            vector.StoreOp(value, self.memref, [index.value(place)])

    def _part(self, number: Index, offset: int, part: int) -> Index:
        return index.add(index.mul(number, 2 * self.lanes), (2 * offset + part) * self.lanes)


@dataclass(frozen=True)
class Table:
    """Complex constants of the kernel."""

    memref: ir.Value

    @staticmethod
    def of(kernel: KernelBuilder, values: np.ndarray, element: ir.Type) -> Table:
        """The table of these numbers, rounded to ``element``."""
        parts = np.stack([values.real, values.imag], -1).reshape(-1)
        return Table(kernel.constant_table(parts.astype(np.float64 if element.width == 64 else np.float32)))  # type: ignore[attr-defined]

    def load(self, number: Index, lanes: int, offset: int = 0) -> Complex:
        """The number ``number + offset``, the same for all lanes."""
        place = index.mul(number, 2)
        parts = [
            memref.LoadOp(self.memref, [index.value(index.add(place, 2 * offset + part))]).result for part in (0, 1)
        ]
        return Complex(*(broadcast(x, lanes) for x in parts))
