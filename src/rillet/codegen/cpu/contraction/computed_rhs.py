"""Factors of the rhs that are computed from narrow integers and from companions, which hold parameters for blocks of
them.

Where few row tiles use the factors, they are computed as they are multiplied: parameters are read where the innermost
loop begins, and a block's scale is multiplied with the sum of its block. Where more row tiles do, a column tile's panel
of factors is computed into scratch first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rillet.codegen import index
from rillet.codegen.coordinates import Coordinate, Lane
from rillet.codegen.cpu.contraction.axes import element
from rillet.codegen.cpu.contraction.lhs import Batch
from rillet.codegen.cpu.contraction.microkernel import multiply_add
from rillet.codegen.cpu.contraction.plan import ContractionPlan
from rillet.codegen.emit import memory, shared_bytes
from rillet.codegen.emit.addresses import Bound, bind_argument
from rillet.codegen.emit.factors import factor
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.index import Index
from rillet.codegen.recognize.contraction import apart
from rillet.codegen.recognize.linear_access import Access
from rillet.ir.shared_bytes import is_signed

Compute = Callable[[Index, int], ir.Value]  # (offset in the rhs, column vector number) -> factor


@dataclass(frozen=True)
class Block:
    """The factors of one block of the sum: ``factor(offset in the rhs, column vector number)``. ``finish(sums,
    accumulators)`` multiplies by the scale that the whole block shares, and adds the block's sums to a tile's
    accumulators."""

    factor: Compute
    finish: Callable[[list[ir.Value], list[ir.Value]], list[ir.Value]] | None


class Weights:
    """The computed factors of one kernel's rhs."""

    def __init__(self, kernel: KernelBuilder, plan: ContractionPlan, rhs: Bound):
        self.kernel = kernel
        self.plan = plan
        self.c = plan.contraction
        self.lanes = plan.tile.lanes
        self.rhs = rhs
        self.companions = [(number, which, bind_argument(kernel, which)) for number, which in self.c.companions]

    def offsets(self, batch: Batch, n: Index, vectors: int) -> list[Index]:
        """Where each vector of columns from ``n`` on starts in the rhs."""
        starts = self._starts(n, vectors)
        shared = self.c.rhs.shared
        if self._starts_with_bytes():  # so that neighbours are seen to share a byte
            starts = [starts[j - j % shared] for j in range(vectors)]
        return _offsets(self.c.rhs, self.rhs, batch, starts)

    def entering(self, batch: Batch, n: Index, vectors: int, positions: Sequence[Index]) -> Block:
        """Read the companions at these positions of the outer reduction axes."""
        read = self._parameters(batch, n, vectors, positions)
        varying, scale = apart(self.c)
        places = self._places(n, vectors)
        if scale is None:
            return Block(self._computing(varying, read, places), None)
        scales = [factor(self.kernel, self.c.root, scale, values, self.lanes) for values in read]

        def finish(sums: list[ir.Value], accumulators: list[ir.Value]) -> list[ir.Value]:
            return [
                multiply_add(self.kernel, value, scales[number % vectors], total)
                for number, (value, total) in enumerate(zip(sums, accumulators, strict=True))
            ]

        return Block(self._computing(varying, read, places), finish)

    def _parameters(
        self, batch: Batch, n: Index, vectors: int, positions: Sequence[Index]
    ) -> list[dict[int, ir.Value]]:
        """The companions' elements for each vector of columns, by operand number."""
        at = batch | dict(zip((a.inner for a in self.plan.axes.k), positions, strict=False))
        read: list[dict[int, ir.Value]] = [{} for _ in range(vectors)]
        for number, which, bound in self.companions:
            buffer = memory.Buffer.whole(bound.memref, element(self.c, number))
            for j, offset in enumerate(_offsets(which, bound, at, self._starts(n, vectors))):
                read[j][number] = memory.load(buffer, [self._at(offset)], self.lanes)
        return read

    def _starts_with_bytes(self) -> bool:
        """Whether a tile of scalars begins with the first integer of a byte."""
        shared = self.c.rhs.shared
        return self.lanes == 1 and shared > 1 and self.plan.tile.columns % shared == 0

    def _places(self, n: Index, vectors: int) -> list[Index]:
        """For each scalar of a tile, its integer's position within its byte."""
        shared = self.c.rhs.shared
        if self._starts_with_bytes():
            return [j % shared for j in range(vectors)]
        return [index.mod(start, shared) for start in self._starts(n, vectors)]

    def _computing(self, value: ir.Value, read: list[dict[int, ir.Value]], places: Sequence[Index]) -> Compute:
        """Computes a value of the body from the rhs's elements and from the companions' elements in ``read``."""

        def compute(offset: Index, number: int) -> ir.Value:
            values = read[number] | {self.c.roles.rhs: self._load(offset, places[number])}
            return factor(self.kernel, self.c.root, value, values, self.lanes)

        return compute

    def _whole(self, batch: Batch, n: Index, vectors: int, positions: Sequence[Index]) -> Compute:
        read = self._parameters(batch, n, vectors, positions)
        return self._computing(self.c.product.rhs.value, read, self._places(n, vectors))

    def panel(
        self, batch: Batch, n: Index, vectors: int, sizes: Sequence[Index], start: Index, target: memory.Buffer
    ) -> None:
        """Computes the columns from ``n`` on for ``sizes`` steps of the reduction axes; the first axis begins at
        ``start``."""
        starts = self.offsets(batch, n, vectors)
        self._nest(batch, n, vectors, list(sizes), start, [], starts, 0, target)

    def _nest(
        self,
        batch: Batch,
        n: Index,
        vectors: int,
        sizes: list[Index],
        start: Index,
        positions: list[Index],
        offsets: list[Index],
        step: Index,
        target: memory.Buffer,
    ) -> None:
        if not sizes:
            self._store(self._whole(batch, n, vectors, positions), offsets, step, target)
            return
        stride = self.rhs.strides[self.plan.axes.k[len(positions)].inner]
        compute = self._whole(batch, n, vectors, positions) if len(sizes) == 1 else None
        with self.kernel.loop(0, sizes[0]) as loop:
            position = index.add(start, loop.iv)
            moved = [index.add(o, index.mul(position, stride)) for o in offsets]
            here = index.add(step, index.mul(loop.iv, index.product(sizes[1:])))
            if compute is not None:
                self._store(compute, moved, here, target)
                return
            self._nest(batch, n, vectors, sizes[1:], 0, [*positions, position], moved, here, target)

    def _store(self, compute: Compute, offsets: Sequence[Index], step: Index, target: memory.Buffer) -> None:
        for j, offset in enumerate(offsets):
            spot = index.add(index.mul(step, self.plan.tile.columns), j * self.lanes)
            memory.store(target, [self._at(spot)], compute(offset, j), self.lanes)

    def _at(self, offset: Index) -> Coordinate:
        return Lane(offset) if self.lanes > 1 else offset

    def _starts(self, n: Index, vectors: int) -> list[Index]:
        return [index.add(n, j * self.lanes) for j in range(vectors)]

    def _load(self, offset: Index, place: Index) -> ir.Value:
        shared = self.c.rhs.shared
        if shared == 1:
            buffer = memory.Buffer.whole(self.rhs.memref, element(self.c, self.c.roles.rhs))
            return memory.load(buffer, [self._at(offset)], self.lanes)
        signed = bool(is_signed(self.c.root, self.c.roles.rhs))
        if self.lanes == 1:
            return shared_bytes.load_one(self.rhs.memref, offset, place, 8 // shared, signed=signed)
        return shared_bytes.load(self.rhs.memref, offset, self.lanes, 8 // shared, signed=signed)


def _offsets(which: Access, bound: Bound, at: Batch, columns: Sequence[Index]) -> list[Index]:
    base = bound.offset(at)
    offsets = []
    for n in columns:
        start = index.mul(index.floordiv(n, which.panel), bound.panel_stride)
        within = index.floordiv(index.mod(n, which.panel), which.shared)
        offsets.append(index.add(index.add(base, start), within))
    return offsets
