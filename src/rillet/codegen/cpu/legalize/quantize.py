"""Makes the end of a quantization take few instructions where conversions to integers round to the nearest.

``clamp(roundeven(x) + z)``, converted, becomes ``convert(clamp(x)) + z``, with ``z`` subtracted from the limits. Limits
and zero point are small integers, and rounding moves no number across them, so all numbers give the same result. NaN
gives the lower limit. The clamp comes first because these conversions do not saturate.

A result that is cut to 8 or 16 bits is clamped once more as an integer: saturating narrow instructions then replace
shuffles, at no cost.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.codegen.cpu import intrinsics
from rillet.codegen.cpu.legalize.nearest_integers import Requantization, match_requantization
from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.emit.values import constant, element_type

_MOST = 1 << 22  # the largest magnitude of limits and zero points
_LIMITS = ("arith.maximumf", "arith.minimumf")


def run(module: ir.Module, target: CpuTarget) -> None:
    """Rewrite every conversion in ``module`` that ends a quantization, for targets that round as they convert."""
    if not target.machine.rounds_in_conversions:
        return
    found: list[Requantization] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "arith.fptosi" and (match := match_requantization(op)) is not None and _is_clamped(match):
            found.append(match)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for match in found:
        old = match.conversion.results[0]
        with ir.InsertionPoint(match.conversion), match.conversion.location:
            old.replace_all_uses_with(_saturated(_convert(match, old.type), match))
        match.conversion.erase()


def _is_clamped(match: Requantization) -> bool:
    """Whether there is one limit on each side, and all numbers are small."""
    limits = dict(match.limits)
    if len(match.limits) != 2 or set(limits) != set(_LIMITS):
        return False
    low, high = (limits[name] for name in _LIMITS)
    return low <= high and max(abs(low), abs(high), abs(match.shift)) <= _MOST


def _convert(match: Requantization, type_: ir.Type) -> ir.Value:
    x, limits = match.rounded, dict(match.limits)
    low, high = (constant(float(limits[name] - match.shift), x.type) for name in _LIMITS)
    below = arith.MinimumFOp(x, high).result
    inside = arith.CmpFOp(arith.CmpFPredicate.OGT, below, low).result  # false for NaN
    clamped = arith.SelectOp(inside, below, low).result
    made = intrinsics.call(f"llvm.lrint.{_suffix(type_)}.{_suffix(x.type)}", type_, clamped)
    return arith.AddIOp(made, constant(match.shift, type_)).result if match.shift else made


def _saturated(value: ir.Value, match: Requantization) -> ir.Value:
    """``value`` clamped to the integers of the narrower type to which its only user cuts it; ``value`` itself when no
    user does."""
    users = [use.owner for use in match.conversion.results[0].uses]
    if len(users) != 1 or users[0].name != "arith.trunci":
        return value
    width = ir.IntegerType(element_type(users[0].results[0].type)).width
    low, high = (dict(match.limits)[name] for name in _LIMITS)
    for least in (-(1 << (width - 1)), 0):
        most = least + (1 << width) - 1
        if width in (8, 16) and least <= low and high <= most:
            bounded = arith.MaxSIOp(value, constant(least, value.type)).result
            return arith.MinSIOp(bounded, constant(most, value.type)).result
    return value


def _suffix(type_: ir.Type) -> str:
    """The type in the name of an intrinsic."""
    lanes = f"v{ir.VectorType(type_).shape[0]}" if isinstance(type_, ir.VectorType) else ""
    element = element_type(type_)
    return lanes + (f"i{element.width}" if isinstance(element, ir.IntegerType) else "f32")
