"""Turns gathers at positions known at compile time into windows. Resizing an image by fixed scales then reads ``x[i
floordiv 2]``. Unlike a ``tensor.extract``, that can take any layout, be read in vectors and join other operations.

A position that depends on one loop only is computed for all of that loop's iterations, in numpy. Where it is ``clamp((a
* i + b) floordiv c)``, the tensor is extended by copies of its edges, so that nothing needs to be clamped, and an
indexing map reads it. Weights that depend on one loop only become tables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from torch_mlir import ir

from rillet.ir import Program, builders, constants
from rillet.ir.rewrite import blocks, clone_body, empty_generic, erase_dead
from rillet.ir.structured import DYNAMIC, Expr, Structured, index_loop, structured
from rillet.optimize.folding import evaluate

_MOST_EDGES = 4  # copies of an edge
_LONGEST = 1 << 20  # iterations of a loop whose positions are computed one by one


@dataclass(frozen=True)
class _Known:
    """A scalar of a body that depends on the position in at most one loop: its value at each position."""

    loop: int | None
    values: np.ndarray


@dataclass(frozen=True)
class _Position:
    """A position along an axis: ``(a * i + b) floordiv c`` for iteration ``i`` of ``loop``, ``b`` without a loop. Also
    how far it reaches below 0 and beyond the last element, where the edge element is read."""

    loop: int | None
    a: int
    b: int
    c: int
    low: int = 0
    high: int = 0

    def expression(self, shift: int) -> Expr:
        """The position in a tensor that begins ``shift`` elements earlier, as an affine expression."""
        if self.loop is None:
            return ir.AffineExpr.get_constant(self.b + shift)
        divisor = math.gcd(self.a, self.b + shift * self.c, self.c)
        a, b, c = (n // divisor for n in (self.a, self.b + shift * self.c, self.c))
        if (a, b, c) == (1, 0, 1):
            return self.loop
        linear = ir.AffineExpr.get_dim(self.loop) * a + b
        return ir.AffineExpr.get_floor_div(linear, c) if c > 1 else linear


@dataclass(frozen=True)
class _Gather:
    op: ir.Operation
    positions: tuple[_Position, ...]

    @property
    def source(self) -> ir.Value:
        return self.op.operands[0]


def run(program: Program, options: None) -> None:
    """Rewrite the gathers of ``@main`` and its control flow."""
    with program.context, ir.Location.unknown():
        for block in blocks(program.main()):
            for op in [view.operation for view in block.operations]:
                view = structured(op)
                if view is None or not _may_gather(view):
                    continue
                known = _known(view)
                gathers = _gathers(view, known)
                if gathers:
                    with ir.InsertionPoint(op), op.location:
                        _rewrite(program, view, known, gathers)
        erase_dead(program.main())


def _may_gather(view: Structured) -> bool:
    names = [op.name for op in view.body_ops()]
    simple = view.is_elementwise and len(view.inits) == 1 and not view.init_is_read()
    return simple and "tensor.extract" in names and not any(len(op.regions) for op in view.body_ops())


# --- known values ---


def _known(view: Structured) -> dict[ir.Value, _Known]:
    """The scalars of the body that depend on the position in at most one loop."""
    sizes = view.extents
    found: dict[ir.Value, _Known] = {}
    for op in view.body_ops():
        if op.name == "linalg.index":
            loop = index_loop(op)
            if sizes[loop] != DYNAMIC and sizes[loop] <= _LONGEST:
                found[op.results[0]] = _Known(loop, np.arange(sizes[loop], dtype=np.int64))
            continue
        operands = [found.get(v) or _constant(v) for v in op.operands]
        if not operands or any(o is None for o in operands):
            continue
        loops = {o.loop for o in operands if o is not None and o.loop is not None}
        values = evaluate.compute(op, [o.values for o in operands if o is not None]) if len(loops) <= 1 else None
        if values is not None:
            found[op.results[0]] = _Known(loops.pop() if loops else None, values)
    return found


def _constant(value: ir.Value) -> _Known | None:
    array = evaluate.known(value, {})
    return None if array is None else _Known(None, array)


# --- positions ---


def _gathers(view: Structured, known: Mapping[ir.Value, _Known]) -> list[_Gather] | None:
    """All the gathers of the body; None when one of them is no window, or extending its tensor does not pay."""
    found = []
    result = math.prod(ir.RankedTensorType(view.op.results[0].type).shape)
    for op in view.body_ops():
        if op.name != "tensor.extract":
            continue
        source, *indices = op.operands
        shape = ir.RankedTensorType(source.type).shape
        if DYNAMIC in shape:
            return None
        places = [_position(known.get(i) or _constant(i), n) for i, n in zip(indices, shape, strict=True)]
        if any(p is None for p in places):
            return None
        gather = _Gather(op, tuple(p for p in places if p is not None))
        if any(p.low or p.high for p in gather.positions) and math.prod(shape) > abs(result):
            return None
        found.append(gather)
    return found if _can_be_said(view, found) else None


def _can_be_said(view: Structured, gathers: Sequence[_Gather]) -> bool:
    """Whether all maps that name a loop alone are for axes of that loop's extent, as such maps require."""
    margins, extents = _margins(gathers), view.extents
    for gather in gathers:
        shape = ir.RankedTensorType(gather.source.type).shape
        for position, size, low, high in zip(gather.positions, shape, *margins[gather.source], strict=True):
            expression = position.expression(low)
            if isinstance(expression, int) and extents[expression] != size + low + high:
                return False
    return True


