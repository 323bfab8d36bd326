"""Replaces ops that a target has no instruction for by formulas on ``arith``, ``scf`` and the few ``math`` ops it
has."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from torch_mlir import ir

from rillet.codegen.math import (
    conversions,
    division,
    error_function,
    exponential,
    gelu,
    integer,
    logarithm,
    logistic,
    rounding,
    trigonometric,
)
from rillet.codegen.math.arithmetic import Arithmetic
from rillet.codegen.math.expression import E
from rillet.codegen.recognize.softmax import NONPOSITIVE, SCALED
from rillet.ir.rewrite import float_constant

Formula = Callable[..., E]

# f32 and f64 alike, in the precision they are called with.
_DIRECT: dict[str, Formula] = {
    "math.exp": exponential.exp,
    "math.exp2": exponential.exp2,
    "math.expm1": exponential.expm1,
    "math.tanh": exponential.tanh,
    "math.log": logarithm.log,
    "math.erf": error_function.erf,
    "math.round": rounding.round_half_away,
    "arith.remf": rounding.remainder,
}

# Rarer or delicate functions: f32 goes through f64 where the target computes f64, which gives results good to 1 ULP.
_WIDE: dict[str, Formula] = {
    "math.log2": logarithm.log2,
    "math.log10": logarithm.log10,
    "math.log1p": logarithm.log1p,
    "math.sinh": exponential.sinh,
    "math.cosh": exponential.cosh,
    "math.asinh": logarithm.asinh,
    "math.acosh": logarithm.acosh,
    "math.atanh": logarithm.atanh,
    "math.cbrt": logarithm.cbrt,
    "math.sin": trigonometric.sin,
    "math.cos": trigonometric.cos,
    "math.tan": trigonometric.tan,
    "math.asin": trigonometric.asin,
    "math.acos": trigonometric.acos,
    "math.atan": trigonometric.atan,
    "math.atan2": trigonometric.atan2,
    "math.erfc": error_function.erfc,
    "math.powf": logarithm.power,
}

_ROUNDING: dict[str, Formula] = {
    "math.floor": rounding.floor,
    "math.ceil": rounding.ceil,
    "math.trunc": rounding.trunc,
    "math.roundeven": rounding.roundeven,
}

# Index arithmetic is the compiler's own and divides by positive extents only.
_TRAPPING: dict[str, Formula] = {
    "arith.divsi": integer.divide_signed,
    "arith.remsi": integer.remainder_signed,
    "arith.divui": integer.divide_unsigned,
    "arith.remui": integer.remainder_unsigned,
}

_DIVISION: dict[str, Formula] = {
    "arith.floordivsi": integer.floor_divide,
    "arith.ceildivsi": integer.ceil_divide,
    "arith.ceildivui": integer.ceil_divide_unsigned,
}

# An op that alone reads one of these may share a formula with it.
_FUSED: dict[str, Callable[[ir.Operation, Arithmetic], None]] = {"math.erf": gelu.fuse, "math.exp": logistic.fuse}


def expand(module: ir.Module, arithmetic: Arithmetic) -> None:
    """Expand every such op of the module in place. Ops on f16/bf16 must have been widened to f32 before."""
    for op in [op for op in _walk(module.operation) if op.name in _FUSED]:
        _FUSED[op.name](op, arithmetic)
    for op in list(_walk(module.operation)):
        with ir.InsertionPoint(op), op.location:
            results = _replacement(op, arithmetic)
        if results is None:
            continue
        for old, new in zip(op.results, results, strict=True):
            old.replace_all_uses_with(new)
        op.erase()


def _replacement(op: ir.Operation, arithmetic: Arithmetic) -> list[ir.Value] | None:
    operands = [E(o, arithmetic) for o in op.operands]
    if op.name == "math.exp" and NONPOSITIVE in op.attributes:
        return [exponential.exp_nonpositive(operands[0], scaled=SCALED in op.attributes).value]
    if op.name in _DIRECT:
        return [_DIRECT[op.name](*operands).value]
    if op.name in _WIDE:
        return [_powf_by_constant(op, operands) or _in_f64(_WIDE[op.name], operands, arithmetic)]
    if op.name in _ROUNDING:
        return None if arithmetic.rounding else [_ROUNDING[op.name](*operands).value]
    if op.name in _TRAPPING:
        is_index = isinstance(operands[0].element, ir.IndexType)
        return None if is_index or integer.is_safe(op) else [_TRAPPING[op.name](*operands).value]
    if op.name in _DIVISION:
        return [_DIVISION[op.name](*operands).value]
    if op.name == "arith.divf":
        quotient = division.divide(op, *operands)
        return None if quotient is None else [quotient.value]
    if op.name == "math.rsqrt":
        return [(1.0 / operands[0].sqrt()).value]
    if op.name == "math.sincos":
        return [_in_f64(trigonometric.sin, operands, arithmetic), _in_f64(trigonometric.cos, operands, arithmetic)]
    if op.name == "math.fpowi":
        exponent = E(op.operands[1], arithmetic).to_float(operands[0].element)
        return [_in_f64(logarithm.power, [operands[0], exponent], arithmetic)]
    if op.name == "math.ipowi":
        return [rounding.integer_power(*operands).value]
    if op.name == "math.fma" and not arithmetic.fma:
        return [_fma_without_instruction(operands, arithmetic)]
    if op.name in ("arith.maximumf", "arith.minimumf") and operands[0].width == 64 and not arithmetic.f64:
        return [_extremum(op.name == "arith.maximumf", *operands).value]
    if op.name == "arith.extf":
        return _extend(op, operands[0], arithmetic)
    if op.name == "arith.truncf":
        return _truncate(op, operands[0], arithmetic)
    return None


def _in_f64(formula: Formula, operands: list[E], arithmetic: Arithmetic) -> ir.Value:
    f32 = operands[0].element
    if f32.width == 64 or not arithmetic.f64:
        return formula(*operands).value
    return formula(*(o.extend(ir.F64Type.get()) for o in operands)).truncate(f32).value


def _powf_by_constant(op: ir.Operation, operands: list[E]) -> ir.Value | None:
    """x^2 and x^3 by multiplication (one rounding each, at most 1 ULP), x^1 as x."""
    if op.name != "math.powf":
        return None
    exponent = float_constant(op.operands[1])
    x = operands[0]
    powers = {1.0: lambda: x, 2.0: lambda: x * x, 3.0: lambda: x * x * x}
    return powers[exponent]().value if exponent in powers else None


def _fma_without_instruction(operands: list[E], arithmetic: Arithmetic) -> ir.Value:
    """f32: exact product in f64, so that only a rare double rounding remains. f64: two roundings."""
    a, b, c = operands
    if a.width == 64 or not arithmetic.f64:
        return (a * b + c).value
    f64 = ir.F64Type.get()
    return (a.extend(f64) * b.extend(f64) + c.extend(f64)).truncate(a.element).value


def _extremum(is_maximum: bool, a: E, b: E) -> E:
    """NaN when either is; +0 counts as larger than -0. LLVM has no way to do it in a library's f64."""
    larger = (a > b if is_maximum else a < b).where(a, b)
    bits = a.bits() & b.bits() if is_maximum else a.bits() | b.bits()  # those of both unless they are zeros
    either = a.equals(b).where(bits.as_float(a.element), larger)
    return a.is_nan().where(a, b.is_nan().where(b, either))


