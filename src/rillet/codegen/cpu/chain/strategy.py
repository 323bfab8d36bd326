"""Strategy: chains of contractions and row-wise reductions over the same rows, such as attention.

A workgroup takes a block of rows from the first stage to the last. The tensors between stages exist for that block
only, in scratch.
"""

from __future__ import annotations

import dataclasses

from torch_mlir import ir

from rillet.codegen import index
from rillet.codegen.cpu.chain.plan import ChainPlan, ContractionStage, RowStage, choice, make_plan
from rillet.codegen.cpu.contraction.strategy import Workgroup
from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.cpu.rowwise import strategy as rowwise
from rillet.codegen.emit.blocks import Span, workgroup_span
from rillet.codegen.emit.extents import loop_sizes
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.memory import Buffer, reshape_memref
from rillet.codegen.index import Index
from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.ir.limits import LONGEST_ROW


class ChainStrategy:
    """See the module's docstring."""

    name = "chain"
    vectorize_loops = False
    collapses = False

    def plan(self, function: KernelFunction, target: CpuTarget) -> ChainPlan | None:
        """A plan for two or more contractions, with or without row-wise reductions between them. Each stage reads only
        the row that the stage before it made."""
        return make_plan(function, target)

    def emit(self, plan: ChainPlan, kernel: KernelBuilder) -> None:
        """Emit the kernel as planned."""
        kernel.choice = choice(plan)

        def grid() -> list[Index]:
            *fixed, rows = _sizes(kernel, plan)
            return [index.ceildiv(rows, _rows(kernel, plan)), index.product(fixed)]

        kernel.grid(grid)
        with kernel.body():
            _emit(kernel, plan)


def _sizes(kernel: KernelBuilder, plan: ChainPlan) -> list[Index]:
    """The extents of the chain's loops."""
    first = plan.stages[0]
    assert isinstance(first, ContractionStage)
    sizes = loop_sizes(kernel, first.plan.contraction.root)
    return [sizes[n] for n in (*first.fixed, first.rows) if n is not None]


def _rows(kernel: KernelBuilder, plan: ChainPlan) -> Index:
    """Rows of a block: whole register tiles if their tensors fit the scratch, otherwise as many rows as fit, at least
    one."""
    if not plan.growing:
        return plan.rows
    length = kernel.extents(plan.growing[0].value)[plan.growing[0].axes[-1]]
    row = index.mul(index.maximum(length, 1), sum(tile.unit for tile in plan.growing))
    rows = index.maximum(index.floordiv(plan.room, row), 1)
    whole = index.mul(index.floordiv(rows, plan.step), plan.step)
    return index.minimum(index.maximum(whole, index.minimum(rows, plan.step)), plan.rows)


def _emit(kernel: KernelBuilder, plan: ChainPlan) -> None:
    *fixed, total = _sizes(kernel, plan)
    at = index.delinearize(kernel.workgroup(1), fixed)
    rows = _rows(kernel, plan)
    span = _span(kernel, rows, total)
    tiles: dict[ir.Value, Buffer] = {}
    for tile in plan.tiles:
        if tile.over is not None:
            memref = tiles[tile.over].memref
        elif tile.grows:
            room = kernel.local([max(plan.room, LONGEST_ROW) // tile.unit], tile.element)
            memref = reshape_memref(room, [rows, kernel.extents(tile.value)[tile.axes[-1]]])
        else:
            memref = kernel.local([plan.rows, *tile.shape], tile.element)
        tiles[tile.value] = Buffer(memref, tile.element, tile.axes, (span[0], *[0] * len(tile.shape)))
    for stage in plan.stages:
        with kernel.stage(stage.stage, tiles):
            _emit_stage(kernel, plan, stage, at, span)


def _span(kernel: KernelBuilder, rows: Index, total: Index) -> Span:
    if isinstance(rows, int):
        return workgroup_span(kernel, 0, rows, total)
    start = index.mul(kernel.workgroup(0), rows)
    return start, index.minimum(index.add(start, rows), total)


def _emit_stage(
    kernel: KernelBuilder, plan: ChainPlan, stage: ContractionStage | RowStage, at: list[Index], span: Span
) -> None:
    if isinstance(stage, RowStage):
        fixed = {d: c for d, c in zip(stage.fixed, at, strict=True) if d is not None}
        rowwise.emit_span(kernel, stage.plan, fixed, stage.rows, span)
        return
    batch = {n: c for n, c in zip(stage.fixed, at, strict=True) if n is not None}
    blocks = dataclasses.replace(stage.plan.blocks, rows=plan.rows)
    group = Workgroup(kernel, dataclasses.replace(stage.plan, blocks=blocks))
    columns = loop_sizes(kernel, stage.plan.contraction.root)[stage.plan.contraction.n]
    group.block(batch, span, (0, columns))
