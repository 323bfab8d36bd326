"""Takes zero points that are known at run time only out of integer contractions with constants.

Dynamic quantization finds the zero point ``z`` of an activation in each call, and would subtract it into a tensor of
its own. But ``sum((x - z) * w)`` is ``sum(x * w) - z * sum(w)``, and the second sum is a constant for each channel.
Integers wrap, so this is exact for any sums.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.ir import Program, builders, constants
from rillet.ir.contraction import contraction
from rillet.ir.extents import extents, reassociation
from rillet.ir.rewrite import clone_operations, defining, erase_dead, generic_like, replace, sweep_constants
from rillet.ir.structured import Structured, is_permutation, is_projected, structured, walk
from rillet.optimize.folding.evaluate import along, signed, unsigned
from rillet.optimize.quantized.dequantization import dequantization, parameter, widened

_EXTENSIONS = ("arith.extsi", "arith.extui")


@dataclass(frozen=True)
class _Shifted:
    """Narrow integers minus one number, each with its signedness."""

    source: ir.Value
    is_signed: bool
    zero: ir.Value  # a tensor of rank 0
    zero_is_signed: bool


def run(program: Program, options: None) -> None:
    """Rewrite the contractions of ``@main`` and its control flow."""
    with program.context, ir.Location.unknown():
        for op in list(walk(program.main())):
            view = structured(op)
            roles = contraction(view) if view is not None else None
            if view is None or roles is None or len(view.inputs) != 2 or not _is_integer(view):
                continue
            with ir.InsertionPoint(op), op.location:
                lhs = _shifted(view.inputs[roles.lhs])
                numbers = _numbers(program, view, roles.rhs)
                if lhs is not None and numbers is not None:
                    replace(op, [_apart(program, view, roles.lhs, lhs, numbers)])
        erase_dead(program.main())
        sweep_constants(program)


def _is_integer(view: Structured) -> bool:
    i32 = ir.IntegerType.get_signless(32)
    return ir.RankedTensorType(view.op.results[0].type).element_type == i32


def _shifted(value: ir.Value) -> _Shifted | None:
    """``value`` as a difference, possibly with axes collapsed afterwards."""
    owner = defining(value)
    if owner is not None and owner.name == "tensor.collapse_shape":
        inner = _shifted(owner.operands[0])
        if inner is None:
            return None
        shape = ir.RankedTensorType(value.type).shape
        source = builders.collapse_shape(inner.source, reassociation(owner), shape)
        return _Shifted(source, inner.is_signed, inner.zero, inner.zero_is_signed)
    view = structured(owner) if owner is not None else None
    if view is None or not view.is_elementwise or len(view.inits) != 1 or len(view.inputs) != 2:
        return None
    ops = view.body_ops()
    difference = defining(view.yielded()[0])
    if difference is None or difference.name != "arith.subi" or len(ops) != 3:
        return None
    parts = [defining(v) for v in difference.operands]
    if any(p is None or p.name not in _EXTENSIONS for p in parts):
        return None
    arguments = list(view.body.arguments)
    wide, zero = (arguments.index(p.operands[0]) for p in parts if p is not None)
    identity = is_permutation(view.maps[wide], view.loops) and view.maps[wide] == view.init_maps[0]
    narrow = ir.IntegerType(ir.RankedTensorType(view.inputs[wide].type).element_type).width <= 8
    if not identity or not narrow or view.maps[zero] != () or zero == wide:
        return None
    first, second = (p.name == "arith.extsi" for p in parts if p is not None)
    return _Shifted(view.inputs[wide], first, view.inputs[zero], second)


def _numbers(program: Program, view: Structured, number: int) -> np.ndarray | None:
    """The constant factors of an operand, as int64."""
    value = view.inputs[number]
    if not is_projected(view.maps[number]):
        return None
    found = dequantization(program, value)
    if found is not None:
        array = constants.array_of(program, found.source)
        if array is None:
            return None
        width = ir.IntegerType(ir.RankedTensorType(found.source.type).element_type).width
        return (signed if found.is_signed else unsigned)(array, width) - found.zero
    array = constants.array_of(program, value)
    uses = [u.owner.operation.name for u in view.body.arguments[number].uses]
    if array is None or uses not in (["arith.extsi"], ["arith.extui"]):
        return None
    width = ir.IntegerType(ir.RankedTensorType(value.type).element_type).width
    return (signed if uses == ["arith.extsi"] else unsigned)(array, width)


def _apart(program: Program, view: Structured, number: int, lhs: _Shifted, numbers: np.ndarray) -> ir.Value:
    """The contraction of the unshifted integers, minus the zero point times the sums of the constant factors."""
    other = 1 - number
    reduced = tuple(axis for axis, loop in enumerate(view.maps[other]) if not view.parallel[loop])  # type: ignore[index]
    kept = [loop for axis, loop in enumerate(view.maps[other]) if axis not in reduced]
    sums = signed(along(numbers.sum(reduced), kept, view.init_maps[0]), 32).astype(np.int32)
    total = _unshifted(view, number, lhs)
    loops = builders.dims(len(view.init_maps[0]))

    def body(x: ir.Value, zero: ir.Value, sum_: ir.Value, _: ir.Value) -> ir.Value:
        product = arith.MulIOp(widened(zero, lhs.zero_is_signed), sum_).result
        return arith.SubIOp(x, product).result

    output = builders.empty(extents(total), ir.IntegerType.get_signless(32))
    inputs = [(total, loops), (lhs.zero, []), parameter(program, sums, "sums")]
    return builders.generic(inputs, [(output, loops)], "p" * len(loops), body)[0]


def _unshifted(view: Structured, number: int, lhs: _Shifted) -> ir.Value:
    inputs = list(view.inputs)
    inputs[number] = lhs.source

    def body(arguments: list[ir.Value]) -> ir.Value:
        mapping: dict[ir.Value, ir.Value] = dict(zip(view.body.arguments, arguments, strict=True))
        mapping[view.body.arguments[number]] = widened(arguments[number], lhs.is_signed)
        clone_operations(view.body_ops(), mapping)
        return mapping[view.yielded()[0]]

    return generic_like(view, inputs, view.inits[0], body)
