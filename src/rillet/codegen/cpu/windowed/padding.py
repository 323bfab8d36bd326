"""Padded operands of windowed kernels: constants are read where the tensor ends.

The choice between the tensor and the constants is made as seldom as possible. Where it is known which positions of an
image line exist, it is made once for all columns of each line that a tile reads; there are then as many constants as a
tile reads of a line. Which positions exist is known except for tiles at the ends of lines, which have code of their
own.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from torch_mlir import ir

from rillet.codegen import index
from rillet.codegen.cpu.windowed.plan import WindowedPlan
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.padding import Padded, Place
from rillet.codegen.index import Index
from rillet.codegen.recognize.linear_access import Access
from rillet.ir.dtypes import storage_bytes
from rillet.ir.linear import Linear
from rillet.ir.structured import DYNAMIC

Range = tuple[int, int]  # the least and the greatest value of a coordinate
Places = dict[tuple[tuple[int, ...], tuple[tuple[int, Index], ...]], Place]

_MOST_RUN_BYTES, _SMALL_RUN_BYTES = 4096, 1024  # of the constants; the second where code must be small
_MOST_CHANGES = 8  # at most, that get code of their own: places along a line where other positions begin to exist
_INSIDE, _OUTSIDE = 0, -1  # coordinates that stand for all that exist, and for all that do not


@dataclass(frozen=True)
class Base:
    """A tensor element: its flat offset without its column's part, that part, and its coordinates (without columns)
    with their known ranges."""

    offset: Index
    column: Index
    coordinates: tuple[Index, ...]
    ranges: tuple[Range | None, ...]


class PaddedInput:
    """An operand under its padding; ``flat`` is the tensor. Create it at the start of the kernel's body."""

    def __init__(self, kernel: KernelBuilder, plan: WindowedPlan, which: Access, flat: ir.Value, strides: list[Index]):
        self._strides = strides
        self._extents = which.shape
        step = which.static_stride(plan.column_loop) or 0
        self._along = _line_axis(plan, which)
        columns = plan.root.extents[plan.column_loop]
        element = storage_bytes(ir.RankedTensorType(which.value.type).element_type)
        most = (_MOST_RUN_BYTES if kernel.target.machine.l2_bytes else _SMALL_RUN_BYTES) // element
        lane_run, column_run = plan.tile.lanes * max(step, 1), (columns - 1) * step + 1
        self._has_columns = columns != DYNAMIC and step > 0 and column_run <= most
        run = column_run if self._has_columns else lane_run
        if self._along is not None:
            stride = self._strides[self._along]
            line_run = column_run + _reach(plan, which, self._along) * stride if isinstance(stride, int) else most + 1
            if self._has_columns and line_run <= most:
                run = line_run
            else:
                self._along = None
        self._padded = Padded(kernel, which, flat, run)
        self._adds_nothing = which.padding is not None and which.padding.adds_nothing

    def place(self, base: Base, shift: tuple[int, ...], chosen: Places) -> Place:
        """The memory, and the offset in it, of the element ``shift`` away from ``base``; ``chosen``: earlier
        choices."""
        moved = {n: self._moved(base, n, shift[n]) for n in self._padded.axes}
        along = self._along
        if along is not None and not _is_inside(moved.get(along, _INSIDE)):
            along = None
        apart = tuple(0 if n == along else distance for n, distance in enumerate(shift))
        key = (apart, tuple(sorted((n, c) for n, c in moved.items() if isinstance(c, int))))
        if key not in chosen:
            offset = base.offset
            for distance, stride in zip(apart, self._strides, strict=True):
                offset = index.add(offset, index.mul(stride, distance))
            if not self._has_columns:
                offset = index.add(offset, base.column)
            chosen[key] = self._padded.choose(self._padded.exists(moved), offset)
        flat, offset = chosen[key]
        if along is not None:
            offset = index.add(offset, index.mul(self._strides[along], shift[along]))
        return flat, index.add(offset, base.column) if self._has_columns else offset

    def is_skipped(self, base: Base, shift: tuple[int, ...]) -> bool:
        """Whether the element is known to be padding that adds nothing to a sum of products."""
        moved = (self._moved(base, n, shift[n]) for n in self._padded.axes if base.ranges[n] is not None)
        return self._adds_nothing and any(isinstance(c, int) and c == _OUTSIDE for c in moved)

    def _moved(self, base: Base, axis: int, distance: int) -> Index:
        """The coordinate on a padded axis, or ``_INSIDE`` or ``_OUTSIDE`` where that much is known."""
        known = base.ranges[axis]
        if known is not None:
            low, high = known[0] + distance, known[1] + distance
            if low >= 0 and high < self._extents[axis]:
                return _INSIDE
            if high < 0 or low >= self._extents[axis]:
                return _OUTSIDE
        return index.add(base.coordinates[axis], distance)


