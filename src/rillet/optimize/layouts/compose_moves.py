"""Makes one copy of several that follow each other: slices, transpositions and the reshapes between them.

Such a chain splits axes, takes parts of some, reorders them and merges them. It is done once in that order: ``expand``,
``extract_slice``, a transposition and ``collapse``. The middle two are one dispatch; the others need none. A channel
shuffle whose halves are taken, or the patches of an image, are such chains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rillet.ir import Program, builders
from rillet.ir.extents import box, reassociation
from rillet.ir.rewrite import CLEANUP, blocks, defining, erase_dead, run_upstream, users
from rillet.ir.shapes import runs, shape_of, transpose
from rillet.ir.structured import DYNAMIC, copy_permutation
from rillet.optimize.layouts.factor_reshapes import common_axes
from rillet.optimize.layouts.layouts import is_flexible


@dataclass(eq=False)
class _Part:
    """A part of an axis of the source that stays together, its ``extent`` in elements, and the elements that are
    taken."""

    extent: int
    offset: int
    size: int


@dataclass(frozen=True)
class _Move:
    """A value as a rearrangement of ``source``: the parts of each of the source's axes, and the parts that form each of
    its own axes. ``copies``: how often elements are copied on the way."""

    source: ir.Value
    split: tuple[tuple[_Part, ...], ...]
    axes: tuple[tuple[_Part, ...], ...]
    copies: int

    @staticmethod
    def of(source: ir.Value) -> _Move:
        """The value itself."""
        parts = tuple((_Part(extent, 0, extent),) for extent in shape_of(source))
        return _Move(source, parts, parts, 0)


def run(program: Program, options: None) -> None:
    """Compose in ``@main`` and its control flow."""
    with program.context, ir.Location.unknown():
        for block in blocks(program.main()):
            operations = [view.operation for view in block.operations]
            free: dict[ir.Value, bool] = {}
            for op in [op for op in operations if _copies(op)]:
                move = _move(op.results[0], free)
                if move.copies > 1 and _is_one_copy(move):
                    with ir.InsertionPoint(op), op.location:
                        op.results[0].replace_all_uses_with(_moved(move))
        erase_dead(program.main())
        run_upstream(program.module.operation, CLEANUP)


def _copies(op: ir.Operation) -> bool:
    return op.name == "tensor.extract_slice" or copy_permutation(op) is not None


def _is_move(op: ir.Operation) -> bool:
    return _copies(op) or op.name in ("tensor.expand_shape", "tensor.collapse_shape")


def _move(value: ir.Value, free: dict[ir.Value, bool]) -> _Move:
    """``value`` as a rearrangement of the earliest value of its chain. ``free``: what is known of ``_is_free``, since a
    value may be cut into a thousand slices."""
    op = defining(value)
    if op is None or not _is_move(op) or DYNAMIC in (*shape_of(value), *shape_of(op.operands[0])):
        return _Move.of(value)
    source = op.operands[0]
    if source not in free:
        free[source] = _is_free(source)
    before = _move(source, free) if free[source] else _Move.of(source)
    return _after(before, op) or _after(_Move.of(source), op) or _Move.of(value)


def _is_free(value: ir.Value) -> bool:
    """Whether an intermediate value need not be made. Where other operations read it, it is made anyway; each of its
    halves may still be made at once."""
    if defining(value) is None or is_flexible(value):
        return False
    between = users(value)
    return len(between) == 1 or all(user.name == "tensor.extract_slice" for user in between)


def _is_one_copy(move: _Move) -> bool:
    """Whether one dispatch does it well. Square tiles of a transposition need whole tensors, so sliced axes must stay
    in runs."""
    solid = [[p for axis in axes for p in axis if p.size != 1] for axes in (move.split, move.axes)]
    is_sliced = any(p.size != p.extent for axis in move.split for p in axis)
    return not is_sliced or solid[0][-1:] == solid[1][-1:]


def _after(move: _Move, op: ir.Operation) -> _Move | None:
    """The move followed by ``op``; None when ``op`` separates parts that belong together."""
    permutation = copy_permutation(op)
    if permutation is not None:
        return _Move(move.source, move.split, tuple(move.axes[axis] for axis in permutation), move.copies + 1)
    if op.name == "tensor.collapse_shape":
        merged = tuple(tuple(p for axis in group for p in move.axes[axis]) for group in reassociation(op))
        return _Move(move.source, move.split, merged, move.copies)
    return _expanded(move, op) if op.name == "tensor.expand_shape" else _sliced(move, op)


def _sliced(move: _Move, op: ir.Operation) -> _Move | None:
    """The move followed by a slice along an axis, which takes some elements of the axis's outermost part."""
    if len(shape_of(op.results[0])) != len(move.axes):
        return None
    taken: dict[_Part, _Part] = {}
    for parts, start, size, step in zip(move.axes, *box(op), strict=True):
        if not (isinstance(start, int) and isinstance(size, int)) or step != 1:
            return None
        if size == math.prod(p.size for p in parts):
            continue
        first = next((n for n, p in enumerate(parts) if p.size != 1), 0)
        inner = math.prod(p.size for p in parts[first + 1 :])
        if start % inner or size % inner:
            return None
        part = parts[first]
        taken[part] = _Part(part.extent, part.offset + start // inner, size // inner)
    return _replaced(move, {old: (new,) for old, new in taken.items()}, move.copies + 1)


def _expanded(move: _Move, op: ir.Operation) -> _Move | None:
    """The move followed by an expansion, which splits the parts of an axis at its own boundaries."""
    shape, axes = shape_of(op.results[0]), []
    replaced: dict[_Part, tuple[_Part, ...]] = {}
    for parts, group in zip(move.axes, reassociation(op), strict=True):
        common = common_axes([p.size for p in parts], [shape[axis] for axis in group])
        if common is None:
            return None
        sizes, of_parts, of_axes = common
        fine: dict[int, _Part] = {}
        for part, numbers in zip(parts, of_parts, strict=True):
            pieces = _pieces(part, [sizes[n] for n in numbers])
            if pieces is None:
                return None
            fine |= dict(zip(numbers, pieces, strict=True))
            replaced[part] = tuple(pieces)
        axes += [tuple(fine[n] for n in numbers) for numbers in of_axes]
    split = _replaced(move, replaced, move.copies).split
    return _Move(move.source, split, tuple(axes), move.copies)


def _pieces(part: _Part, sizes: Sequence[int]) -> list[_Part] | None:
    """A part as several parts of ``sizes``; None when the axis that it is a slice of cannot be split alike."""
    inner = math.prod(sizes[1:])
    if part.extent % inner or part.offset % inner:
        return None
    first = _Part(part.extent // inner, part.offset // inner, sizes[0])
    return [first, *(_Part(size, 0, size) for size in sizes[1:])]


def _replaced(move: _Move, new: dict[_Part, tuple[_Part, ...]], copies: int) -> _Move:
    def parts(old: tuple[_Part, ...]) -> tuple[_Part, ...]:
        return tuple(p for o in old for p in new.get(o, (o,)))

    return _Move(move.source, tuple(map(parts, move.split)), tuple(map(parts, move.axes)), copies)


def _moved(move: _Move) -> ir.Value:
    """The rearrangement, at the insertion point."""
    value = move.source
    parts = [p for axis in move.split for p in axis]
    if len(parts) > len(move.split):
        value = builders.expand_shape(value, runs([len(axis) for axis in move.split]), [p.extent for p in parts])
    if any(p.size != p.extent for p in parts):
        value = builders.extract_slice(value, [p.offset for p in parts], [p.size for p in parts], [1] * len(parts))
    order = [parts.index(p) for axis in move.axes for p in axis]
    if order != sorted(order):
        value = transpose(value, order)
    if len(parts) > len(move.axes):
        shape = [math.prod(p.size for p in axis) for axis in move.axes]
        value = builders.collapse_shape(value, runs([len(axis) for axis in move.axes]), shape)
    return value
