"""The rhs of tiles: where vectors of columns start, in packed panels or not, and which panels are copied to scratch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch_mlir import ir

from rillet.codegen import index
from rillet.codegen.coordinates import Coordinate, Lane
from rillet.codegen.cpu.caches.prefetch import fetch_ahead
from rillet.codegen.cpu.contraction.axes import element
from rillet.codegen.cpu.contraction.computed_rhs import Weights
from rillet.codegen.cpu.contraction.lhs import Batch
from rillet.codegen.cpu.contraction.packing import pack_panel
from rillet.codegen.cpu.contraction.plan import ContractionPlan
from rillet.codegen.cpu.dot_products import pairs as pair_products
from rillet.codegen.emit import memory
from rillet.codegen.emit.addresses import Bound
from rillet.codegen.emit.blocks import Segment
from rillet.codegen.emit.factors import factor, widen
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.index import Index
from rillet.codegen.recognize.narrow_factors import NarrowFactor


class RhsColumns:
    """Reads the columns of tiles: ``vectors`` vectors from column ``n``.

    ``panel``: where ``pack`` puts a column tile; None where columns are read in place. ``weights`` computes factors.
    """

    def __init__(self, kernel: KernelBuilder, plan: ContractionPlan, rhs: Bound, n_size: Index):
        """``n_size``: the number of columns. Create it at the start of the kernel's body."""
        c = plan.contraction
        self.kernel = kernel
        self.plan = plan
        self.c = c
        self.operand = rhs
        self.lanes = plan.tile.lanes
        self.n_size = n_size
        self.weights = Weights(kernel, plan, rhs) if plan.rhs.computes else None
        self.panel: ir.Value | None = None
        if plan.rhs.pack:
            stored = c.product.accumulator_type if plan.rhs.computes else element(c, c.roles.rhs)
            self.panel = kernel.local([plan.steps * plan.tile.columns], stored)

    def pack(
        self, batch: Batch, n: Index, vectors: int, width: Index, segment: Segment, reduction_sizes: Sequence[Index]
    ) -> None:
        """Copy a column tile's panel to scratch; ``reduction_sizes``: the extents of the reduction axes."""
        assert self.panel is not None
        if self.weights is not None:
            sizes = [segment.length, *reduction_sizes[1:]][: len(self.plan.axes.k)]
            panel = memory.Buffer.whole(self.panel, self.c.product.accumulator_type)
            self.weights.panel(batch, n, vectors, sizes, segment.start, panel)
            return
        strides = [self.operand.strides[a.inner] for a in self.plan.axes.k]
        base = self.operand.offset(batch | {self.c.n: n})
        if strides:
            base = index.add(base, index.mul(segment.start, strides[0]))
        sizes = [segment.length, *reduction_sizes[1:]][: len(strides)]
        pack_panel(
            self.kernel,
            self.operand.memref,
            base,
            self.operand.strides[self.c.n],
            list(zip(sizes, strides, strict=True)),
            self.panel,
            columns=vectors * self.lanes,
            pitch=self.plan.tile.columns,
            valid=width,
            lanes=self.lanes,
        )

    def offsets(self, batch: Batch, n: Index, vectors: int) -> list[Index]:
        """Element offsets of the first step of ``vectors`` vectors of columns from ``n`` on."""
        if self.panel is not None:
            return [j * self.lanes for j in range(vectors)]
        if self.weights is not None:
            return self.weights.offsets(batch, n, vectors)
        base = self.operand.offset(batch)
        panel = self.c.rhs.panel
        if not panel:
            return [index.add(base, index.add(n, j * self.lanes)) for j in range(vectors)]
        width = self.plan.tile.columns
        if width % panel and panel % width:  # a tile may begin anywhere in a panel
            return [self._packed_offset(base, index.add(n, j * self.lanes)) for j in range(vectors)]
        start = index.mul(index.floordiv(n, panel), self.operand.panel_stride)
        # Where the number of columns is not known, columns that fill no tile go vector by vector.
        starts_panel = width % panel == 0 and isinstance(self.n_size, int)
        within = 0 if starts_panel else index.mod(n, panel)
        offsets = []
        for j in range(vectors):
            panels, lane = divmod(j * self.lanes, panel)
            offset = index.add(base, index.add(start, index.mul(self.operand.panel_stride, panels)))
            offsets.append(index.add(offset, index.mul(index.add(within, lane), self.c.rhs.together)))
        return offsets

    def _packed_offset(self, base: Index, n: Index) -> Index:
        panel, together = self.c.rhs.panel, self.c.rhs.together
        start = index.mul(index.floordiv(n, panel), self.operand.panel_stride)
        return index.add(index.add(base, start), index.mul(index.mod(n, panel), together))

    def ahead(self, batch: Batch, number: Index, n: Index, vectors: int) -> Callable[[Index, int], None] | None:
        """A function that fetches a part of the next column tile's panels during row tile ``number`` of a block; None
        when nothing is fetched."""
        parts, panel = self.plan.prefetch_parts, self.c.rhs.panel
        if not parts:
            return None
        following = self.offsets(batch, index.add(n, self.plan.together or self.plan.tile.columns), vectors)
        starts = following[:: max(1, panel // self.lanes)]
        return fetch_ahead(self.operand.memref, starts, self.operand.panel_stride, number, parts, panel)

    def reads(self, masks: Sequence[ir.Value | None]) -> Callable[[Index, int], ir.Value]:
        """Reads a vector of factors. Where factors are computed, it reads their operands and computes them."""
        kernel, root, product = self.kernel, self.c.root, self.c.product
        is_computed = self.weights is not None
        stored = product.accumulator_type if is_computed else element(self.c, self.c.roles.rhs)
        buffer = memory.Buffer.whole(self.memory, stored)
        guards = self._guards(masks)

        def read(offset: Index, number: int) -> ir.Value:
            loaded = memory.load(buffer, vector_at(offset, self.lanes), self.lanes, guards[number])
            return loaded if is_computed else factor(kernel, root, product.rhs.value, loaded, self.lanes)

        return read

    def pair_reads(
        self, narrow: NarrowFactor, masks: Sequence[ir.Value | None]
    ) -> Callable[[Index, Index, int], ir.Value]:
        """Reads the narrow factors of two steps, interleaved."""
        buffer = memory.Buffer.whole(self.memory, element(self.c, self.c.roles.rhs))
        guards = self._guards(masks)

        def read(offset: Index, following: Index, number: int) -> ir.Value:
            if self.c.rhs.together > 1:
                return widen(narrow, memory.load(buffer, [Lane(offset)], 2 * self.lanes))
            where = (vector_at(o, self.lanes) for o in (offset, following))
            first, second = (memory.load(buffer, at, self.lanes, guards[number]) for at in where)
            return pair_products.interleave(first, second, narrow)

        return read

    @property
    def memory(self) -> ir.Value:
        """The flat memory that vectors are read from."""
        return self.operand.memref if self.panel is None else self.panel

    def _guards(self, masks: Sequence[ir.Value | None]) -> Sequence[ir.Value | None]:
        """The masks for reading. Packed panels are padded, so only an rhs read in place has columns that must not be
        touched."""
        return masks if self.panel is None and not self.c.rhs.panel else [None] * len(masks)


def vector_at(offset: Index, lanes: int) -> list[Coordinate]:
    """The coordinates of ``lanes`` neighbours in flat memory."""
    return [Lane(offset) if lanes > 1 else offset]
