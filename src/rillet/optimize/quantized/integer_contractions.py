"""Computes contractions of dequantized operands in integers.

Each operand is ``(q - z) * s`` with 8-bit integers ``q``. Where zero points and scales do not vary along the summed
loops, the sum of products is ``S * sum((q - z) * (p - y))``, whose sum is one of integers, exact in 32 bits. With a
constant ``p`` it is ``sum(q * (p - y)) - z * sum(p - y)``. The second term is known for each channel of the result, so
the kernel multiplies the integers in memory. Where only constant weights are dequantized, their integers are converted
where they are used, and the scale comes after the sum: memory traffic is that of the integers.

A sum that might not fit 32 bits is left alone, and so are parameters that vary along the sum (``block_weights``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.ir import Program, builders, constants
from rillet.ir.contraction import Contraction, contraction
from rillet.ir.extents import extents
from rillet.ir.rewrite import defining, erase_dead, generic_like, replace, sweep_constants
from rillet.ir.structured import DYNAMIC, Structured, is_projected, structured, walk
from rillet.optimize.folding.evaluate import along, signed, unsigned
from rillet.optimize.quantized.dequantization import Dequantization, dequantization, parameter, widened


@dataclass(frozen=True)
class _Operand:
    """One factor: its integers, how the body makes the factor from them, and the part that is left to a correction."""

    value: ir.Value
    is_signed: bool
    shift: int  # subtracted in the body
    later: np.ndarray  # the zero point that the body leaves to a correction, over the axes of the operand
    scale: np.ndarray | None


def run(program: Program, options: None) -> None:
    """Rewrite the contractions of ``@main`` and its control flow."""
    with program.context, ir.Location.unknown():
        for op in list(walk(program.main())):
            view = structured(op)
            roles = contraction(view) if view is not None else None
            if view is None or not _starts_from_zero(view):
                continue
            with ir.InsertionPoint(op), op.location:
                if roles is not None and len(view.inputs) == 2:
                    _rewrite(program, view, roles)
                elif _is_sum(view):
                    _sum_in_integers(program, view)
        erase_dead(program.main())
        sweep_constants(program)


def _starts_from_zero(view: Structured) -> bool:
    if len(view.inits) != 1 or all(view.parallel):
        return False
    start = defining(view.inits[0])
    value = defining(start.operands[0]) if start is not None and start.name == "linalg.fill" else None
    return value is not None and value.name == "arith.constant" and value.attributes["value"].value == 0  # type: ignore[attr-defined]


def _rewrite(program: Program, view: Structured, roles: Contraction) -> None:
    element = ir.RankedTensorType(view.op.results[0].type).element_type
    found = [_operand(program, view, number) for number in (0, 1)]
    if isinstance(element, ir.F32Type):
        if any(argument.type != element for argument in view.body.arguments):
            return
        if all(f is not None and f.scale is not None for f in found):
            _in_integers(program, view, [f for f in found if f is not None])
            return
        weights = found[roles.rhs]
        if weights is not None and found[roles.lhs] is None and constants.array_of(program, weights.source) is not None:
            _weights_only(program, view, roles, weights)
        return
    if element != ir.IntegerType.get_signless(32):
        return
    plain = [f or _narrow(view, number) for number, f in enumerate(found)]
    if any(f is not None for f in found) and all(f is not None and f.scale is None for f in plain):
        _in_integers(program, view, [f for f in plain if f is not None])


def _operand(program: Program, view: Structured, number: int) -> Dequantization | None:
    """How an input is dequantized, if its parameters vary only along loops of the result."""
    value = dequantization(program, view.inputs[number])
    if value is None:
        return None
    for array in (value.zero, value.scale):
        for extent, expr in zip(() if array is None else array.shape, view.maps[number], strict=array is not None):
            if extent != 1 and not (isinstance(expr, int) and expr in view.init_maps[0]):
                return None
    return value


def _narrow(view: Structured, number: int) -> Dequantization | None:
    """An input of narrow integers that the body itself extends."""
    value = view.inputs[number]
    tensor = ir.RankedTensorType(value.type)
    uses = [u.owner.operation.name for u in view.body.arguments[number].uses]
    if uses not in (["arith.extsi"], ["arith.extui"]) or ir.IntegerType(tensor.element_type).width > 8:
        return None
    return Dequantization(value, uses == ["arith.extsi"], np.zeros((1,) * tensor.rank, np.int64), None)


# --- both in integers ---


def _in_integers(program: Program, view: Structured, pair: list[Dequantization]) -> None:
    scaled = all(value.scale is not None for value in pair)
    if scaled and not (_fits(program, view, pair) and _multiply(pair)):
        return  # (32-bit integers wrap in either form)
    fixed = next((n for n in (1, 0) if _is_foldable(program, view, pair, n)), None)
    operands = []
    for number, value in enumerate(pair):
        if number == fixed:
            operands.append(_folded(program, value))
        elif fixed is not None:
            operands.append(_Operand(value.source, value.is_signed, 0, value.zero, value.scale))
        elif value.zero.size == 1:
            zero = int(value.zero.reshape(()))
            operands.append(_Operand(value.source, value.is_signed, zero, np.zeros_like(value.zero), value.scale))
        else:
            return
    total = _sum(view, operands)
    correction = None if fixed is None else _correction(program, view, pair, fixed)
    scales = [_over_result(view, n, o.scale) for n, o in enumerate(operands) if o.scale is not None]
    if correction is None and not scales:
        replace(view.op, [total])
        return
    scale = None if not scales else (scales[0].astype(np.float64) * scales[1]).astype(np.float32)
    replace(view.op, [_finished(program, total, correction, scale)])


def _multiply(pair: list[Dequantization]) -> bool:
    """Whether every product of two scales is a normal number."""
    scales = [np.abs(value.scale.astype(np.float64)) for value in pair if value.scale is not None]
    limits = np.finfo(np.float32)
    least, most = (np.prod([f(s) for s in scales]) for f in (np.min, np.max))
    return bool(least >= limits.tiny and most <= limits.max)


def _fits(program: Program, view: Structured, pair: list[Dequantization]) -> bool:
    """Whether no sum of products can leave 32 bits."""
    sizes = view.extents
    count = 1
    for loop, parallel in enumerate(view.parallel):
        if not parallel:
            if sizes[loop] == DYNAMIC:
                return False
            count *= sizes[loop]
    return count * _largest(program, pair[0]) * _largest(program, pair[1]) < 1 << 31


def _largest(program: Program, value: Dequantization) -> int:
    """A bound on the magnitude of a factor."""
    numbers = _integers(program, value)
    if numbers is not None:
        return int(np.abs(numbers - value.zero).max(initial=0))
    return max(int(np.abs(limit - value.zero).max(initial=0)) for limit in value.limits())


def _integers(program: Program, value: Dequantization) -> np.ndarray | None:
    """The constant integers of ``value``, as int64."""
    array = constants.array_of(program, value.source)
    if array is None:
        return None
    width = ir.IntegerType(ir.RankedTensorType(value.source.type).element_type).width
    return signed(array, width) if value.is_signed else unsigned(array, width)


def _is_foldable(program: Program, view: Structured, pair: list[Dequantization], number: int) -> bool:
    """Whether the operand is constant, so that the other's zero point can be handled after the sum."""
    return is_projected(view.maps[number]) and constants.array_of(program, pair[number].source) is not None


