"""A workgroup that transforms one row, vectorized within the row."""

from __future__ import annotations

from collections.abc import Callable

from torch_mlir import ir
from torch_mlir.dialects import vector

from rillet.codegen import index
from rillet.codegen.cpu.fourier.butterflies import Complex
from rillet.codegen.cpu.fourier.columns import ByColumns
from rillet.codegen.cpu.fourier.convolution import Convolution
from rillet.codegen.cpu.fourier.edges import Rows, each_vector
from rillet.codegen.cpu.fourier.passes import Ends
from rillet.codegen.cpu.fourier.plan import FourierPlan
from rillet.codegen.cpu.fourier.real import turns
from rillet.codegen.cpu.fourier.workspace import Planes, Table
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.transpose import deinterleave, interleave
from rillet.codegen.emit.values import constant
from rillet.codegen.index import Index


class OneRow:
    """Emits the row of one workgroup. See ``real`` for the formulas of real rows; here each number is computed on its
    own, from the numbers at ``k`` and those before ``n / 2 - k`` in reverse."""

    def __init__(self, kernel: KernelBuilder, plan: FourierPlan, element: ir.Type) -> None:
        assert plan.matrix is not None
        self.kernel, self.plan, self.lanes, self.element = kernel, plan, plan.lanes, element
        self.rows = Rows(kernel, plan)
        self.by_columns = ByColumns(kernel, plan.matrix, plan.lanes, element)
        self.numbers = Planes.local(kernel, plan.room, plan.lanes, element)

    def emit(self) -> None:
        """Emit it."""
        of, halved = self.plan.of, self.plan.halved
        if of.source == "half" and halved:
            self._load(self.by_columns.turned)
            self._tangle(self.by_columns.turned)
        else:
            self._load(self.numbers)
        if of.source == "half" and not halved:
            self._mirror()
        self._transform()
        if of.source == "real" and halved:
            self._store(self._untangled())
        else:
            self._store(self.numbers.load)

    def _transform(self) -> None:
        lengths, of = self.plan.lengths, self.plan.of
        ends = Ends.of(inverse=of.inverse, scale=1 / lengths.points if of.inverse else 1.0)
        if not lengths.chirped:
            self.by_columns.emit(self.numbers, ends)
            return
        convolution = Convolution(self.kernel, lengths, self.element, self.lanes, self.by_columns.emit)
        convolution.emit(self.numbers, ends)

    def _load(self, numbers: Planes) -> None:
        """The row's source as complex numbers."""
        of = self.plan.of
        place = self.rows.place(self.kernel.workgroup(0))

        def spread(start: Index, present: int) -> None:
            re = self.rows.source(place, start, present)
            numbers.store(start, Complex(re, constant(0.0, re.type)))

        def pairs(start: Index, present: int) -> None:
            first = self.rows.source(place, index.mul(start, 2), 2 * present)
            second = first
            if 2 * present > self.lanes:
                second = self.rows.source(place, index.add(index.mul(start, 2), self.lanes), 2 * present - self.lanes)
            numbers.store(start, Complex(*deinterleave(first, second)))

        if of.source == "real" and not self.plan.halved:
            each_vector(self.kernel, self.lanes, of.numbers, spread)
            return
        each_vector(self.kernel, self.lanes, of.numbers // 2, pairs)
        if of.source == "half":  # whose ends are real
            for number in (0, of.length // 2) if of.length % 2 == 0 else (0,):
                numbers.store_imaginary(number, constant(0.0, self.element))

    def _store(self, at: Callable[[Index], Complex]) -> None:
        """The row's result: its numbers from a position on are ``at`` that."""
        row = self.kernel.workgroup(0)

        def real(start: Index, present: int) -> None:
            self.rows.store(row, start, at(start).re, present)

        def pairs(start: Index, present: int) -> None:
            first, second = interleave(at(start))
            self.rows.store(row, index.mul(start, 2), first, 2 * present)
            if 2 * present > self.lanes:
                start = index.add(index.mul(start, 2), self.lanes)
                self.rows.store(row, start, second, 2 * present - self.lanes)

        if self.plan.of.result == "real" and not self.plan.halved:
            each_vector(self.kernel, self.lanes, self.rows.results, real)
        else:
            each_vector(self.kernel, self.lanes, self.rows.results // 2, pairs)

    def _untangled(self) -> Callable[[Index], Complex]:
        """The frequencies of real numbers. The transform of half the length is continued, for it is periodic."""
        points, count = self.plan.lengths.points, self.rows.results // 2
        periods = 1 if count <= points + 1 else 2
        with self.kernel.loop(0, periods * points + 1 - points, self.lanes) as it:
            self.numbers.store(index.add(it.iv, points), self.numbers.load(it.iv))
        table = self._turns(count)

        def at(k: Index) -> Complex:
            a, b = self.numbers.load(k), self._reversed(self.numbers, index.sub(periods * points, k)).conjugate
            return (a + b).scaled(constant(0.5, a.re.type)) + (a - b) * table.load(k, self.numbers)

        return at

    def _tangle(self, source: Planes) -> None:
        """The numbers whose inverse transform has the real numbers."""
        points = self.plan.lengths.points
        table = self._turns(points)
        with self.kernel.loop(0, points, self.lanes) as it:
            a, b = source.load(it.iv), self._reversed(source, index.sub(points, it.iv)).conjugate
            odd = (a - b) * table.load(it.iv, source).conjugate
            self.numbers.store(it.iv, (a + b).scaled(constant(0.5, a.re.type)) + odd)

    def _mirror(self) -> None:
        """The upper half of the frequencies: conjugates of the lower half."""
        length = self.plan.of.length
        with self.kernel.loop((length + 1) // 2, length, self.lanes) as it:
            self.numbers.store(it.iv, self._reversed(self.numbers, index.sub(length, it.iv)).conjugate)

    def _turns(self, count: int) -> Table:
        return Table.of(self.kernel, turns(self.plan.of.length, count), self.element, self.lanes)

    def _reversed(self, numbers: Planes, last: Index) -> Complex:
        """The numbers at ``last``, ``last - 1``, and so on."""
        x = numbers.load(index.sub(last, self.lanes - 1))
        order = list(reversed(range(self.lanes)))
        return Complex(*(vector.shuffle(part, part, order) for part in x))