def _is_inside(coordinate: Index) -> bool:
    return isinstance(coordinate, int) and coordinate == _INSIDE


def _line_axis(plan: WindowedPlan, which: Access) -> int | None:
    """The axis along which tiles read neighbouring rows."""
    row = plan.row_loop
    axes = [n for n, form in enumerate(which.axes) if row is not None and form.coefficients[row]]
    if len(axes) != 1 or min(which.axes[axes[0]].coefficients) < 0:
        return None
    return axes[0]


def _reach(plan: WindowedPlan, which: Access, axis: int) -> int:
    """The distance from the first to the last position that a tile reads along an axis."""
    form, extents = which.axes[axis], plan.root.extents
    steps = {n: extents[n] - 1 for n in plan.unrolled} | {plan.row_loop: plan.tile.rows - 1}
    return sum(form.coefficients[n] * distance for n, distance in steps.items() if n is not None)


def range_of(form: Linear, position: Mapping[int, Index], ranges: Mapping[int, Range]) -> Range | None:
    """The range of a coordinate, without the columns' part of it; None when it is not known."""
    low = high = form.constant
    for loop, value in position.items():
        coefficient = form.coefficients[loop]
        if not coefficient:
            continue
        known = (value, value) if isinstance(value, int) else ranges.get(loop)
        if known is None:
            return None
        ends = coefficient * known[0], coefficient * known[1]
        low, high = low + min(ends), high + max(ends)
    return low, high


def borders(plan: WindowedPlan) -> list[int]:
    """The places where a line of results is divided, in whole tiles, so that each part knows which positions of the
    window exist along the line. 0 comes first, and the end of the last whole tile last."""
    row, rows, extents = plan.row_loop, plan.tile.rows, plan.root.extents
    assert row is not None
    whole = extents[row] - extents[row] % rows
    changes: set[int] = set()
    for which in plan.accesses:
        for axis in () if which is None or which.padding is None else which.padding.axes:
            assert which is not None
            step = which.axes[axis].coefficients[row]
            for offset in _offsets(plan, which.axes[axis]) if step > 0 else ():
                changes |= {-(offset // step), (which.shape[axis] - 1 - offset) // step + 1}
    inside = sorted(change for change in changes if 0 < change < whole)
    if len(inside) > _MOST_CHANGES:
        inside = [inside[0], inside[-1]]
    found = {0, whole} | {bound for change in inside for bound in _around(change, rows) if bound <= whole}
    return sorted(found)


def _offsets(plan: WindowedPlan, form: Linear) -> set[int]:
    """The positions that the first result of a line reads along an axis, over the whole window."""
    extents = plan.root.extents
    loops = [n for n, c in enumerate(form.coefficients) if c and n in plan.root.reduction_loops]
    if DYNAMIC in (extents[n] for n in loops):
        return set()
    steps = itertools.product(*(range(extents[n]) for n in loops))
    return {form.constant + sum(form.coefficients[n] * i for n, i in zip(loops, at, strict=True)) for at in steps}


def _around(change: int, rows: int) -> tuple[int, int]:
    """The tile that a change falls into, or where it begins."""
    return change // rows * rows, -(-change // rows) * rows