def _folded(program: Program, value: Dequantization) -> _Operand:
    """Constant integers minus their zero point, where they stay narrow; a zero point that all share, the body can
    subtract."""
    numbers = _integers(program, value)
    assert numbers is not None
    none = np.zeros_like(value.zero)
    if not np.any(value.zero):
        return _Operand(value.source, value.is_signed, 0, none, value.scale)
    shifted = numbers - value.zero
    name = constants.global_name(value.source) or "weights"
    fits = shifted.min(initial=0) >= -128 and shifted.max(initial=0) <= 127
    if not fits and value.zero.size == 1:
        return _Operand(value.source, value.is_signed, int(value.zero.reshape(())), none, value.scale)
    array = shifted.astype(np.int8 if fits else np.int16)
    return _Operand(constants.constant(program, array, name), True, 0, none, value.scale)


def _correction(program: Program, view: Structured, pair: list[Dequantization], fixed: int) -> np.ndarray | None:
    """``-z * sum(p - y)`` over the axes of the result, modulo 2^32; None when it is zero everywhere."""
    numbers = _integers(program, pair[fixed])
    assert numbers is not None
    zero = pair[1 - fixed].zero
    if not np.any(zero):
        return None
    map_ = view.maps[fixed]
    reduced = tuple(axis for axis, loop in enumerate(map_) if not view.parallel[loop])  # type: ignore[index]
    sums = (numbers - pair[fixed].zero).sum(reduced)
    kept = [loop for axis, loop in enumerate(map_) if axis not in reduced]
    product = -_over_result(view, 1 - fixed, zero) * along(sums, kept, view.init_maps[0])
    return signed(product, 32).astype(np.int32)


def _over_result(view: Structured, number: int, array: np.ndarray) -> np.ndarray:
    """A parameter of an operand, arranged to broadcast over the result."""
    map_ = [e if n != 1 else None for e, n in zip(view.maps[number], array.shape, strict=True)]
    kept = [axis for axis, e in enumerate(map_) if e is not None]
    squeezed = array.reshape([array.shape[axis] for axis in kept])
    if not kept:
        return squeezed.reshape((1,) * len(view.init_maps[0]))
    return along(squeezed, [map_[axis] for axis in kept], view.init_maps[0])


def _sum(view: Structured, operands: list[_Operand]) -> ir.Value:
    """The contraction in 32-bit integers."""
    i32 = ir.IntegerType.get_signless(32)
    zero = arith.ConstantOp(i32, ir.IntegerAttr.get(i32, 0)).result
    start = builders.fill(zero, extents(view.op.results[0]))

    def body(arguments: list[ir.Value]) -> ir.Value:
        factors = []
        for argument, operand in zip(arguments, operands, strict=False):
            wide = widened(argument, operand.is_signed)
            if operand.shift:
                wide = arith.SubIOp(wide, arith.ConstantOp(i32, ir.IntegerAttr.get(i32, operand.shift)).result).result
            factors.append(wide)
        return arith.AddIOp(arguments[-1], arith.MulIOp(*factors).result).result

    return generic_like(view, [o.value for o in operands], start, body)


