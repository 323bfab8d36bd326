"""Walks through trees, several at a time.

A step of a walk waits for memory, and for the step before it. So several walks go side by side in one loop, which ends
when the last of them does; one that has ended stays where it is. They are walks of neighbouring rows through one tree,
whose nodes then stay in the nearest cache, and of one row through several trees where fewer rows remain.

The results are the accumulators: a block of rows is walked through one tree after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, scf

from rillet.codegen import index
from rillet.codegen.coordinates import Coordinate
from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.emit.body import Inliner
from rillet.codegen.emit.elements import Evaluator
from rillet.codegen.emit.extents import loop_sizes
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.index import Index
from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.codegen.recognize.walk import Walk, find_walk
from rillet.ir.structured import STAYS, Expr

_SIDE_BY_SIDE = 8  # walks: more need more registers than there are
_BLOCK = 256  # rows of a workgroup: their features stay in the caches


@dataclass(frozen=True)
class WalkPlan:
    """``row``: the parallel loop whose points are walked side by side, if the walk depends on any; ``outer``: the other
    parallel loops that it depends on; ``tree``: the reduction; ``together``: walks at a time."""

    walk: Walk
    row: int | None
    outer: tuple[int, ...]
    tree: int
    together: int


class WalkStrategy:
    """See the module's docstring."""

    name = "walk"
    vectorize_loops = False
    collapses = False

    def plan(self, function: KernelFunction, target: CpuTarget) -> WalkPlan | None:
        """A plan for a kernel that is one reduction with a walk in its body."""
        walk = find_walk(function)
        if walk is None:
            return None
        walked = [n for n in walk.generic.parallel_loops if n in walk.loops]
        waits = target.machine.in_order or not target.machine.vector_bits
        together = 1 if waits else _SIDE_BY_SIDE
        row = walked[0] if walked else None
        return WalkPlan(walk, row, tuple(walked[1:]), walk.generic.reduction_loops[0], together)

    def emit(self, plan: WalkPlan, kernel: KernelBuilder) -> None:
        """Emit the kernel as planned."""
        kernel.grid(lambda: _grid(kernel, plan))
        with kernel.body():
            _Emitter(kernel, plan).block()


def _grid(kernel: KernelBuilder, plan: WalkPlan) -> list[Index]:
    sizes = loop_sizes(kernel, plan.walk.generic)
    rows = 1 if plan.row is None else sizes[plan.row]
    return [index.ceildiv(rows, _BLOCK), index.product([sizes[n] for n in plan.outer])]