def _extend(op: ir.Operation, x: E, arithmetic: Arithmetic) -> list[ir.Value] | None:
    wide = _element(op.results[0].type)
    y = _to_f32(x, arithmetic)
    if y is None:
        return None
    if wide == ir.F32Type.get():
        return [y.value]
    # From one small float to a larger one that is still smaller than f32: exact either way.
    return [_narrow(y, wide, arithmetic).value if wide.width < 32 else y.extend(wide).value]


def _to_f32(x: E, arithmetic: Arithmetic) -> E | None:
    """A small float as f32, or None when the target has an instruction for it."""
    source, f32 = str(x.element), ir.F32Type.get()
    if source == "bf16":
        return (x.bits().resize(32) << 16).as_float(f32)
    if source in conversions.FORMATS and not (source == "f16" and arithmetic.f16_conversions):
        return conversions.extend(x, f32)
    return None


def _truncate(op: ir.Operation, x: E, arithmetic: Arithmetic) -> list[ir.Value] | None:
    small, f32 = _element(op.results[0].type), ir.F32Type.get()
    if str(small) != "bf16" and str(small) not in conversions.FORMATS:
        return None
    if str(small) == "f16" and arithmetic.f16_conversions and x.width == 32:
        return None
    if x.width == 64:
        x = conversions.round_to_odd(x, f32)
    elif x.width < 32:
        x = _to_f32(x, arithmetic) or x.extend(f32)
    return [_narrow(x, small, arithmetic).value]


def _narrow(x: E, small: ir.Type, arithmetic: Arithmetic) -> E:
    """f32 to a small float."""
    if str(small) == "bf16":
        return _to_bf16(x, small)
    if str(small) == "f16" and arithmetic.f16_conversions:
        return x.truncate(small)
    return conversions.truncate(x, small)


def _element(type_: ir.Type) -> ir.Type:
    return type_.element_type if isinstance(type_, ir.VectorType) else type_


def _to_bf16(x: E, bf16: ir.Type) -> E:
    """Round the upper half of the bits to nearest even; NaN stays quiet."""
    bits = x.bits()
    rounded = (bits + 0x7FFF + (bits.logical_shift(16) & 1)).logical_shift(16)
    quiet = bits.logical_shift(16) | 0x40
    return x.is_nan().where(quiet, rounded).resize(16).as_float(bf16)


def _walk(op: ir.Operation) -> Iterator[ir.Operation]:
    for region in op.regions:
        for block in region.blocks:
            for nested in block.operations:
                yield from _walk(nested.operation)
                yield nested.operation
