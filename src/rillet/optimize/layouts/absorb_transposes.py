"""Lets contractions read transposed operands in place: a transposition of an operand becomes part of its indexing map.

The lhs must keep a reduced axis innermost, because its elements are read in that order. The rhs is packed or small, so
any order will do. Convolutions are left alone: their layout has been chosen. Where a result's layout turned rows into
columns, the operands are swapped first.
"""

from __future__ import annotations

import dataclasses

from torch_mlir import ir

from rillet.ir import Program
from rillet.ir.constants import global_name
from rillet.ir.contraction import Contraction, contraction
from rillet.ir.rewrite import defining, erase_dead, rebuild_generic, replace
from rillet.ir.structured import Map, Structured, copy_permutation, structured, walk


def run(program: Program, options: None) -> None:
    """Rewrite the contractions of ``@main``."""
    with program.context, ir.Location.unknown():
        for op in list(walk(program.main())):
            view = structured(op)
            roles = contraction(view) if view is not None else None
            if view is None or roles is None or roles.is_convolution:
                continue
            operands, maps = list(op.operands), list(view.maps)
            changed = _is_turned(view, roles)
            if changed:
                # A contraction's columns are those of the rhs; after the swap they are those of the result.
                operands[0], operands[1], maps[0], maps[1] = operands[1], operands[0], maps[1], maps[0]
                roles = dataclasses.replace(roles, m=roles.n, n=roles.m)
            for number in (roles.lhs, roles.rhs):
                source, map_ = _through_transposes(operands[number], maps[number])
                if source != operands[number] and (number == roles.rhs or _keeps_order(map_, roles)):
                    operands[number], maps[number] = source, map_
                    changed = True
            if changed:
                replace(op, rebuild_generic(op, operands, [r.type for r in op.results], maps, view.parallel).results)
        erase_dead(program.main())


def _is_turned(view: Structured, roles: Contraction) -> bool:
    """Whether the result is contiguous along a loop of the lhs, and either operand may be the lhs because both are
    computed."""
    plain = len(view.body_ops()) == 2 and view.inputs[0].type.element_type == view.inputs[1].type.element_type
    computed = all(global_name(v) is None for v in view.inputs)
    axes = view.init_maps[0]
    return bool(axes) and plain and computed and axes[-1] in roles.m and {roles.lhs, roles.rhs} == {0, 1}


def _through_transposes(value: ir.Value, map_: Map) -> tuple[ir.Value, Map]:
    """The source of ``value`` before all its transpositions, and the map that reads it."""
    owner = defining(value)
    permutation = copy_permutation(owner) if owner is not None else None
    if owner is None or permutation is None:
        return value, map_
    return _through_transposes(owner.operands[0], _composed(map_, permutation))


def _composed(map_: Map, permutation: tuple[int, ...]) -> Map:
    """The map of the source of a transposition, whose result axis ``i`` is source axis ``permutation[i]``."""
    source: list[object] = [None] * len(map_)
    for axis, origin in enumerate(permutation):
        source[origin] = map_[axis]
    return tuple(source)  # type: ignore[arg-type]


def _keeps_order(map_: Map, roles: Contraction) -> bool:
    return bool(map_) and map_[-1] in roles.k
