"""Copying a panel of an rhs into scratch memory, so that the micro-kernel reads it as contiguous vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch_mlir import ir
from torch_mlir.dialects import memref, vector

from rillet.codegen import index
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.index import Index


def pack_panel(
    kernel: KernelBuilder,
    source: ir.Value,
    base: Index,
    column_stride: Index,
    axes: Sequence[tuple[Index, Index]],
    panel: ir.Value,
    *,
    columns: int,
    pitch: int,
    valid: Index,
    lanes: int,
) -> None:
    """Copy ``columns`` columns of the flat memref ``source`` to ``panel``: step k's columns begin at ``k * pitch``.

    ``axes`` are the (extent, stride in the source) of the reduction loops, outermost first. ``columns`` is a multiple
    of ``lanes``; columns from ``valid`` on repeat the last valid one, and their results are not used. Where the
    innermost reduction loop is contiguous in the source, squares of ``lanes`` x ``lanes`` are transposed in registers.
    """
    last = index.sub(valid, 1)
    element = ir.MemRefType(source.type).element_type
    # Shuffles of elements narrower than 32 bits would take more steps than they save.
    transposable = lanes > 1 and lanes & (lanes - 1) == 0 and element.width >= 32
    if not axes or axes[-1][1] != 1 or not transposable:

        def copy(sources: Sequence[Index], target: Index) -> None:
            element = memref.LoadOp(source, [index.value(sources[0])]).result
            memref.StoreOp(element, panel, [index.value(target)])

        with kernel.loop(0, columns) as loop:
            column = loop.iv if valid == columns else index.minimum(loop.iv, last)
            start = index.add(base, index.mul(column, column_stride))
            each_step(kernel, axes, [start], loop.iv, pitch, copy)
        return
    with kernel.loop(0, columns, lanes) as loop:
        group = [index.add(loop.iv, n) for n in range(lanes)]
        if valid != columns:
            group = [index.minimum(g, last) for g in group]
        starts = [index.add(base, index.mul(g, column_stride)) for g in group]
        _transpose(kernel, source, starts, list(axes), panel, loop.iv, pitch)


def each_step(
    kernel: KernelBuilder,
    axes: Sequence[tuple[Index, Index]],
    sources: Sequence[Index],
    target: Index,
    pitch: int,
    body: Callable[[Sequence[Index], Index], None],
) -> None:
    """Calls ``body(sources, target)`` for each step of the reduction loops ``axes``, (extent, stride in the source)
    each, outermost first. The target moves by ``pitch`` for each step."""
    if not axes:
        body(sources, target)
        return
    (extent, stride), *inner = axes
    target_stride = index.mul(index.product([e for e, _ in inner]), pitch)
    with kernel.loop(0, extent) as loop:
        moved = [index.add(s, index.mul(loop.iv, stride)) for s in sources]
        each_step(kernel, inner, moved, index.add(target, index.mul(loop.iv, target_stride)), pitch, body)


def _transpose(
    kernel: KernelBuilder,
    source: ir.Value,
    starts: list[Index],
    axes: list[tuple[Index, Index]],
    panel: ir.Value,
    target: Index,
    pitch: int,
) -> None:
    """Packs one square: a column for each lane of a vector."""
    (extent, stride), *inner = axes
    if inner:
        target_stride = index.mul(index.product([e for e, _ in inner]), pitch)
        with kernel.loop(0, extent) as loop:
            moved = [index.add(s, index.mul(loop.iv, stride)) for s in starts]
            further = index.add(target, index.mul(loop.iv, target_stride))
            _transpose(kernel, source, moved, inner, panel, further, pitch)
        return
    lanes = len(starts)
    type_ = ir.VectorType.get([lanes], ir.MemRefType(source.type).element_type)
    whole = index.mul(index.floordiv(extent, lanes), lanes)
    if whole != 0:
        with kernel.loop(0, whole, lanes) as loop:
            rows = [vector.LoadOp(type_, source, [index.value(index.add(s, loop.iv))]).result for s in starts]
            first = index.add(target, index.mul(loop.iv, pitch))
            for n, column in enumerate(transpose_registers(rows)):
                vector.StoreOp(column, panel, [index.value(index.add(first, n * pitch))])
    if whole == extent:
        return
    with kernel.loop(whole, extent) as loop:
        for n, s in enumerate(starts):
            element = memref.LoadOp(source, [index.value(index.add(s, loop.iv))]).result
            spot = index.add(index.add(target, n), index.mul(loop.iv, pitch))
            memref.StoreOp(element, panel, [index.value(spot)])


def transpose_registers(rows: list[ir.Value]) -> list[ir.Value]:
    """Transpose a square of n vectors of n lanes (n a power of two) with shuffles of two vectors: off-diagonal blocks
    swap places, first halves, then quarters, and so on."""
    n = len(rows)
    rows = list(rows)
    distance = n // 2
    while distance:
        low = [c if not c & distance else n + c - distance for c in range(n)]
        high = [c + distance if not c & distance else n + c for c in range(n)]
        for r in range(n):
            if r & distance:
                continue
            a, b = rows[r], rows[r + distance]
            rows[r], rows[r + distance] = _shuffle(a, b, low), _shuffle(a, b, high)
        distance //= 2
    return rows


def _shuffle(a: ir.Value, b: ir.Value, lanes: list[int]) -> ir.Value:
    return vector.ShuffleOp(a, b, lanes).result
