"""Widens narrow floats once, where a contraction would widen each of them many times.

Narrow floats are storage types: a contraction extends its factors and sums in f32. An lhs element is a factor for every
column, and to extend it takes several instructions each time. So whoever makes the tensor, or an operation of its own,
extends its elements, and memory holds them wide.

Constants that become panels stay narrow, since panels are widened in registers (``codegen/cpu/contraction``) and files
and memory traffic stay small. Others are few, and are widened during compilation. So are constants that a loop reads
again and again from a cache, where narrow ones would save nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from rillet.ir import Program, builders, constants, dtypes
from rillet.ir.contraction import Contraction, contraction
from rillet.ir.extents import extents, padding_value
from rillet.ir.rewrite import create_like, defining, erase_dead, float_constant, sweep_constants
from rillet.ir.structured import DYNAMIC, Structured, structured, walk

_RESHAPES = ("tensor.collapse_shape", "tensor.expand_shape", "tensor.reshape")


@dataclass(frozen=True)
class Options:
    """``uses``: how often an element must be a factor, at least. Constants of more than ``columns`` columns stay
    narrow, in loops those of more than ``cached`` bytes once widened."""

    uses: int = 8
    columns: int = 16
    cached: int = 0


def run(program: Program, options: Options) -> None:
    """Rewrite the contractions in ``@main`` and its control flow."""
    with program.context, ir.Location.unknown():
        made: dict[tuple[ir.Value, str], ir.Value] = {}
        folded: dict[tuple[str, str], str] = {}
        views = [view for op in walk(program.main()) if (view := structured(op)) is not None]
        found = [(view, roles) for view in views if (roles := contraction(view)) is not None]
        for view, roles in found:
            for number in (roles.lhs, roles.rhs):
                wide = _extended_to(view, number)
                if wide is None:
                    continue
                array = constants.array_of(program, view.inputs[number])
                if array is not None:
                    if number == roles.rhs and _stays_narrow(view, roles, array.size, wide, options):
                        continue
                    with ir.InsertionPoint(view.op), view.op.location:
                        _use(view, number, _folded(program, view.inputs[number], array, wide, folded))
                elif _uses(view, roles, number) >= options.uses:
                    _use(view, number, _widened(view.inputs[number], wide, made))
        erase_dead(program.main())
        sweep_constants(program)


def _extended_to(view: Structured, number: int) -> ir.Type | None:
    """The type to which the body extends the elements of an input of narrow floats, its only use; else None."""
    argument = view.body.arguments[number]
    owners = [use.owner.operation for use in argument.uses]
    if not owners or any(op.name != "arith.extf" for op in owners) or ir.FloatType(argument.type).width > 16:
        return None
    return owners[0].results[0].type


def _stays_narrow(view: Structured, roles: Contraction, size: int, wide: ir.Type, options: Options) -> bool:
    """Whether a constant rhs has columns enough to be packed, and no loop reads it from a cache."""
    if len(roles.n) != 1 or view.extents[roles.n[0]] <= options.columns:
        return False
    return not _is_repeated(view.op) or size * dtypes.storage_bytes(wide) > options.cached


def _is_repeated(op: ir.Operation) -> bool:
    """Whether an operation is in a loop."""
    around = op.parent
    while around is not None and around.operation.name != "func.func":
        if around.operation.name in ("scf.for", "scf.while"):
            return True
        around = around.operation.parent
    return False


def _uses(view: Structured, roles: Contraction, number: int) -> int:
    """How often each element of a factor is used, nearly. Unknown extents of an lhs's columns count as many; of an
    rhs's rows they may be one, and its vectors are extended at little cost."""
    others, unknown = ((*roles.n, *roles.window), 128) if number == roles.lhs else ((*roles.m, *roles.image), 1)
    return int(np.prod([unknown if (e := view.extents[loop]) == DYNAMIC else e for loop in others], dtype=np.int64))


def _use(view: Structured, number: int, value: ir.Value) -> None:
    """Read an input's factors from ``value``, which has them extended."""
    view.op.operands[number] = value
    argument = view.body.arguments[number]
    owners = [use.owner.operation for use in argument.uses]
    argument.set_type(owners[0].results[0].type)
    for op in owners:
        op.results[0].replace_all_uses_with(argument)
        op.erase()


def _folded(
    program: Program, value: ir.Value, array: np.ndarray, wide: ir.Type, folded: dict[tuple[str, str], str]
) -> ir.Value:
    """A constant with its elements extended, stored once for all its users."""
    dtype = next(t.numpy for t in dtypes.by_code.values() if t.mlir == str(wide))
    name = constants.global_name(value)
    if name is None:
        return constants.constant(program, array.astype(dtype))
    type_ = ir.RankedTensorType.get(array.shape, wide)
    if (name, str(wide)) not in folded:
        folded[name, str(wide)] = constants.declare(program, array.astype(dtype), name, type_)
    return constants.load(folded[name, str(wide)], type_)


def _widened(value: ir.Value, wide: ir.Type, made: dict[tuple[ir.Value, str], ir.Value]) -> ir.Value:
    """``value`` with its elements extended, before they are padded and in the shape in which they are made."""
    key = (value, str(wide))
    if key in made:
        return made[key]
    owner = defining(value)
    type_ = ir.RankedTensorType.get(ir.RankedTensorType(value.type).shape, wide)
    if owner is not None and owner.name in (*_RESHAPES, "tensor.pad"):
        source = _widened(owner.operands[0], wide, made)
        with ir.InsertionPoint(owner), owner.location:
            operands = [source, *list(owner.operands)[1:]]
            if owner.name == "tensor.pad":
                made[key] = _padded(owner, operands, type_)
            else:
                made[key] = create_like(owner, operands, [type_]).results[0]
        return made[key]
    where = ir.InsertionPoint.at_block_begin(value.owner) if owner is None else _after(owner)
    with where, ir.Location.unknown() if owner is None else owner.location:
        loops = builders.dims(type_.rank)
        output = [(builders.empty(extents(value), wide), loops)]
        made[key] = builders.generic(
            [(value, loops)], output, "p" * type_.rank, lambda x, _: arith.ExtFOp(wide, x).result
        )[0]
    return made[key]


def _after(op: ir.Operation) -> ir.InsertionPoint:
    block = list(op.block.operations)
    return ir.InsertionPoint(block[[o.operation for o in block].index(op) + 1])


def _padded(old: ir.Operation, operands: list[ir.Value], type_: ir.Type) -> ir.Value:
    """The pad ``old`` of other operands, with its padding extended."""
    wide, known = ir.RankedTensorType(type_).element_type, float_constant(padding_value(old))
    if known is None:
        value = arith.ExtFOp(wide, padding_value(old)).result
    else:
        value = arith.ConstantOp(wide, ir.FloatAttr.get(wide, known)).result
    new = create_like(old, operands, [type_], regions=1)
    index = [ir.IndexType.get()] * ir.RankedTensorType(type_).rank
    with ir.InsertionPoint(new.regions[0].blocks.append(*index, arg_locs=[old.location] * len(index))):
        tensor.YieldOp(value)
    return new.results[0]
