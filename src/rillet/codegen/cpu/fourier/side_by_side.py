"""A workgroup that transforms as many rows as there are lanes, each in a lane of its own.

Sources are transposed into scratch memory, passes run there without a shuffle, and results are transposed back.
Without vectors the same code transforms one row, whose last pass writes to its result.
"""

from __future__ import annotations

from torch_mlir import ir

from rillet.codegen import index
from rillet.codegen.cpu.fourier.convolution import Convolution
from rillet.codegen.cpu.fourier.edges import Rows, each_vector
from rillet.codegen.cpu.fourier.passes import Ends, Passes
from rillet.codegen.cpu.fourier.plan import FourierPlan
from rillet.codegen.cpu.fourier.real import RealSide
from rillet.codegen.cpu.fourier.workspace import Workspace, load, store
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.transpose import transpose
from rillet.codegen.emit.values import constant
from rillet.codegen.index import Index


class SideBySide:
    """Emits the rows of one workgroup."""

    def __init__(self, kernel: KernelBuilder, plan: FourierPlan, element: ir.Type) -> None:
        self.kernel, self.plan, self.lanes, self.element = kernel, plan, plan.lanes, element
        self.rows = Rows(kernel, plan)
        # Lanes beyond the last row do that row's work again.
        last = index.sub(self.rows.count, 1)
        start = index.mul(kernel.workgroup(0), self.lanes)
        self.own = [index.minimum(index.add(start, n), last) if n else start for n in range(self.lanes)]
        first = Workspace.local(kernel, plan.room, self.lanes, element)
        self.result = self.rows.room(start)
        self.rooms = (first, self.result or Workspace.local(kernel, plan.room, self.lanes, element))
        self.passes = Passes(kernel, plan.lengths.smooth, element)

    def emit(self) -> None:
        """Emit them."""
        plan, of = self.plan, self.plan.of
        real = RealSide(self.kernel, of.length, self.element)
        numbers = self.rooms[(len(self.passes.passes) + 1) % 2]  # so that the last pass writes to the second room
        self._load(numbers)
        if of.source == "half" and plan.halved:
            real.tangle(numbers)
        elif of.source == "half":
            real.mirror(numbers)
        numbers = self._transform(numbers)
        if of.source == "real" and plan.halved:
            real.untangle(numbers)
            if self.rows.results > of.length + 2:
                real.mirror(numbers)
        if self.result is None:
            self._store(numbers)

    def _transform(self, numbers: Workspace) -> Workspace:
        plan = self.plan
        ends = Ends.of(inverse=plan.of.inverse, scale=1 / plan.lengths.points if plan.of.inverse else 1.0)
        if plan.lengths.chirped:
            return Convolution(self.kernel, plan.lengths, self.element, 1, self._passes).emit(numbers, ends)
        return self._passes(numbers, ends)

    def _passes(self, numbers: Workspace, ends: Ends) -> Workspace:
        other = self.rooms[1] if numbers is self.rooms[0] else self.rooms[0]
        return self.passes.emit(numbers, (other, numbers), ends)

    def _load(self, numbers: Workspace) -> None:
        """The rows' sources, transposed: numbers of one place of all rows are neighbours."""
        of = self.plan.of
        spread = of.source == "real" and not self.plan.halved  # real numbers become complex ones
        pitch = self.lanes * (2 if spread else 1)
        places = [self.rows.place(row) for row in self.own]

        def move(start: Index, present: int) -> None:
            columns = transpose([self.rows.source(place, start, present) for place in places])
            for n, column in enumerate(columns[:present]):
                to = index.add(index.mul(index.add(start, n), pitch), numbers.first)
                store(numbers.memref, to, column)
                if spread:
                    store(numbers.memref, index.add(to, self.lanes), constant(0.0, column.type))

        each_vector(self.kernel, self.lanes, of.numbers, move)

    def _store(self, numbers: Workspace) -> None:
        """The results, transposed back."""
        # Of real results that were computed as complex ones, the real parts.
        pitch = self.lanes * (2 if self.plan.of.result == "real" and not self.plan.halved else 1)

        def move(start: Index, present: int) -> None:
            columns = [load(numbers.memref, index.mul(index.add(start, n), pitch), self.lanes) for n in range(present)]
            columns += columns[:1] * (self.lanes - present)
            for row, value in zip(self.own, transpose(columns), strict=True):
                self.rows.store(row, start, value, present)

        each_vector(self.kernel, self.lanes, self.rows.results, move)
