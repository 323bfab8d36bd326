"""Copying a panel of a right-hand side into scratch memory, so that the micro-kernel reads it as contiguous vectors."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import memref

from rillet.codegen.cpu import index
from rillet.codegen.cpu.index import Index
from rillet.codegen.cpu.kernel import Kernel


def pack_panel(
    kernel: Kernel,
    source: ir.Value,
    base: Index,
    column_stride: Index,
    axes: Sequence[tuple[Index, Index]],
    panel: ir.Value,
    *,
    columns: int,
    pitch: int,
    valid: Index,
) -> None:
    """Copy ``columns`` columns of the flat memref ``source`` to ``panel``: step k's columns begin at ``k * pitch``.

    ``axes`` are the (extent, stride in the source) of the reduction loops, outermost first. Columns from ``valid`` on
    repeat the last valid one; nobody looks at what is computed from them.
    """
    last = index.sub(valid, 1)
    with kernel.loop(0, columns) as loop:
        column = loop.iv if valid == columns else index.minimum(loop.iv, last)
        start = index.add(base, index.mul(column, column_stride))
        _copy(kernel, source, start, list(axes), panel, loop.iv, pitch)


def _copy(
    kernel: Kernel,
    source: ir.Value,
    start: Index,
    axes: list[tuple[Index, Index]],
    panel: ir.Value,
    target: Index,
    pitch: int,
) -> None:
    if not axes:
        element = memref.LoadOp(source, [index.value(start)]).result
        memref.StoreOp(element, panel, [index.value(target)])
        return
    (extent, stride), *inner = axes
    target_stride = index.mul(index.product([e for e, _ in inner]), pitch)
    with kernel.loop(0, extent) as loop:
        moved = index.add(start, index.mul(loop.iv, stride))
        _copy(kernel, source, moved, inner, panel, index.add(target, index.mul(loop.iv, target_stride)), pitch)