def _finished(program: Program, total: ir.Value, correction: np.ndarray | None, scale: np.ndarray | None) -> ir.Value:
    """``(total + correction) * scale``, in float32 if there is a scale."""
    loops = builders.dims(ir.RankedTensorType(total.type).rank)
    operands = [(total, loops)]
    if correction is not None:
        operands.append(parameter(program, correction, "zero_points"))
    if scale is not None:
        operands.append(parameter(program, scale, "scale"))
    f32 = ir.F32Type.get()

    def body(value: ir.Value, *rest: ir.Value) -> ir.Value:
        if correction is not None:
            value = arith.AddIOp(value, rest[0]).result
        return value if scale is None else arith.MulFOp(arith.SIToFPOp(f32, value).result, rest[-2]).result

    element = ir.RankedTensorType(total.type).element_type if scale is None else f32
    output = builders.empty(extents(total), element)
    return builders.generic(operands, [(output, loops)], "p" * len(loops), body)[0]


# --- sums ---


def _is_sum(view: Structured) -> bool:
    """Whether it is a sum of input 0 over all reduced loops, whose other inputs only determine extents."""
    ops, arguments = view.body_ops(), list(view.body.arguments)
    if len(ops) != 1 or ops[0].name != "arith.addf" or set(ops[0].operands) != {arguments[0], arguments[-1]}:
        return False
    shapes = [defining(v) for v in view.inputs[1:]]
    return all(s is not None and s.name == "tensor.empty" for s in shapes)


def _sum_in_integers(program: Program, view: Structured) -> None:
    """Rewrites the sum of dequantized numbers as the sum of the integers, minus one zero point for each, scaled."""
    value = _operand(program, view, 0)
    sizes = view.extents
    reduced = [sizes[loop] for loop, parallel in enumerate(view.parallel) if not parallel]
    if value is None or value.scale is None or not value.is_uniform or DYNAMIC in reduced:
        return
    count = int(np.prod(reduced, dtype=np.int64))
    largest = max(abs(limit) for limit in value.limits())
    if count * (largest + int(np.abs(value.zero).max(initial=0))) >= 1 << 31:
        return
    i32 = ir.IntegerType.get_signless(32)
    start = builders.fill(arith.ConstantOp(i32, ir.IntegerAttr.get(i32, 0)).result, extents(view.op.results[0]))
    narrow = ir.RankedTensorType(value.source.type).element_type
    shapes = [builders.empty(extents(v), narrow) for v in view.inputs[1:]]
    total = generic_like(
        view,
        [value.source, *shapes],
        start,
        lambda arguments: arith.AddIOp(arguments[-1], widened(arguments[0], value.is_signed)).result,
    )
    rank = len(view.init_maps[0])
    correction = (-count * value.zero).astype(np.int32).reshape((1,) * rank) if np.any(value.zero) else None
    replace(view.op, [_finished(program, total, correction, value.scale.reshape((1,) * rank))])


# --- weights only ---


def _weights_only(program: Program, view: Structured, roles: Contraction, weights: Dequantization) -> None:
    """Convert the weights where they are used; their scale comes after the sum."""
    if weights.scale is None:
        return
    operand = _folded(program, weights)
    f32 = ir.F32Type.get()
    start = builders.fill(_zero(f32), extents(view.op.results[0]))

    def body(arguments: list[ir.Value]) -> ir.Value:
        if operand.shift:
            i32 = ir.IntegerType.get_signless(32)
            shift = arith.ConstantOp(i32, ir.IntegerAttr.get(i32, operand.shift)).result
            wide = arith.SIToFPOp(f32, arith.SubIOp(widened(arguments[roles.rhs], operand.is_signed), shift).result)
        else:
            convert = arith.SIToFPOp if operand.is_signed else arith.UIToFPOp
            wide = convert(f32, arguments[roles.rhs])
        product = arith.MulFOp(arguments[roles.lhs], wide.result).result
        return arith.AddFOp(arguments[-1], product).result

    inputs = list(view.inputs)
    inputs[roles.rhs] = operand.value
    total = generic_like(view, inputs, start, body)
    scale = _over_result(view, roles.rhs, weights.scale)
    loops = builders.dims(ir.RankedTensorType(total.type).rank)
    output = builders.empty(extents(total), f32)
    scaled = builders.generic(
        [(total, loops), parameter(program, scale, "scale")],
        [(output, loops)],
        "p" * len(loops),
        lambda x, s, _: arith.MulFOp(x, s).result,
    )[0]
    replace(view.op, [scaled])


def _zero(element: ir.Type) -> ir.Value:
    return arith.ConstantOp(element, ir.FloatAttr.get(element, 0.0)).result