class _Emitter:
    def __init__(self, kernel: KernelBuilder, plan: WalkPlan):
        self.kernel, self.plan, self.walk = kernel, plan, plan.walk
        self.sizes = loop_sizes(kernel, plan.walk.generic)
        self.outer: dict[int, Index] = {}

    def block(self) -> None:
        """The rows of one workgroup: whole groups of rows, then the others one by one."""
        plan, together = self.plan, self.plan.together
        first, end = self._rows()
        extents = [self.sizes[n] for n in plan.outer]
        self.outer = dict(zip(plan.outer, index.delinearize(self.kernel.workgroup(1), extents), strict=True))
        trees = self.sizes[plan.tree]
        with self.kernel.loop(first, end) as row:
            self._start(self._point(row.iv))
        middle = _last_whole(first, end, together)
        if together > 1 and not _is_empty(first, middle):
            with self.kernel.loop(0, trees) as tree, self.kernel.loop(first, middle, together) as row:
                self._walks([self._point(index.add(row.iv, n), tree.iv) for n in range(together)])
        if _is_empty(middle, end):
            return
        with self.kernel.loop(middle, end) as row:
            whole = _last_whole(0, trees, together)
            if together > 1 and not _is_empty(0, whole):
                with self.kernel.loop(0, whole, together) as tree:
                    self._walks([self._point(row.iv, index.add(tree.iv, n)) for n in range(together)])
            if not _is_empty(whole, trees):
                with self.kernel.loop(whole, trees) as tree:
                    self._walks([self._point(row.iv, tree.iv)])

    def _rows(self) -> tuple[Index, Index]:
        rows = 1 if self.plan.row is None else self.sizes[self.plan.row]
        if isinstance(rows, int) and rows <= _BLOCK:
            return 0, rows
        first = index.mul(self.kernel.workgroup(0), _BLOCK)
        return first, index.minimum(index.add(first, _BLOCK), rows)

    def _point(self, row: Index, tree: Index | None = None) -> dict[int, Index]:
        point = dict(self.outer) if self.plan.row is None else {**self.outer, self.plan.row: row}
        return point if tree is None else {**point, self.plan.tree: tree}

    def _start(self, point: Mapping[int, Index]) -> None:
        """Give the results of a row their initial value."""
        generic = self.walk.generic
        with self._inner() as inner:
            where = _where({**point, **inner}, generic.init_maps[0])
            evaluator = Evaluator(self.kernel)
            evaluator.store(evaluator.result(0), where, evaluator.at(generic.inits[0], where))

    @contextmanager
    def _inner(self) -> Iterator[dict[int, Index]]:
        """Loops over the parallel loops that one walk serves: their positions."""
        with ExitStack() as nest:
            yield {n: nest.enter_context(self.kernel.loop(0, self.sizes[n])).iv for n in self.walk.inner}

    def _walks(self, points: Sequence[Mapping[int, Index]]) -> None:
        """Walk at several points at once, and add what is found to the results."""
        lanes = [self._lane(point) for point in points]
        for lane in lanes:
            for op in self.walk.early:
                lane.operation(op)
        self._loop(lanes)
        with self._inner() as inner:
            for point, lane in zip(points, lanes, strict=True):
                self._add({**point, **inner}, lane)

    def _lane(self, point: Mapping[int, Index]) -> Inliner:
        """The inliner of the walk at a point, with the operands that it needs."""
        evaluator = Evaluator(self.kernel)
        loops = [point.get(n, 0) for n in range(self.walk.generic.loops)]
        lane = Inliner(self.kernel, loops, 1, evaluator.extract)
        for number, argument in enumerate(self.walk.generic.body.arguments):
            if argument in self.walk.reads:
                lane.values[argument] = evaluator.operand(self.walk.generic, number, loops)
        return lane

    def _loop(self, lanes: Sequence[Inliner]) -> None:
        """The loops of all lanes as one. A lane whose own condition no longer holds keeps its state."""
        source, stays = self.walk.loop, len(lanes) == 1 or STAYS in self.walk.loop.attributes
        before, after = (region.blocks[0] for region in source.regions)
        width, state = len(after.arguments), [v.type for v in source.operands]
        passed = [ir.IntegerType.get_signless(1), *state, *(a.type for a in after.arguments)]
        starts = [lane.value(v) for lane in lanes for v in source.operands]
        op = scf.WhileOp([t for _ in lanes for t in passed], starts).operation
        head = op.regions[0].blocks.append(*(t for _ in lanes for t in state))
        with ir.InsertionPoint(head):
            given: list[ir.Value] = []
            for number, lane in enumerate(lanes):
                own = list(head.arguments)[number * len(state) : (number + 1) * len(state)]
                found = self._inlined(lane, before, own)
                given += [found[0], *own, *found[1:]]
            going = given[0]
            for condition in given[len(passed) :: len(passed)]:
                going = arith.OrIOp(going, condition).result
            scf.ConditionOp(going, given)
        tail = op.regions[1].blocks.append(*(t for _ in lanes for t in passed))
        with ir.InsertionPoint(tail):
            following: list[ir.Value] = []
            for number, lane in enumerate(lanes):
                goes, *rest = list(tail.arguments)[number * len(passed) : (number + 1) * len(passed)]
                stepped = self._inlined(lane, after, rest[len(state) :])
                kept = zip(stepped, rest[: len(state)], strict=True)
                following += stepped if stays else [arith.SelectOp(goes, new, old).result for new, old in kept]
            scf.YieldOp(following)
        for number, lane in enumerate(lanes):
            end = (number + 1) * len(passed)
            results = list(op.results)[end - width : end]
            lane.values.update(zip(source.results, results, strict=True))

    def _inlined(self, lane: Inliner, block: ir.Block, arguments: Sequence[ir.Value]) -> list[ir.Value]:
        """Emit a block of the loop on these arguments, reading memory anew; what its terminator takes."""
        inner = Inliner(self.kernel, lane.coordinates, 1, Evaluator(self.kernel).extract)
        inner.values.update(lane.values)
        inner.values.update(zip(block.arguments, arguments, strict=True))
        return inner.block(block)

    def _add(self, point: Mapping[int, Index], lane: Inliner) -> None:
        """Combine the result at a point with what the walk has found."""
        generic = self.walk.generic
        evaluator = Evaluator(self.kernel)
        result, where = evaluator.result(0), _where(point, generic.init_maps[0])
        evaluator.keep(generic.results[0], result)
        loops = [point[n] for n in range(generic.loops)]
        inner = Inliner(self.kernel, loops, 1, evaluator.extract)
        inner.values.update(lane.values)
        arguments = list(generic.body.arguments)
        for number, argument in enumerate(arguments[:-1]):
            if argument not in inner.values:
                inner.values[argument] = evaluator.operand(generic, number, loops)
        inner.values[arguments[-1]] = evaluator.at(generic.results[0], where)
        for op in self.walk.late:
            inner.operation(op)
        evaluator.store(result, where, inner.value(generic.yielded()[0]))


def _where(point: Mapping[int, Index], map_: Sequence[Expr]) -> list[Coordinate]:
    """A point of the loops as coordinates of a result, whose map has plain dimensions only."""
    return [point[expr] for expr in map_ if isinstance(expr, int)]


def _last_whole(first: Index, end: Index, step: int) -> Index:
    """The end of the last whole step from ``first`` on."""
    if step == 1:
        return first
    return index.add(first, index.mul(index.floordiv(index.sub(end, first), step), step))


def _is_empty(first: Index, end: Index) -> bool:
    """Whether a span is known to be empty."""
    return isinstance(first, int) and isinstance(end, int) and first >= end
