"""Point-wise dispatches: every element of every result is a function of its own index.

Covers elementwise chains with any broadcast or permutation, slices, pads, concatenations, gathers and casts. The result's
last axis is vectorized; a workgroup takes a block of rows, or a block of one long row, of about 32 KiB of traffic.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.codegen.cpu import index
from rillet.codegen.cpu.coordinates import Coordinate
from rillet.codegen.cpu.dispatch import Dispatch, Port
from rillet.codegen.cpu.evaluate import Evaluator
from rillet.codegen.cpu.index import Index
from rillet.codegen.cpu.kernel import Kernel, storage_bytes, storage_type
from rillet.codegen.cpu.vector_loop import Shape, shape_for, vector_loop
from rillet.targets import Target

_BLOCK_BYTES = 32 * 1024


@dataclass(frozen=True)
class _Group:
    """Results of one shape, computed together."""

    numbers: tuple[int, ...]
    ports: tuple[Port, ...]


class _Elementwise:
    name = "elementwise"

    def matches(self, dispatch: Dispatch, target: Target) -> bool:
        return dispatch.is_parallel

    def emit(self, dispatch: Dispatch, kernel: Kernel, target: Target) -> None:
        shape = shape_for(dispatch, target)
        groups = _groups(dispatch)
        plans = [_Plan(kernel, dispatch, group, shape) for group in groups]

        def grid() -> list[Index]:
            rows: Index = 0
            columns: Index = 0
            for plan in plans:
                blocks = plan.blocks()
                rows = index.add(rows, blocks[0])
                columns = index.maximum(columns, blocks[1])
            return [rows, columns]

        kernel.grid(grid)
        with kernel.body():
            first: Index = 0
            for plan in plans:
                row_blocks, column_blocks = plan.blocks()
                if len(plans) == 1:
                    plan.emit(kernel.workgroup(0), kernel.workgroup(1))
                    continue
                last = index.add(first, row_blocks)
                mine = _all_of(
                    _compare("uge", kernel.workgroup(0), first),
                    _compare("ult", kernel.workgroup(0), last),
                    _compare("ult", kernel.workgroup(1), column_blocks),
                )
                with kernel.when(mine):
                    plan.emit(index.sub(kernel.workgroup(0), first), kernel.workgroup(1))
                first = last


class _Plan:
    """How one group of results is cut into blocks."""

    def __init__(self, kernel: Kernel, dispatch: Dispatch, group: _Group, shape: Shape):
        self.kernel = kernel
        self.group = group
        last = group.ports[0].type.shape[-1] if group.ports[0].type.rank else 1
        self.shape = shape if last == ir.ShapedType.get_dynamic_size() else shape.limited(last)
        traffic = sum(storage_bytes(storage_type(p.type.element_type)) for p in (*dispatch.arguments, *group.ports))
        self.block = max(shape.wide, _BLOCK_BYTES // max(1, traffic) // shape.wide * shape.wide)

    def _space(self) -> tuple[list[Index], Index]:
        extents = self.kernel.extents(self.group.ports[0].value)
        return (extents[:-1], extents[-1]) if extents else ([], 1)

    def _rows_per_block(self, inner: Index) -> Index:
        return index.maximum(1, index.floordiv(self.block, index.maximum(inner, 1)))

    def blocks(self) -> tuple[Index, Index]:
        """Row blocks and column blocks."""
        outer, inner = self._space()
        return index.ceildiv(index.product(outer), self._rows_per_block(inner)), index.ceildiv(inner, self.block)

    def emit(self, row_block: Index, column_block: Index) -> None:
        """Emit the block at these positions."""
        outer, inner = self._space()
        rows = self._rows_per_block(inner)
        first = index.mul(row_block, rows)
        last = index.minimum(index.add(first, rows), index.product(outer))
        start = index.mul(column_block, self.block)
        end = index.minimum(index.add(start, self.block), inner)
        with self.kernel.loop(first, last) as row:
            where = index.delinearize(row.iv, outer)
            self._row(where, start, end)

    def _row(self, where: list[Index], start: Index, end: Index) -> None:
        if not self.group.ports[0].type.rank:
            self._point([], 1, None)
            return

        def emit(c: Coordinate, lanes: int, mask: ir.Value | None) -> None:
            self._point([*where, c], lanes, mask)

        vector_loop(self.kernel, start, end, self.shape, emit)

    def _point(self, where: list[Coordinate], lanes: int, mask: ir.Value | None) -> None:
        evaluator = Evaluator(self.kernel, lanes, mask)
        values = [evaluator.at(port.value, where) for port in self.group.ports]
        for number, value in zip(self.group.numbers, values, strict=True):
            evaluator.store(evaluator.result(number), where, value)


def _groups(dispatch: Dispatch) -> list[_Group]:
    by_space: dict[tuple[object, ...], list[int]] = {}
    for number, port in enumerate(dispatch.results):
        by_space.setdefault((tuple(port.type.shape), port.dims), []).append(number)
    return [_Group(tuple(n), tuple(dispatch.results[i] for i in n)) for n in by_space.values()]


def _compare(predicate: str, a: Index, b: Index) -> ir.Value:
    return arith.CmpIOp(getattr(arith.CmpIPredicate, predicate), index.value(a), index.value(b)).result


def _all_of(first: ir.Value, *rest: ir.Value) -> ir.Value:
    for condition in rest:
        first = arith.AndIOp(first, condition).result
    return first


STRATEGY = _Elementwise()
