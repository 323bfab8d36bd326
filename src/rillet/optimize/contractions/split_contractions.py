"""Splits a contraction whose results are used in slices only into one contraction for each slice.

One matrix product often makes queries, keys and values, or both halves of a gate, which are then cut apart, possibly
within each head. A slice of columns is not contiguous, so each would be a copy. Instead the weights are cut at compile
time. The operations between the contraction and the slices (a bias, an activation, a reshape, a transposition) are
repeated for each part. Each part can then join its users, or be read in place by them.

The lhs is then read once for each part instead of once. That pays while it costs less than writing and reading all
columns again, and while the parts together fill no more vectors than the whole.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from torch_mlir import ir

from rillet.ir import Program, builders, constants
from rillet.ir.builders import Extent
from rillet.ir.contraction import contraction
from rillet.ir.extents import box, extents, kept_axes, reassociation, same
from rillet.ir.rewrite import (
    blocks,
    defining,
    erase_dead,
    is_defined_by,
    rebuild_generic,
    replace,
    sweep_constants,
    users,
)
from rillet.ir.shapes import reshape_units
from rillet.ir.structured import DYNAMIC, Structured, captures, structured, walk


@dataclass(frozen=True)
class Options:
    """``lanes``: columns that a kernel computes together, whether or not all of them exist."""

    lanes: int = 16


@dataclass(frozen=True)
class _Cut:
    """How a value is cut: the positions along ``axis`` that each slice takes, ascending."""

    axis: int
    positions: tuple[tuple[int, ...], ...]


@dataclass
class _Region:
    """The operations from contractions to slices, in program order, with the cut of each one's result."""

    slices: list[ir.Operation]
    cuts: dict[ir.Operation, _Cut] = field(default_factory=dict)


def run(program: Program, options: Options) -> None:
    """Split in ``@main`` and its control flow."""
    with program.context, ir.Location.unknown():
        for block in blocks(program.main()):
            sliced = dict.fromkeys(op.operands[0] for op in map(_operation, block.operations) if _is_slice(op))
            for value in reversed(sliced):
                region = _region(program, value, block, options)
                if region is not None:
                    _split(program, region, value)
        erase_dead(program.main())
        sweep_constants(program)


def _operation(view: ir.OpView | ir.Operation) -> ir.Operation:
    return view.operation


def _is_slice(op: ir.Operation) -> bool:
    return op.name == "tensor.extract_slice"


# --- recognition ---


def _region(program: Program, value: ir.Value, block: ir.Block, options: Options) -> _Region | None:
    """The operations to split so that ``value`` is made in parts; None when that is impossible or does not pay."""
    slices = users(value)
    found = [_range(op) for op in slices] if all(_is_slice(op) and op.block == block for op in slices) else []
    axes = {f[0] for f in found if f is not None}
    if None in found or len(axes) != 1 or defining(value) is None:
        return None
    positions = tuple(tuple(f[1]) for f in found if f is not None)
    if len(set().union(*positions)) != sum(map(len, positions)):
        return None  # they overlap
    region = _Region(slices)
    return region if _grow(program, region, value, _Cut(axes.pop(), positions), options) else None


def _range(op: ir.Operation) -> tuple[int, range] | None:
    """The only axis along which a slice takes a part, and the part; None when it is no such slice."""
    source = op.operands[0]
    shape = ir.RankedTensorType(source.type).shape
    found = None
    with ir.InsertionPoint(op):
        whole = extents(source)
    for axis, (start, size, step) in enumerate(zip(*box(op), strict=True)):
        if step != 1:
            return None
        if same(start, 0) and same(size, whole[axis]):
            continue
        if found is not None or not isinstance(start, int) or not isinstance(size, int) or shape[axis] == DYNAMIC:
            return None
        found = axis, range(start, start + size)
    return found


def _grow(program: Program, region: _Region, value: ir.Value, cut: _Cut, options: Options) -> bool:
    """Add the operations that make ``value``, back to contractions. False when another operation uses one of their
    results."""
    owner = defining(value)
    assert owner is not None
    position = {op: i for i, op in enumerate(map(_operation, owner.block.operations))}
    wanted = {owner: cut}
    pending = [-position[owner]]
    by_position = {i: op for op, i in position.items()}
    while pending:
        op = by_position[-heapq.heappop(pending)]  # the last first: all its users are known by then
        if not all(user in region.cuts or user in region.slices for user in users(op.results[0])):
            return False
        region.cuts[op] = wanted[op]
        sources = _sources(program, op, wanted[op], options)
        if sources is None:
            return False
        for source, own in sources:
            maker = defining(source)
            if maker is None or maker.block != op.block or wanted.get(maker, own) != own:
                return False
            if maker not in wanted:
                wanted[maker] = own
                heapq.heappush(pending, -position[maker])
    region.cuts = dict(reversed(region.cuts.items()))
    return True


