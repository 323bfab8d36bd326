"""Packs the constants from which contractions compute their rhs (weights with parameters for each block of the sum)
into column panels, as ``pack_rhs`` does with rhs that are read as they are.

Integers of 4 bits or less share bytes, the first in the lowest bits, and the body extracts its own from the byte. That
takes a quarter or half of the memory traffic, which limits a product with few rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.dialects import linalg
from rillet.dispatch.packing.pack_rhs import pack
from rillet.ir import Program, constants
from rillet.ir.contraction import Contraction, weighted_contraction
from rillet.ir.rewrite import clone_operations, generic_like, replace, sweep_constants
from rillet.ir.structured import Expr, Map, Structured, is_projected, structured, walk

_BYTE = 8  # bits


@dataclass(frozen=True)
class Options:
    """``panel``: columns of a panel (of the target's ``Packing``); ``share``: whether narrow integers share bytes."""

    panel: int = 16
    share: bool = True


def run(program: Program, options: Options) -> None:
    """Pack the operands of computed rhs in ``@main``, where all of them are constant."""
    with program.context, ir.Location.unknown():
        for op in list(walk(program.main())):
            view = structured(op)
            found = weighted_contraction(view) if view is not None else None
            if view is None or found is None or not found[1]:
                continue
            roles, others = found
            numbers = (roles.rhs, *others)
            if not _is_packable(program, view, roles, numbers):
                continue
            with ir.InsertionPoint(op), op.location:
                replace(op, [_packed(program, view, roles, numbers, options)])
        sweep_constants(program)


def _is_packable(program: Program, view: Structured, roles: Contraction, numbers: tuple[int, ...]) -> bool:
    """Whether one column loop, the last axis of the result, indexes all operands, which are constants with plain
    loops."""
    if len(roles.n) != 1 or view.init_maps[0][-1] != roles.n[0]:
        return False
    return all(
        is_projected(view.maps[n]) and roles.n[0] in view.maps[n] and _array(program, view, n) is not None
        for n in numbers
    )


def _array(program: Program, view: Structured, number: int) -> np.ndarray | None:
    return constants.array_of(program, view.inputs[number])


def _packed(
    program: Program, view: Structured, roles: Contraction, numbers: tuple[int, ...], options: Options
) -> ir.Value:
    """The contraction on packed operands."""
    column, panel = roles.n[0], options.panel
    operands, maps = list(view.op.operands), list(view.maps)
    together: dict[int, int] = {}  # by operand, the bits of an element that shares its byte
    for number in numbers:
        array = _array(program, view, number)
        assert array is not None
        map_ = view.maps[number]
        batch = [loop for loop in roles.batch if loop in map_]
        reduced = sorted(e for e in map_ if e != column and e not in batch)  # type: ignore[type-var]
        made = pack(array.transpose([map_.index(e) for e in (*batch, *reduced, column)]), len(batch), panel)
        bits = _bits(view.inputs[number])
        if options.share and number == roles.rhs and bits < _BYTE and panel % (_BYTE // bits) == 0:
            together[number] = bits
            made = share_bytes(made, bits)
        name = constants.global_name(view.inputs[number]) or "splat"
        element = ir.IntegerType.get_signless(_BYTE) if number in together else _element(view.inputs[number])
        type_ = ir.RankedTensorType.get(made.shape, element)
        operands[number] = constants.load(constants.declare(program, made, f"{name}_packed", type_), type_)
        maps[number] = (*batch, *_map(column, reduced, panel, _BYTE // together.get(number, _BYTE)))
    return _rebuilt(view, operands, maps, together, column)


def _element(value: ir.Value) -> ir.Type:
    return ir.RankedTensorType(value.type).element_type


def _bits(value: ir.Value) -> int:
    element = _element(value)
    return element.width if isinstance(element, ir.IntegerType) else _BYTE


def share_bytes(array: np.ndarray, bits: int) -> np.ndarray:
    """Integers of ``bits`` bits, with neighbours along the last axis in one byte, the first in its lowest bits."""
    count = _BYTE // bits
    raw = array.view(np.uint8)
    made = raw[..., ::count] & ((1 << bits) - 1)
    for place in range(1, count):
        made |= (raw[..., place::count] & ((1 << bits) - 1)) << (place * bits)
    return made.view(np.int8)


def _map(column: int, reduced: list[Expr], panel: int, together: int) -> Map:
    loop = ir.AffineExpr.get_dim(column)
    quotient = ir.AffineExpr.get_floor_div(loop, ir.AffineExpr.get_constant(panel))
    remainder = ir.AffineExpr.get_mod(loop, ir.AffineExpr.get_constant(panel))
    if together > 1:
        remainder = ir.AffineExpr.get_floor_div(remainder, ir.AffineExpr.get_constant(together))
    return (quotient, *reduced, remainder)


def _rebuilt(
    view: Structured, operands: list[ir.Value], maps: list[Map], together: dict[int, int], column: int
) -> ir.Value:
    def body(arguments: list[ir.Value]) -> ir.Value:
        scalars = dict(zip(view.body.arguments, arguments, strict=True))
        for number, bits in together.items():
            scalars[view.body.arguments[number]] = _taken_out(arguments[number], bits, column)
        clone_operations(view.body_ops(), scalars)
        return scalars[view.yielded()[0]]

    *inputs, init = operands
    return generic_like(view, inputs, init, body, maps)


def _taken_out(byte: ir.Value, bits: int, column: int) -> ir.Value:
    """The integer of ``bits`` bits that belongs to the column, extracted from the byte that its neighbours share."""
    index, i8 = ir.IndexType.get(), ir.IntegerType.get_signless(_BYTE)
    position = linalg.IndexOp(ir.IntegerAttr.get(ir.IntegerType.get_signless(64), column)).result
    count = arith.ConstantOp(index, ir.IntegerAttr.get(index, _BYTE // bits)).result
    width = arith.ConstantOp(index, ir.IntegerAttr.get(index, bits)).result
    shift = arith.MulIOp(arith.RemUIOp(position, count).result, width).result
    moved = arith.ShRUIOp(byte, arith.IndexCastOp(i8, shift).result).result
    return arith.TruncIOp(ir.IntegerType.get_signless(bits), moved).result
