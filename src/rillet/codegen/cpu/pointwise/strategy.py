"""Point-wise kernels: every element of every result is a function of its own index.

Covers elementwise chains with any broadcast or permutation, slices, pads, concatenations, gathers and casts. The
result's last axis is vectorized; a workgroup takes a block of rows, or a block of one long row, of about 32 KiB of
traffic. Where an argument is contiguous along another axis, square tiles are transposed in registers.
"""

from __future__ import annotations

import functools

from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.codegen import index
from rillet.codegen.cpu.caches import streaming
from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.cpu.pointwise.plan import PointwisePlan, RowsPlan, TilesPlan, make_plan
from rillet.codegen.cpu.pointwise.rows import Rows
from rillet.codegen.cpu.pointwise.tiles import Tiles
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.index import Index
from rillet.codegen.recognize.kernel_function import KernelFunction


class ElementwiseStrategy:
    """See the module's docstring."""

    name = "elementwise"
    vectorize_loops = False
    collapses = True

    def plan(self, function: KernelFunction, target: CpuTarget) -> PointwisePlan | None:
        """A plan for a kernel without reductions."""
        return make_plan(function, target)

    def emit(self, plan: PointwisePlan, kernel: KernelBuilder) -> None:
        """Emit the kernel as planned."""
        groups = [_emitter(kernel, group) for group in plan.groups]

        def grid() -> list[Index]:
            rows: Index = 0
            columns: Index = 0
            for group in groups:
                blocks = group.blocks()
                rows = index.add(rows, blocks[0])
                columns = index.maximum(columns, blocks[1])
            return [rows, columns]

        kernel.choice = plan.shape.choice
        kernel.grid(grid)
        with kernel.body():
            if len(groups) == 1:
                (only,) = groups
                streaming.emit(kernel, functools.partial(only.emit, kernel.workgroup(0), kernel.workgroup(1)))
                return
            _emit_own_group(kernel, groups)


def _emitter(kernel: KernelBuilder, group: RowsPlan | TilesPlan) -> Rows | Tiles:
    return Rows(kernel, group) if isinstance(group, RowsPlan) else Tiles(kernel, group)


def _emit_own_group(kernel: KernelBuilder, groups: list[Rows | Tiles]) -> None:
    """The block of the group that this workgroup's position falls in."""
    first: Index = 0
    for group in groups:
        row_blocks, column_blocks = group.blocks()
        last = index.add(first, row_blocks)
        mine = _all_of(
            _compare("uge", kernel.workgroup(0), first),
            _compare("ult", kernel.workgroup(0), last),
            _compare("ult", kernel.workgroup(1), column_blocks),
        )
        with kernel.when(mine):
            group.emit(index.sub(kernel.workgroup(0), first), kernel.workgroup(1))
        first = last


def _compare(predicate: str, a: Index, b: Index) -> ir.Value:
    return arith.CmpIOp(getattr(arith.CmpIPredicate, predicate), index.value(a), index.value(b)).result


def _all_of(first: ir.Value, *rest: ir.Value) -> ir.Value:
    for condition in rest:
        first = arith.AndIOp(first, condition).result
    return first
