"""Requantizes in integers where an instruction converts floats to the nearest integer.

``clamp(roundeven(x) + z)``, converted to an integer, has an integer ``z`` and integer limits. It equals the nearest
integer to ``x``, plus ``z``, clamped. Microcontrollers convert this way with one instruction, saturating and with ties
to even, and clamp integers with one or two. They have no instruction that rounds a float to a float, and comparing
floats takes three.

NaN would give another integer, so ``x`` must be computed from an integer. Only scales or offsets that are NaN or
infinite differ then.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, vector

from rillet.codegen.cpu import intrinsics
from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.emit.values import constant, element_type
from rillet.ir.rewrite import defining, float_constant

_LANES = 4  # of an MVE register
_LARGEST = 2**24  # integers up to here are floats
_SCALING = ("arith.mulf", "arith.addf", "arith.subf", "arith.negf")
_FROM_INTEGERS = ("arith.sitofp", "arith.uitofp")
_ORDERS = (["arith.minimumf", "arith.maximumf"], ["arith.maximumf", "arith.minimumf"])
_LIMITS = {"arith.minimumf": arith.MinSIOp, "arith.maximumf": arith.MaxSIOp}


@dataclass(frozen=True)
class Requantization:
    """``conversion`` converts ``roundeven(rounded) + shift``, clamped by ``limits`` (operation, number)."""

    conversion: ir.Operation
    rounded: ir.Value
    shift: int
    limits: tuple[tuple[str, int], ...]


def run(module: ir.Module, target: CpuTarget) -> None:
    """Rewrite every such conversion to 32-bit integers in ``module``."""
    if not target.machine.converts_to_nearest:
        return
    found: list[Requantization] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        match = match_requantization(op) if op.name == "arith.fptosi" else None
        if match is not None and _is_taken(match):
            found.append(match)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for match in found:
        with ir.InsertionPoint(match.conversion), match.conversion.location:
            match.conversion.results[0].replace_all_uses_with(_in_integers(match, target))
        match.conversion.erase()


def _is_taken(match: Requantization) -> bool:
    """Whether integers too large to be exact floats end at a limit, and vectors fill registers."""
    type_ = match.rounded.type
    whole = not isinstance(type_, ir.VectorType) or (len(type_.shape) == 1 and type_.shape[0] % _LANES == 0)
    return whole and set(_LIMITS) == {name for name, _ in match.limits} and _is_made_of_integer(match.rounded)


def match_requantization(conversion: ir.Operation) -> Requantization | None:
    """The requantization that an ``arith.fptosi`` to 32 bits converts: its operand rounded, shifted by an integer or
    not, and clamped by integers. None for any other operand."""
    result, value = conversion.results[0].type, conversion.operands[0]
    if element_type(result) != ir.IntegerType.get_signless(32) or not isinstance(element_type(value.type), ir.F32Type):
        return None
    limits: list[tuple[str, int]] = []
    shift = 0
    while (op := defining(value)) is not None and op.name != "math.roundeven":
        parts = _with_integer(op)
        if parts is None or (op.name not in _LIMITS and op.name != "arith.addf"):
            return None
        value, number = parts
        if op.name in _LIMITS:
            limits.append((op.name, number))
            continue
        shift = number
        break
    op = defining(value)
    if op is None or op.name != "math.roundeven" or not limits:
        return None
    return Requantization(conversion, op.operands[0], shift, tuple(reversed(limits)))


def _in_integers(match: Requantization, target: CpuTarget) -> ir.Value:
    type_ = match.conversion.results[0].type
    if target.machine.arch == "riscv32" and [name for name, _ in match.limits] in _ORDERS:
        return _clamped_before(match, target)
    total = _nearest(match.rounded, type_, target)
    if match.shift:
        total = intrinsics.call(f"llvm.sadd.sat.{_suffix(type_)}", type_, total, constant(match.shift, type_))
    for name, limit in match.limits:
        total = _LIMITS[name](total, constant(limit, type_)).result
    return total


def _clamped_before(match: Requantization, target: CpuTarget) -> ir.Value:
    """The operand clamped as a float, with one instruction for each limit: clamping integers takes comparisons and
    branches."""
    x, limits = match.rounded, dict(match.limits)
    low, high = (constant(float(limits[name] - match.shift), x.type) for name in ("arith.maximumf", "arith.minimumf"))
    above = intrinsics.call("llvm.maxnum.f32", x.type, x, low)  # NaN gives the limit
    clamped = intrinsics.call("llvm.minnum.f32", x.type, above, high)
    type_ = match.conversion.results[0].type
    made = _nearest(clamped, type_, target)
    return arith.AddIOp(made, constant(match.shift, type_)).result if match.shift else made


def _nearest(x: ir.Value, type_: ir.Type, target: CpuTarget) -> ir.Value:
    """The nearest integer, saturating, with ties to even."""
    if isinstance(type_, ir.VectorType):
        return _nearest_vector(x, ir.VectorType(type_))
    if target.machine.arch == "arm":
        return arith.BitcastOp(type_, intrinsics.call("llvm.arm.vcvtr.f32", ir.F32Type.get(), x)).result
    return intrinsics.call("llvm.lrint.i32.f32", type_, x)


def _nearest_vector(x: ir.Value, type_: ir.VectorType) -> ir.Value:
    """The nearest integers, one register at a time."""
    signed = constant(0, ir.IntegerType.get_signless(32))
    register = ir.VectorType.get([_LANES], type_.element_type)
    if type_ == register:
        return intrinsics.call("llvm.arm.mve.vcvtn.v4i32.v4f32", register, signed, x)
    total: ir.Value | None = None
    for start in range(0, type_.shape[0], _LANES):
        part = vector.ShuffleOp(x, x, list(range(start, start + _LANES))).result
        made = intrinsics.call("llvm.arm.mve.vcvtn.v4i32.v4f32", register, signed, part)
        total = made if total is None else vector.ShuffleOp(total, made, list(range(start + _LANES))).result
    assert total is not None
    return total


def _is_made_of_integer(value: ir.Value) -> bool:
    op = defining(value)
    if op is None or op.name in _FROM_INTEGERS:
        return op is not None
    return op.name in _SCALING and any(map(_is_made_of_integer, op.operands))


def _with_integer(op: ir.Operation) -> tuple[ir.Value, int] | None:
    """The other operand and the integer, for an op on a value and a constant that is a small integer; else None."""
    if len(op.operands) != 2:
        return None
    for value, other in (tuple(op.operands), tuple(reversed(list(op.operands)))):
        number = float_constant(other)
        if number is not None and abs(number) <= _LARGEST and number == int(number):
            return value, int(number)
    return None


def _suffix(type_: ir.Type) -> str:
    return f"v{ir.VectorType(type_).shape[0]}i32" if isinstance(type_, ir.VectorType) else "i32"
