"""Packs the rhs of contractions into column panels (docs/reference/flow-form.md, "Packed rhs").

A constant is packed during compilation, once for all its users. A computed rhs is packed by a dispatch of its own where
enough rows use it to pay for the copy. Depthwise convolutions have no columns and keep their weights as they are. Where
groups have few columns each, panels would be mostly empty: the columns of all groups lie side by side instead, so that
a vector takes several groups (``codegen/rewrites/group_columns.py``).

Where instructions multiply several steps of a reduction of 8-bit integers at once, constants hold those steps together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from rillet.dialects import linalg
from rillet.ir import Program, builders, constants
from rillet.ir.builders import Extent
from rillet.ir.contraction import Contraction, contraction, is_extended_product
from rillet.ir.extents import extents
from rillet.ir.linear import linear
from rillet.ir.rewrite import rebuild_generic, replace, run_upstream, sweep_constants
from rillet.ir.structured import DYNAMIC, Expr, Map, Structured, is_projected, structured, walk


@dataclass(frozen=True)
class Options:
    """``panel``: columns of a panel. ``steps`` and ``ways``: how many steps of 8-bit integers lie together, and in what
    order (see ``targets.Packing``); reductions longer than ``longest`` stay ungrouped, since kernels copy the rows of a
    register tile to scratch, which should take only a part of L2.

    A computed operand is packed from ``rows`` rows on, when its columns are not contiguous or it has more than
    ``bytes`` bytes: in place its rows lie far apart and compete for the same sets of a cache. Where its size is not
    known, it counts as large from ``narrow`` panels on. Groups of up to ``side_by_side`` columns go into no panels.
    Neither do f32 columns that fill up to half of a vector of ``lanes``, or a single column: each of these columns is
    contiguous.
    """

    panel: int = 16
    steps: int = 1
    ways: int = 1
    longest: int = 16 * 1024
    rows: int = 64
    narrow: int = 4
    bytes: int = 16 * 1024
    side_by_side: int = 8
    lanes: int = 1


def run(program: Program, options: Options) -> None:
    """Pack the rhs of the contractions in ``@main``."""
    with program.context, ir.Location.unknown():
        packed: dict[object, str] = {}
        for op in list(walk(program.main())):
            view = structured(op)
            roles = contraction(view) if view is not None else None
            if view is None or roles is None or not _is_packable(view, roles):
                continue
            with ir.InsertionPoint(op), op.location:
                if _has_small_groups(view, roles, options):
                    _lay_side_by_side(program, view, roles, packed)
                    continue
                if _has_few_columns(view, roles, options):
                    _lay_in_rows(program, view, roles, packed)
                    continue
                steps = options.steps if _is_narrow(view, roles) and _has_runs(view, roles, options) else 1
                value = _pack_constant(program, view, roles, options, packed, steps)
                if value is not None:
                    _use(view, roles, value, options, steps)
                    continue
                if _pays(view, roles, options):
                    _use(view, roles, _pack_computed(view, roles, options.panel), options, 1)
        run_upstream(program.module.operation, "builtin.module(func.func(cse))")
        sweep_constants(program)


def _is_packable(view: Structured, roles: Contraction) -> bool:
    """Whether there is one column loop, the last axis of the result, and plain loops index the operand."""
    return len(roles.n) == 1 and view.init_maps[0][-1] == roles.n[0] and is_projected(view.maps[roles.rhs])


def _has_small_groups(view: Structured, roles: Contraction, options: Options) -> bool:
    """Whether the groups have a power of two of float columns, contiguous in the result, and the lhs has the groups
    next to the axis that is summed over."""
    extents, result, lhs = view.extents, view.init_maps[0], view.maps[roles.lhs]
    columns = extents[roles.n[0]]
    if len(result) < 2 or result[-2] not in roles.batch or columns > options.side_by_side or columns & (columns - 1):
        return False
    element = ir.RankedTensorType(view.inputs[roles.rhs].type).element_type
    lies_last = lhs[-1] in roles.k and lhs[-2:-1] == (result[-2],)
    return columns > 0 and extents[result[-2]] > 1 and lies_last and isinstance(element, ir.F32Type)


def _lay_side_by_side(program: Program, view: Structured, roles: Contraction, packed: dict[object, str]) -> None:
    """Lay a constant out as ``[K dims.., batch.., N]``."""
    batch, reduced, column = _axes(view.maps[roles.rhs], roles)
    _lay(program, view, roles, packed, (*reduced, *batch, column))


def _lay(
    program: Program, view: Structured, roles: Contraction, packed: dict[object, str], order: tuple[int, ...]
) -> None:
    """Read a constant with its axes in another order."""
    value, map_ = view.inputs[roles.rhs], view.maps[roles.rhs]
    array, name = constants.array_of(program, value), constants.global_name(value)
    if array is None or name is None:
        return
    made = np.ascontiguousarray(array.transpose(order))
    type_ = ir.RankedTensorType.get(made.shape, ir.RankedTensorType(value.type).element_type)
    if (name, order) not in packed:
        packed[name, order] = constants.declare(program, made, f"{name}_packed", type_)
    maps: list[Map] = list(view.maps)
    maps[roles.rhs] = tuple(map_[axis] for axis in order)
    operands = list(view.op.operands)
    operands[roles.rhs] = constants.load(packed[name, order], type_)
    replace(view.op, rebuild_generic(view.op, operands, [r.type for r in view.op.results], maps, view.parallel).results)


def _has_few_columns(view: Structured, roles: Contraction, options: Options) -> bool:
    """Whether the rhs is a constant, and the lhs has the innermost reduction contiguous in runs of at least half a
    vector."""
    value, half = view.inputs[roles.rhs], options.lanes // 2
    return (
        constants.global_name(value) is not None
        and isinstance(ir.RankedTensorType(value.type).element_type, ir.F32Type)
        and not roles.batch
        and 0 < view.extents[roles.n[0]] <= half + 1
        and _run(view, roles) >= max(half, 2)
    )


def _run(view: Structured, roles: Contraction) -> int:
    """The number of lhs elements that are summed one after the other and are contiguous in memory."""
    extents, map_ = view.extents, view.maps[roles.lhs]
    *outer, innermost = sorted((*roles.k, *roles.window))
    if map_[-1] != innermost or extents[innermost] != ir.RankedTensorType(view.inputs[roles.lhs].type).shape[-1]:
        return 0
    form = linear(map_[-2], view.loops) if outer and len(map_) > 1 else None
    return extents[innermost] * (extents[outer[-1]] if form is not None and form.terms.get(outer[-1]) == 1 else 1)


def _lay_in_rows(program: Program, view: Structured, roles: Contraction, packed: dict[object, str]) -> None:
    """Lay a constant out as ``[N, K dims..]``."""
    _, reduced, column = _axes(view.maps[roles.rhs], roles)
    _lay(program, view, roles, packed, (column, *reduced))


def _is_narrow(view: Structured, roles: Contraction) -> bool:
    """Whether 8-bit integers are summed in 32 bits: the rhs as it is, the lhs minus a zero point or as it is."""
    lhs, rhs, *_, total = (argument.type for argument in view.body.arguments)
    types = [str(t) for t in (lhs, rhs, total)]
    return len(view.inputs) == 2 and types == ["i8", "i8", "i32"] and is_extended_product(view, roles)


def _has_runs(view: Structured, roles: Contraction, options: Options) -> bool:
    """Whether the innermost reduction loop is one of the lhs's axes and at least half as long as the groups that it is
    filled up to. Pairs need not be filled up: they are also made in registers."""
    extents, steps = view.extents, options.steps
    reduced = sorted((*roles.k, *roles.window))
    innermost, extent = reduced[-1], extents[reduced[-1]]
    if steps == 2 and extent % 2 and any(extents[d] != 1 for d in reduced[:-1]):
        return False
    total = _product([extents[d] for d in reduced])
    return (
        total is not None
        and total <= options.longest
        and innermost in view.maps[roles.lhs]
        and 2 * extent >= -(-extent // steps) * steps
    )


def _axes(map_: Map, roles: Contraction) -> tuple[list[int], list[int], int]:
    """Axes of the operand: batches, reductions in loop order, the column."""
    batch = [map_.index(d) for d in roles.batch]
    reduced = [map_.index(d) for d in sorted((*roles.k, *roles.window))]
    return batch, reduced, map_.index(roles.n[0])


def _pack_constant(
    program: Program, view: Structured, roles: Contraction, options: Options, packed: dict[object, str], steps: int
) -> ir.Value | None:
    value, map_ = view.inputs[roles.rhs], view.maps[roles.rhs]
    array = constants.array_of(program, value)
    if array is None:
        return None
    batch, reduced, column = _axes(map_, roles)
    name = constants.global_name(value)
    order = (*batch, *reduced, column)
    # Splats of equal content are one constant too.
    key = (name, order) if name is not None else (array.dtype, array.shape, array.flat[:1].tobytes(), order)
    key = (*key, steps)
    sizes = [array.shape[axis] for axis in order]
    shape = _packed_shape(sizes[: len(batch)], sizes[len(batch) : -1], sizes[-1], options, steps)
    type_ = ir.RankedTensorType.get(shape, ir.RankedTensorType(value.type).element_type)
    if key not in packed:
        made = pack(array.transpose(order), len(batch), options.panel)
        if steps > 1:
            made = gather_steps(made, steps, options.ways)
        packed[key] = constants.declare(program, made, f"{name or 'splat'}_packed", type_)
    return constants.load(packed[key], type_)


def gather_steps(array: np.ndarray, steps: int, ways: int) -> np.ndarray:
    """``[.., K, P]`` as ``[.., K ceildiv steps, P, steps]``, zero padded: step ``s`` of a column is at
    ``[s floordiv steps, .., (s mod ways) * length + (s floordiv ways) mod length]``, ``length`` being ``steps / ways``.
    """
    *lead, length, panel = array.shape
    groups = -(-length // steps)
    whole = np.zeros((*lead, groups * steps, panel), array.dtype)
    whole[..., :length, :] = array
    apart = whole.reshape(*lead, groups, steps // ways, ways, panel)
    together = np.moveaxis(apart, (-1, -2, -3), (-3, -2, -1))
    return np.ascontiguousarray(together).reshape(*lead, groups, panel, steps)


def pack(array: np.ndarray, batch: int, panel: int) -> np.ndarray:
    """``[batch.., K.., N]`` as ``[batch.., N ceildiv panel, K.., panel]``, zero padded."""
    *lead, columns = array.shape
    panels = -(-columns // panel)
    result = np.zeros((*lead[:batch], panels, *lead[batch:], panel), array.dtype)
    for number in range(panels):
        part = array[..., number * panel : (number + 1) * panel]
        np.moveaxis(result, batch, 0)[number][..., : part.shape[-1]] = part
    return result


def _packed_shape(batch: list[int], reduced: list[int], columns: int, options: Options, steps: int) -> list[int]:
    panels = -(-columns // options.panel)
    if steps == 1:
        return [*batch, panels, *reduced, options.panel]
    groups = -(-reduced[-1] // steps)
    return [*batch, panels, *reduced[:-1], groups, options.panel, steps]


def _pays(view: Structured, roles: Contraction, options: Options) -> bool:
    """Whether packing a computed operand is worth a copy. Unknown extents count as large."""
    sizes = view.extents
    rows = _product([sizes[d] for d in roles.m])
    columns = sizes[roles.n[0]]
    if roles.is_convolution or (rows is not None and rows < options.rows):
        return False
    if columns != DYNAMIC and columns < options.panel:
        return False
    element = ir.RankedTensorType(view.inputs[roles.rhs].type).element_type
    if not isinstance(element, ir.F32Type | ir.F64Type):
        return False
    depth = _product([sizes[d] for d in (*roles.k, *roles.n)])
    if view.maps[roles.rhs][-1] != roles.n[0]:
        return True
    if depth is None:
        return columns == DYNAMIC or columns > options.narrow * options.panel
    return depth * 4 > options.bytes


def _product(sizes: list[int]) -> int | None:
    return None if DYNAMIC in sizes else int(np.prod(sizes, dtype=np.int64))


def _pack_computed(view: Structured, roles: Contraction, panel: int) -> ir.Value:
    """The operand as [batch.., panels, K.., panel], with zeros in columns beyond the last one. Whole panels are a copy.
    The last panel, where it may be a part only, is written by a generic of its own, which checks each column."""
    value, map_ = view.inputs[roles.rhs], view.maps[roles.rhs]
    batch, reduced, column = _axes(map_, roles)
    shape = extents(value)
    columns, at_panel = shape[column], len(batch)
    whole, panels = _floordiv(columns, panel), _ceildiv(columns, panel)
    result = [*(shape[a] for a in batch), panels, *(shape[a] for a in reduced), panel]
    loops = builders.dims(len(result))
    source: list[Expr | ir.AffineExpr] = [0] * len(shape)
    for loop, axis in enumerate([*batch, column, *reduced]):
        source[axis] = loops[loop]
    source[column] = loops[at_panel] * panel + loops[-1]
    element = ir.RankedTensorType(value.type).element_type

    def part(count: Extent) -> list[Extent]:
        return [*result[:at_panel], count, *result[at_panel + 1 :]]

    def copied() -> ir.Value:
        output = [(builders.empty(part(whole), element), loops)]
        return builders.generic([(value, source)], output, "p" * len(result), lambda x, _: x)[0]

    def last(_: ir.Value) -> ir.Value:
        indices = [linalg.IndexOp(i).result for i in range(len(result))]
        before = arith.MulIOp(builders.as_index(whole), builders.index(panel)).result
        position = arith.AddIOp(before, indices[-1]).result
        inside = arith.CmpIOp(arith.CmpIPredicate.slt, position, builders.as_index(columns)).result
        places = [indices[0]] * len(shape)
        for loop, axis in enumerate([*batch, column, *reduced]):
            places[axis] = indices[loop]
        places[column] = arith.SelectOp(inside, position, builders.index(0)).result
        zero = arith.ConstantOp(element, constants.scalar_attr(0, element)).result
        return arith.SelectOp(inside, tensor.ExtractOp(value, places).result, zero).result

    if whole == panels:
        return copied()
    rest = _difference(panels, whole)
    tail = builders.generic([], [(builders.empty(part(rest), element), loops)], "p" * len(result), last)[0]
    if whole == 0:
        return tail
    packed = builders.empty(result, element)
    for written, offset, count in ((copied(), 0, whole), (tail, whole, rest)):
        offsets = [0] * at_panel + [offset] + [0] * (len(result) - at_panel - 1)
        packed = builders.insert_slice(written, packed, offsets, part(count), [1] * len(result))
    return packed


def _difference(a: Extent, b: Extent) -> Extent:
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    return arith.SubIOp(builders.as_index(a), builders.as_index(b)).result


def _floordiv(extent: Extent, divisor: int) -> Extent:
    if isinstance(extent, int):
        return extent // divisor
    return arith.FloorDivSIOp(extent, builders.index(divisor)).result


def _divided(expr: ir.AffineExpr, divisor: int) -> tuple[ir.AffineExpr, ir.AffineExpr]:
    by = ir.AffineExpr.get_constant(divisor)
    return ir.AffineExpr.get_floor_div(expr, by), ir.AffineExpr.get_mod(expr, by)


def _ceildiv(extent: Extent, divisor: int) -> Extent:
    if isinstance(extent, int):
        return -(-extent // divisor)
    return arith.CeilDivSIOp(extent, builders.index(divisor)).result


def _use(view: Structured, roles: Contraction, packed: ir.Value, options: Options, steps: int) -> None:
    """Make the contraction read ``packed`` instead, in which ``steps`` steps lie together."""
    quotient, remainder = _divided(ir.AffineExpr.get_dim(roles.n[0]), options.panel)
    *reduced, innermost = sorted((*roles.k, *roles.window))
    maps: list[Map] = list(view.maps)
    maps[roles.rhs] = (*roles.batch, quotient, *reduced, innermost, remainder)
    if steps > 1:
        loop = ir.AffineExpr.get_dim(innermost)
        group, place = _divided(loop, steps)
        if options.ways > 1:
            length = steps // options.ways
            turn, way = _divided(loop, options.ways)
            place = way * length + _divided(turn, length)[1]
        maps[roles.rhs] = (*roles.batch, quotient, *reduced, group, remainder, place)
    operands = list(view.op.operands)
    operands[roles.rhs] = packed
    rebuilt = rebuild_generic(view.op, operands, [r.type for r in view.op.results], maps, view.parallel)
    replace(view.op, rebuilt.results)
