"""Complex transforms of numbers in scratch memory, all lanes at once.

Stockham's form of the fast Fourier transform: each pass does butterflies of one radix and writes its results in the
order in which the next one reads, so no permutation is left. A length with a large prime factor becomes a cyclic
convolution of a smooth length (Bluestein, A linear filtering approach to the computation of the discrete Fourier
transform, 1970): with ``w = exp(-pi i / n)``, ``X[k] = w^(k^2) sum of (x[t] w^(t^2)) w^(-(k - t)^2)``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch_mlir import ir

from rillet.codegen import index
from rillet.codegen.cpu.fourier.butterflies import Complex, butterfly
from rillet.codegen.cpu.fourier.plan import Lengths
from rillet.codegen.cpu.fourier.workspace import Table, Workspace
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.values import constant


@dataclass(frozen=True)
class Rooms:
    """Two workspaces that passes read and write in turn."""

    filled: Workspace
    spare: Workspace

    @property
    def exchanged(self) -> Rooms:
        """After a pass."""
        return Rooms(self.spare, self.filled)


class Transformer:
    """Emits complex transforms of one length."""

    def __init__(self, kernel: KernelBuilder, lengths: Lengths, element: ir.Type) -> None:
        self.kernel = kernel
        self.lengths = lengths
        self.element = element
        self.tables = [self._turns(n, radix) for n, radix in lengths.passes if n > radix]
        if lengths.chirped:
            chirp, filter_ = lengths.chirp()
            self.chirp, self.filter = self._table(chirp), self._table(filter_)

    def emit(self, rooms: Rooms, *, inverse: bool, scale: float = 1.0) -> Rooms:
        """The transform, times ``scale``, of the numbers in ``rooms.filled``, in the filled room of the result."""
        if not self.lengths.chirped:
            return self._passes(rooms, swap_in=inverse, swap_out=inverse, scale=scale)
        points, whole = self.lengths.points, self.lengths.smooth
        lanes = rooms.filled.lanes
        with self.kernel.loop(0, points) as it:
            x = rooms.filled.load(it.iv)
            x = (x.swapped if inverse else x) * self.chirp.load(it.iv, lanes)
            rooms.filled.store(it.iv, x)
        zero = constant(0.0, _type(self.element, lanes))
        with self.kernel.loop(points, whole) as it:
            rooms.filled.store(it.iv, Complex(zero, zero))
        rooms = self._passes(rooms, swap_in=False, swap_out=False, scale=1.0)
        with self.kernel.loop(0, whole) as it:
            rooms.filled.store(it.iv, (rooms.filled.load(it.iv) * self.filter.load(it.iv, lanes)).swapped)
        rooms = self._passes(rooms, swap_in=False, swap_out=True, scale=scale)
        with self.kernel.loop(0, points) as it:
            x = rooms.filled.load(it.iv) * self.chirp.load(it.iv, lanes)
            rooms.filled.store(it.iv, x.swapped if inverse else x)
        return rooms

    def _passes(self, rooms: Rooms, *, swap_in: bool, swap_out: bool, scale: float) -> Rooms:
        stride = 1
        tables = iter(self.tables)
        for n, radix in self.lengths.passes:
            is_first, is_last = stride == 1, n == radix
            self._pass(
                rooms,
                n,
                radix,
                stride,
                table=None if is_last else next(tables),
                swap_in=swap_in and is_first,
                swap_out=swap_out and is_last,
                scale=scale if is_last else 1.0,
            )
            rooms, stride = rooms.exchanged, stride * radix
        return rooms

    def _pass(
        self,
        rooms: Rooms,
        n: int,
        radix: int,
        stride: int,
        *,
        table: Table | None,
        swap_in: bool,
        swap_out: bool,
        scale: float,
    ) -> None:
        """Numbers ``q + stride (p + n / radix j)`` become numbers ``q + stride (radix p + k)``."""
        source, target, lanes = rooms.filled, rooms.spare, rooms.filled.lanes
        step = n // radix
        with self.kernel.loop(0, step) as outer:
            p = outer.iv if step > 1 else 0
            turns = [table.load(index.mul(p, radix - 1), lanes, k) for k in range(radix - 1)] if table else []
            with self.kernel.loop(0, stride) as inner:
                q = inner.iv if stride > 1 else 0
                start = index.add(q, index.mul(p, stride))
                points = [source.load(start, stride * step * j) for j in range(radix)]
                results = butterfly([x.swapped for x in points] if swap_in else points)
                results[1:] = [x * w for x, w in zip(results[1:], turns, strict=True)] if turns else results[1:]
                if scale != 1.0:
                    factor = constant(scale, _type(self.element, lanes))
                    results = [x.scaled(factor) for x in results]
                start = index.add(q, index.mul(p, stride * radix))
                for k, x in enumerate(results):
                    target.store(start, x.swapped if swap_out else x, stride * k)

    def _turns(self, n: int, radix: int) -> Table:
        p, k = np.indices((n // radix, radix - 1))
        return self._table(np.exp(-2j * np.pi * (p * (k + 1)) / n))

    def _table(self, values: np.ndarray) -> Table:
        return Table.of(self.kernel, values, self.element)


def _type(element: ir.Type, lanes: int) -> ir.Type:
    return element if lanes == 1 else ir.VectorType.get([lanes], element)