def _sources(program: Program, op: ir.Operation, cut: _Cut, options: Options) -> list[tuple[ir.Value, _Cut]] | None:
    """The operands of ``op`` to be cut when its result is, and their cuts; None when ``op`` cannot be split.

    Constants can always be cut, and end a region, as contractions do.
    """
    view = structured(op)
    if view is not None and len(op.results) == 1:
        loop = view.init_maps[0][cut.axis]
        if view.is_elementwise:
            return _elementwise_sources(program, view, loop, cut)
        return [] if _pays(program, view, loop, [len(p) for p in cut.positions], options) else None
    shape = ir.RankedTensorType(op.results[0].type).shape if len(op.results) == 1 else []
    if op.name == "tensor.expand_shape":
        number, group = next((n, g) for n, g in enumerate(reassociation(op)) if cut.axis in g)
        if DYNAMIC in (shape[a] for a in group):
            return None
        extent = shape[cut.axis]
        outer = math.prod(shape[a] for a in group if a < cut.axis)
        inner = math.prod(shape[a] for a in group if a > cut.axis)
        spread = [
            tuple((o * extent + p) * inner + i for o in range(outer) for p in own for i in range(inner))
            for own in cut.positions
        ]
        return [(op.operands[0], _Cut(number, tuple(spread)))]
    if op.name == "tensor.collapse_shape":
        source = ir.RankedTensorType(op.operands[0].type).shape
        solid = [a for a in reassociation(op)[cut.axis] if source[a] != 1]
        return [(op.operands[0], _Cut(solid[0], cut.positions))] if len(solid) == 1 else None
    return None


def _elementwise_sources(
    program: Program, view: Structured, loop: object, cut: _Cut
) -> list[tuple[ir.Value, _Cut]] | None:
    depends = any(op.name == "linalg.index" for op in walk(view.op)) or view.init_is_read()
    if depends or any(isinstance(v.type, ir.RankedTensorType) for v in captures(view.op)):
        return None
    found = []
    for value, map_ in zip(view.inputs, view.input_maps, strict=True):
        if not all(isinstance(e, int) for e in map_) or map_.count(loop) > 1:  # type: ignore[arg-type]
            return None
        if loop in map_ and constants.array_of(program, value) is None:
            found.append((value, _Cut(map_.index(loop), cut.positions)))  # type: ignore[arg-type]
    return found


def _pays(program: Program, view: Structured, loop: object, sizes: Sequence[int], options: Options) -> bool:
    """Whether a contraction can and should be split along its column loop into parts of ``sizes`` columns."""
    roles = contraction(view)
    if roles is None or loop not in roles.n or not is_defined_by(view.inits[0], "linalg.fill"):
        return False
    map_ = view.maps[roles.rhs]
    if constants.array_of(program, view.inputs[roles.rhs]) is None or map_.count(loop) != 1:  # type: ignore[arg-type]
        return False
    all_extents = view.extents
    rows = math.prod(abs(all_extents[d]) for d in (*roles.batch, *roles.m, *roles.image))
    if rows == 1:
        return False  # a slice of the only row is a run of elements
    columns = all_extents[roles.n[roles.n.index(loop)]]  # type: ignore[arg-type]
    vectors = sum(-(-size // options.lanes) for size in sizes)
    reduced = math.prod(all_extents[d] for d in roles.k)
    return vectors <= -(-columns // options.lanes) and (len(sizes) - 1) * reduced < 2 * columns


# --- rewriting ---


def _split(program: Program, region: _Region, value: ir.Value) -> None:
    made: list[dict[ir.Value, ir.Value]] = [{} for _ in region.slices]
    for op, cut in region.cuts.items():
        with ir.InsertionPoint(op), op.location:
            for part, positions in zip(made, cut.positions, strict=True):
                part[op.results[0]] = _part(program, op, cut.axis, positions, part)
    for op, part in zip(region.slices, made, strict=True):
        with ir.InsertionPoint(op), op.location:
            replace(op, [_in_rank_of(op, part[value])])


def _part(
    program: Program, op: ir.Operation, axis: int, positions: Sequence[int], made: dict[ir.Value, ir.Value]
) -> ir.Value:
    """The part of ``op``'s result at ``positions`` of ``axis``; ``made`` has the parts of its operands."""
    shape: list[Extent] = extents(op.results[0])
    shape[axis] = len(positions)
    if op.name == "tensor.expand_shape":
        return builders.expand_shape(made[op.operands[0]], reassociation(op), shape)
    if op.name == "tensor.collapse_shape":
        return builders.collapse_shape(made[op.operands[0]], reassociation(op), builders.split(shape)[0])
    view = structured(op)
    assert view is not None
    loop = view.init_maps[0][axis]
    operands = [
        made[value] if value in made else _cut_constant(program, value, map_, loop, positions)
        for value, map_ in zip(view.inputs, view.input_maps, strict=True)
    ]
    element = ir.RankedTensorType(op.results[0].type).element_type
    init = defining(view.inits[0])
    is_sum = init is not None and not view.is_elementwise
    operands.append(builders.fill(init.operands[0], shape) if init and is_sum else builders.empty(shape, element))
    return rebuild_generic(op, operands, [operands[-1].type], view.maps, view.parallel).results[0]


def _cut_constant(
    program: Program, value: ir.Value, map_: Sequence[object], loop: object, positions: Sequence[int]
) -> ir.Value:
    """The part of a constant; ``value`` itself where it does not vary along ``loop``."""
    if loop not in map_:
        return value
    array = constants.array_of(program, value)
    assert array is not None
    part = array.take(positions, list(map_).index(loop))
    return constants.constant(program, part, constants.global_name(value) or "constant")


def _in_rank_of(op: ir.Operation, part: ir.Value) -> ir.Value:
    """``part`` with the axes of the slice ``op``, which may drop axes of extent 1."""
    source = extents(part)
    kept = kept_axes(op)
    return part if len(kept) == len(source) else reshape_units(part, source, [source[a] for a in kept])
