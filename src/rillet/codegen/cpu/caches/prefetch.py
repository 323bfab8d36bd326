"""Fetching operands of a contraction before they are read: the panels of the next column tile while row tiles use those
of the current one, and the operands of a tile's epilogue while its sums are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch_mlir import ir
from torch_mlir.dialects import memref

from rillet.codegen import index
from rillet.codegen.emit.addresses import Bound
from rillet.codegen.emit.memory import LINE_BYTES
from rillet.codegen.index import Index
from rillet.ir.dtypes import storage_bytes

_L1, _L2 = 3, 2  # how near to the core, as `memref.prefetch` counts


def fetch_ahead(
    source: ir.Value, panels: Sequence[Index], length: Index, part: Index, parts: int, step: int
) -> Callable[[Index, int], None]:
    """A function to call in a loop over the steps of the current panel, each ``step`` elements of the flat memref
    ``source``. It takes the offset of a step in the panel and the number of steps until the next call.

    The calls of one loop over a whole panel together fetch part ``part`` of ``parts`` (a power of two) of each of
    ``panels``, which begin at these offsets and have ``length`` elements. A part may lie beyond the end of ``source``:
    fetching never fails.
    """
    start = index.mul(index.minimum(part, parts - 1), index.floordiv(length, parts))

    def ahead(offset: Index, steps: int) -> None:
        inside = index.add(start, index.floordiv(offset, parts))
        for panel in panels:
            for n in range(max(1, steps // parts)):
                spot = index.add(index.add(panel, inside), n * step)
                memref.PrefetchOp(source, [index.value(spot)], False, _L2, True)

    return ahead


def fetch_tile(
    operands: Sequence[Bound], rows: Sequence[dict[int, Index]], column_loop: int, n: Index, columns: int
) -> None:
    """Fetch ``columns`` columns from ``n`` on of each of ``rows`` (loop -> coordinate) of each operand into L1."""
    for operand in operands:
        step = LINE_BYTES // storage_bytes(ir.MemRefType(operand.memref.type).element_type)
        for row in rows:
            for column in range(0, columns, step):
                spot = operand.offset(row | {column_loop: index.add(n, column)})
                memref.PrefetchOp(operand.memref, [index.value(spot)], False, _L1, True)
