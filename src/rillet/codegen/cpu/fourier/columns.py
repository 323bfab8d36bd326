"""A complex transform of one row of a smooth length, vectorized within the row.

The row is a matrix of ``rows`` by ``columns``, number ``columns n1 + n2`` at ``(n1, n2)``. Its columns are transformed
as many as a vector has lanes at a time, turned by ``exp(-2 pi i n2 k1 / n)`` and transposed; then its rows are
transformed in the same way, and number ``k1 + rows k2`` of the result is at ``(k2, k1)`` (Bailey, FFTs in external or
hierarchical memory, 1990). Matrices are padded to whole vectors, and have at least as many rows as there are lanes.
What lanes beyond a matrix compute is never read.
"""

from __future__ import annotations

import numpy as np
from torch_mlir import ir

from rillet.codegen import index
from rillet.codegen.cpu.fourier.butterflies import Complex
from rillet.codegen.cpu.fourier.passes import Ends, Passes
from rillet.codegen.cpu.fourier.plan import Matrix
from rillet.codegen.cpu.fourier.workspace import Columns, Planes, Table, Workspace
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.transpose import transpose


class ByColumns:
    """Emits transforms of one length."""

    def __init__(self, kernel: KernelBuilder, matrix: Matrix, lanes: int, element: ir.Type) -> None:
        self.kernel, self.matrix, self.lanes = kernel, matrix, lanes
        self.along_columns = Passes(kernel, matrix.rows, element)
        self.along_rows = Passes(kernel, matrix.columns, element)
        self.row_pitch, self.column_pitch = (-(-n // lanes) * lanes for n in (matrix.rows, matrix.columns))
        self.turned = Planes.local(kernel, self.row_pitch * self.column_pitch, lanes, element)
        room = max(self.row_pitch, matrix.columns)
        first, second = (Workspace.local(kernel, room, lanes, element) for _ in range(2))
        self.rooms = (first, second)
        k1, n2 = np.indices((self.row_pitch, self.column_pitch))
        turns = np.exp(-2j * np.pi * (k1 * n2) / (matrix.rows * matrix.columns))
        self.turns = Table.of(kernel, turns, element, lanes)

    def emit(self, numbers: Planes, ends: Ends) -> Planes:
        """The transform of ``numbers``, in place."""
        rows, columns = self.matrix.rows, self.matrix.columns
        with self.kernel.loop(0, columns, self.lanes) as it:
            source = Columns(numbers, it.iv, columns)
            self._turn(self.along_columns.emit(source, self.rooms, Ends(swap_in=ends.swap_in)), it.iv)
        # From the last columns to the first, so that each overwrites what lanes beyond the one before have stored.
        with self.kernel.loop(0, self.row_pitch, self.lanes) as it:
            first = index.sub(self.row_pitch - self.lanes, it.iv)
            source, target = Columns(self.turned, first, self.row_pitch), Columns(numbers, first, rows)
            self.along_rows.emit_to(source, self.rooms, Ends(swap_out=ends.swap_out, scale=ends.scale), target)
        return numbers

    def _turn(self, transformed: Workspace, column: index.Index) -> None:
        """Turn the transforms of columns and transpose them."""
        with self.kernel.loop(0, self.row_pitch, self.lanes) as it:
            square = []
            for n in range(self.lanes):
                place = index.add(index.mul(index.add(it.iv, n), self.column_pitch), column)
                square.append(transformed.load(it.iv, n) * self.turns.load(place, self.turned))
            parts = zip(*(transpose([x[part] for x in square]) for part in range(2)), strict=True)
            for n, (re, im) in enumerate(parts):
                place = index.add(index.mul(index.add(column, n), self.row_pitch), it.iv)
                self.turned.store(place, Complex(re, im))