def _position(known: _Known | None, size: int) -> _Position | None:
    """The form of the positions along an axis of ``size`` elements, all inside the axis; None when they have none."""
    if known is None or size == 0 or known.values.size == 0:
        return None
    table = known.values.astype(np.int64)
    if np.any((table < 0) | (table >= size)):
        return None
    if known.loop is None or np.all(table == table.flat[0]):
        return _Position(None, 0, int(table.flat[0]), 1)
    count = len(table)
    slopes = dict.fromkeys((_reduced(1, 1), _reduced(size, count), _reduced(size - 1, count - 1)))
    fits = [p for a, c in slopes for p in _fits(known.loop, table, size, 2 * a, 2 * c)]
    return min(fits, key=lambda p: p.low + p.high, default=None)


def _reduced(a: int, c: int) -> tuple[int, int]:
    divisor = math.gcd(a, c)
    return a // divisor, c // divisor


def _fits(loop: int, table: np.ndarray, size: int, a: int, c: int) -> list[_Position]:
    """The positions ``clamp((a * i + b) floordiv c)`` that equal ``table``."""
    steps = a * np.arange(len(table), dtype=np.int64)
    # Positions below the first element read the same as at it, positions beyond the last one likewise.
    least = (c * table - steps)[table > 0]
    most = (c * table + c - 1 - steps)[table < size - 1]
    lowest = int(least.max()) if least.size else None
    highest = int(most.min()) if most.size else None
    offsets = [b for b in (lowest, highest) if b is not None]
    if lowest is not None and highest is not None and lowest <= 0 <= highest:
        offsets.append(0)
    found = []
    for b in offsets:
        reached = (steps + b) // c
        low, high = max(0, -int(reached.min())), max(0, int(reached.max()) - (size - 1))
        if np.array_equal(np.clip(reached, 0, size - 1), table) and max(low, high) <= _MOST_EDGES:
            found.append(_Position(loop, a, b, c, low, high))
    return found


# --- rewriting ---


def _rewrite(program: Program, view: Structured, known: Mapping[ir.Value, _Known], gathers: Sequence[_Gather]) -> None:
    margins = _margins(gathers)
    extended = {source: _extended(source, *margin) for source, margin in margins.items()}
    operands, maps, stands_for = list(view.inputs), list(view.input_maps), []
    for gather in gathers:
        lows, _ = margins[gather.source]
        operands.append(extended[gather.source])
        maps.append(tuple(p.expression(low) for p, low in zip(gather.positions, lows, strict=True)))
        stands_for.append(gather.op.results[0])
    for value, table in _tables(view, known):
        operands.append(constants.constant(program, table.values, "table"))
        maps.append((table.loop,))  # type: ignore[arg-type]
        stands_for.append(value)
    new, block = empty_generic(
        operands, view.inits, [*maps, *view.init_maps], view.parallel, [r.type for r in view.results]
    )
    count, old = len(view.inputs), view.body.arguments
    mapping = dict(zip(list(old)[:count], list(block.arguments)[:count], strict=True))
    mapping |= dict(zip(list(old)[count:], list(block.arguments)[len(operands) :], strict=True))
    _clone(view.body, block, mapping, dict(zip(stands_for, list(block.arguments)[count:], strict=False)))
    view.op.results[0].replace_all_uses_with(new.results[0])
    view.op.erase()


def _clone(
    source: ir.Block, target: ir.Block, mapping: dict[ir.Value, ir.Value], known: Mapping[ir.Value, ir.Value]
) -> None:
    """Clone a body without the values in ``known`` and the operations that only they need."""
    clone_body(source, target, mapping)
    for value, argument in known.items():
        mapping[value].replace_all_uses_with(argument)
    for op in reversed([o.operation for o in target.operations][:-1]):
        if not any(True for r in op.results for _ in r.uses):
            op.erase()


def _margins(gathers: Sequence[_Gather]) -> dict[ir.Value, tuple[list[int], list[int]]]:
    """For each tensor, the copies of its edges that all gathers together need, below and above each axis."""
    found: dict[ir.Value, tuple[list[int], list[int]]] = {}
    for gather in gathers:
        lows, highs = found.setdefault(gather.source, ([0] * len(gather.positions), [0] * len(gather.positions)))
        for axis, position in enumerate(gather.positions):
            lows[axis] = max(lows[axis], position.low)
            highs[axis] = max(highs[axis], position.high)
    return found


def _extended(source: ir.Value, lows: Sequence[int], highs: Sequence[int]) -> ir.Value:
    """``source`` with copies of its edges around it."""
    for axis, (low, high) in enumerate(zip(lows, highs, strict=True)):
        if not low and not high:
            continue
        shape = list(ir.RankedTensorType(source.type).shape)
        parts = [_edge(source, axis, 0)] * low + [source] + [_edge(source, axis, shape[axis] - 1)] * high
        shape[axis] += low + high
        source = builders.concat(parts, axis, shape)
    return source


def _edge(source: ir.Value, axis: int, position: int) -> ir.Value:
    shape = list(ir.RankedTensorType(source.type).shape)
    offsets = [position if a == axis else 0 for a in range(len(shape))]
    sizes = [1 if a == axis else extent for a, extent in enumerate(shape)]
    return builders.extract_slice(source, offsets, sizes, [1] * len(shape))


def _tables(view: Structured, known: Mapping[ir.Value, _Known]) -> list[tuple[ir.Value, _Known]]:
    """The known floats that unknown values need."""
    needed: dict[ir.Value, None] = {}
    for op in [o.operation for o in view.body.operations]:
        if any(r in known for r in op.results) or op.name == "tensor.extract":
            continue
        needed |= dict.fromkeys(v for v in op.operands if v in known and known[v].loop is not None)
    return [(v, known[v]) for v in needed if isinstance(v.type, ir.FloatType)]
