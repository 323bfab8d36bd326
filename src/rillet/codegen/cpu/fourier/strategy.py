"""Fast Fourier transforms of rows.

A workgroup transforms as many rows as a vector has lanes, each in a lane of its own: sources are transposed into
scratch memory, passes run there without a shuffle, and results are transposed back. Without vectors the same code
transforms one row.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import memref, vector

from rillet.codegen import index
from rillet.codegen.coordinates import Coordinate, Lane
from rillet.codegen.cpu.fourier.passes import Rooms, Transformer
from rillet.codegen.cpu.fourier.plan import FourierPlan, make_plan
from rillet.codegen.cpu.fourier.real import RealSide
from rillet.codegen.cpu.fourier.workspace import Workspace
from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.emit.body import inline_value
from rillet.codegen.emit.elements import Evaluator
from rillet.codegen.emit.extents import loop_sizes
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.memory import reshape_memref
from rillet.codegen.emit.transpose import transpose
from rillet.codegen.emit.values import broadcast, constant
from rillet.codegen.emit.vector_loop import tail_mask
from rillet.codegen.index import Index
from rillet.codegen.recognize.kernel_function import KernelFunction


class FourierStrategy:
    """See the module's docstring."""

    name = "fourier"
    vectorize_loops = False
    collapses = False

    def plan(self, function: KernelFunction, target: CpuTarget) -> FourierPlan | None:
        """A plan for a kernel that is one marked transform."""
        return make_plan(function, target)

    def emit(self, plan: FourierPlan, kernel: KernelBuilder) -> None:
        """Emit the kernel as planned."""
        kernel.grid(lambda: [index.ceildiv(index.product(loop_sizes(kernel, plan.root)[:-2]), plan.lanes)])
        with kernel.body():
            _Rows(kernel, plan).emit()


class _Rows:
    """Emits the rows of one workgroup."""

    def __init__(self, kernel: KernelBuilder, plan: FourierPlan) -> None:
        self.kernel, self.plan, self.lanes = kernel, plan, plan.lanes
        self.element = ir.RankedTensorType(plan.root.results[0].type).element_type
        sizes = loop_sizes(kernel, plan.root)
        self.sizes, self.results = sizes[:-2], sizes[-2]
        # Lanes beyond the last row do that row's work again.
        last = index.sub(index.product(self.sizes), 1)
        first = index.mul(kernel.workgroup(0), self.lanes)
        self.rows = [index.minimum(index.add(first, n), last) if n else first for n in range(self.lanes)]
        self.rooms = Rooms(*(Workspace.local(kernel, plan.room, self.lanes, self.element) for _ in range(2)))

    def emit(self) -> None:
        plan, of = self.plan, self.plan.of
        transformer = Transformer(self.kernel, plan.lengths, self.element)
        real = RealSide(self.kernel, of.length, self.element)
        self._load()
        if of.result == "real" and plan.halved:
            real.tangle(self.rooms.filled)
        elif of.source == "half":
            real.mirror(self.rooms.filled)
        scale = 1 / plan.lengths.points if of.inverse else 1.0
        self.rooms = transformer.emit(self.rooms, inverse=of.inverse, scale=scale)
        if of.source == "real" and plan.halved:
            real.untangle(self.rooms.filled)
            if self.results > of.length + 2:
                real.mirror(self.rooms.filled)
        self._store()

    def _load(self) -> None:
        """The rows' sources, transposed: numbers of one place of all rows are neighbours."""
        of, numbers = self.plan.of, self.rooms.filled
        spread = of.source == "real" and not self.plan.halved  # real numbers become complex ones
        points = [index.delinearize(row, self.sizes) for row in self.rows]
        zero = constant(0.0, self._type())

        def store(start: Index, columns: list[ir.Value]) -> None:
            for n, column in enumerate(columns):
                place = index.mul(index.add(start, n), self.lanes * (2 if spread else 1))
                numbers.store_part(place, column)
                if spread:
                    numbers.store_part(index.add(place, self.lanes), zero)

        whole = of.numbers // self.lanes * self.lanes
        with self.kernel.loop(0, whole, self.lanes) as it:
            store(it.iv, transpose([self._source(point, it.iv) for point in points]))
        if whole < of.numbers:
            mask = tail_mask(self.lanes, of.numbers - whole)
            columns = transpose([self._source(point, whole, mask) for point in points])
            store(whole, columns[: of.numbers - whole])

    def _source(self, row: list[Index], start: Index, mask: ir.Value | None = None) -> ir.Value:
        """The numbers of a row's source from ``start`` on, as many as there are lanes."""
        root = self.plan.root
        at: Coordinate = Lane(start) if self.lanes > 1 else start
        loops: list[Coordinate] = [*row, 0, at]
        evaluator = Evaluator(self.kernel, self.lanes, mask)
        operands = [evaluator.operand(root, n, loops) for n in range(len(root.maps) - 1)]
        return broadcast(inline_value(root, self.plan.value, operands, self.kernel, lanes=self.lanes), self.lanes)

    def _store(self) -> None:
        """The results, transposed back."""
        numbers, count = self.rooms.filled, self.results
        pitch = 2 if self.plan.of.result == "real" and not self.plan.halved else 1  # the real parts of complex numbers
        target = reshape_memref(self.kernel.result(0), [index.mul(index.product(self.sizes), count)])
        starts = [index.mul(row, count) for row in self.rows]

        def store(start: Index, present: int, mask: ir.Value | None = None) -> None:
            places = [index.mul(index.add(start, n), pitch * self.lanes) for n in range(present)]
            columns = [numbers.load_part(place) for place in places]
            columns += columns[:1] * (self.lanes - present)
            for row, value in zip(starts, transpose(columns), strict=True):
                place = [index.value(index.add(row, start))]
                if self.lanes == 1:
                    memref.StoreOp(value, target, place)
                elif mask is None:
                    vector.StoreOp(value, target, place)
                else:
                    vector.MaskedStoreOp(target, place, mask, value)

        assert isinstance(count, int)
        whole = count // self.lanes * self.lanes
        with self.kernel.loop(0, whole, self.lanes) as it:
            store(it.iv, self.lanes)
        if whole < count:
            store(whole, count - whole, tail_mask(self.lanes, count - whole))

    def _type(self) -> ir.Type:
        return self.element if self.lanes == 1 else ir.VectorType.get([self.lanes], self.element)
