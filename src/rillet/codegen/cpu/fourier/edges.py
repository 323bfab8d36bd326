"""Where a kernel's rows come from and go to."""

from __future__ import annotations

from collections.abc import Callable

from torch_mlir import ir

from rillet.codegen import index
from rillet.codegen.coordinates import Coordinate, Lane
from rillet.codegen.cpu.fourier.plan import FourierPlan
from rillet.codegen.cpu.fourier.workspace import Workspace, store
from rillet.codegen.emit.body import inline_value
from rillet.codegen.emit.elements import Evaluator
from rillet.codegen.emit.extents import loop_sizes
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.memory import reshape_memref
from rillet.codegen.emit.values import broadcast
from rillet.codegen.emit.vector_loop import tail_mask
from rillet.codegen.index import Index


def each_vector(kernel: KernelBuilder, lanes: int, count: int, move: Callable[[Index, int], None]) -> None:
    """Calls ``move(first, present)`` for each vector of ``count`` numbers; only the last may have fewer than lanes."""
    whole = count // lanes * lanes
    with kernel.loop(0, whole, lanes) as it:
        move(it.iv, lanes)
    if whole < count:
        move(whole, count - whole)


class Rows:
    """The rows' sources and results."""

    def __init__(self, kernel: KernelBuilder, plan: FourierPlan) -> None:
        self.kernel, self.plan = kernel, plan
        sizes = loop_sizes(kernel, plan.root)
        assert isinstance(sizes[-2], int)
        self.sizes, self.results = sizes[:-2], sizes[-2]
        self.count = index.product(self.sizes)
        self._target = reshape_memref(kernel.result(0), [index.mul(self.count, self.results)])

    def place(self, row: Index) -> list[Index]:
        """The loop coordinates of a row."""
        return index.delinearize(row, self.sizes)

    def source(self, place: list[Index], start: Index, present: int) -> ir.Value:
        """The numbers of the source of the row at ``place`` from ``start`` on: as many as there are lanes, of which the
        first ``present`` exist."""
        root, lanes = self.plan.root, self.plan.lanes
        at: Coordinate = Lane(start) if lanes > 1 else start
        loops: list[Coordinate] = [*place, 0, at]
        evaluator = Evaluator(self.kernel, lanes, self._mask(present))
        operands = [evaluator.operand(root, n, loops) for n in range(len(root.maps) - 1)]
        return broadcast(inline_value(root, self.plan.value, operands, self.kernel, lanes=lanes), lanes)

    def store(self, row: Index, start: Index, value: ir.Value, present: int) -> None:
        """Write numbers of a row's result from ``start`` on, of which the first ``present`` exist."""
        place = index.add(index.mul(row, self.results), start)
        store(self._target, place, value, self._mask(present))

    def room(self, row: Index) -> Workspace | None:
        """The result of one row as the workspace of its last pass, where it is large enough and there is one lane."""
        if self.plan.lanes > 1 or self.results < 2 * self.plan.room:
            return None
        return Workspace(self._target, 1, index.mul(row, self.results))

    def _mask(self, present: int) -> ir.Value | None:
        lanes = self.plan.lanes
        return None if present >= lanes else tail_mask(lanes, present)
