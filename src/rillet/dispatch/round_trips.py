"""Removes conversions to narrow integers and back within a kernel.

Suppose that a result is quantized and the fused ops behind it read it dequantized. The float is already an integer and
clamped to the integer type's range. It would be converted, cut to 8 bits, extended and converted back. The result is
the same float, minus the zero point.
"""

from __future__ import annotations

import math

from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.ir import Program
from rillet.ir.kernels import functions
from rillet.ir.rewrite import defining, has_uses
from rillet.ir.structured import structured, walk

_EXTENSIONS = ("arith.extsi", "arith.extui")


def run(program: Program, options: None) -> None:
    """Rewrite the bodies of all kernels."""
    with program.context, ir.Location.unknown():
        for function in functions(program).values():
            for op in list(walk(function)):
                if structured(op) is not None:
                    _rewrite(op.regions[0].blocks[0])


def _rewrite(body: ir.Block) -> None:
    changed = False
    for op in [view.operation for view in body.operations]:
        if op.name != "arith.sitofp" or not isinstance(op.results[0].type, ir.F32Type):
            continue
        found = _origin(op.operands[0])
        if found is None:
            continue
        value, zero = found
        with ir.InsertionPoint(op), op.location:
            # A difference with zero makes +0 from -0, as the integer does.
            constant = arith.ConstantOp(value.type, ir.FloatAttr.get(value.type, float(zero))).result
            op.results[0].replace_all_uses_with((arith.SubFOp if zero else arith.AddFOp)(value, constant).result)
        changed = True
    if changed:
        for op in reversed([view.operation for view in body.operations][:-1]):
            if not has_uses(op):
                op.erase()


def _origin(integer: ir.Value) -> tuple[ir.Value, int] | None:
    """The float that ``integer`` was before it became narrow, and the zero point subtracted from it."""
    zero = 0
    op = defining(integer)
    if op is not None and op.name == "arith.subi":
        subtrahend = _number(op.operands[1])
        if subtrahend is None:
            return None
        zero, op = int(subtrahend), defining(op.operands[0])
    if op is None or op.name not in _EXTENSIONS:
        return None
    is_signed = op.name == "arith.extsi"
    cut = defining(op.operands[0])
    conversion = defining(cut.operands[0]) if cut is not None and cut.name == "arith.trunci" else None
    if cut is None or conversion is None or conversion.name != "arith.fptosi":
        return None
    width = ir.IntegerType(cut.results[0].type).width
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if is_signed else (0, (1 << width) - 1)
    value = conversion.operands[0]
    return (value, zero) if isinstance(value.type, ir.F32Type) and _is_integral_within(value, low, high) else None


def _is_integral_within(value: ir.Value, low: int, high: int) -> bool:
    """Whether the computation of a float makes it an integer from ``low`` to ``high``."""
    least, most = -math.inf, math.inf
    op = defining(value)
    while op is not None and op.name in ("arith.maximumf", "arith.minimumf"):
        bound = _number(op.operands[1])
        if bound is None or bound != math.floor(bound):
            return False
        if op.name == "arith.maximumf":
            least = max(least, bound)
        else:
            most = min(most, bound)
        op = defining(op.operands[0])
    return least >= low and most <= high and least <= most and _is_integral(op)


def _is_integral(op: ir.Operation | None) -> bool:
    if op is not None and op.name == "arith.addf":
        offset = _number(op.operands[1])
        if offset is None or offset != math.floor(offset):
            return False
        op = defining(op.operands[0])
    return op is not None and op.name == "math.roundeven"


def _number(value: ir.Value) -> float | None:
    op = defining(value)
    if op is None or op.name != "arith.constant":
        return None
    attribute = op.attributes["value"]
    finite = isinstance(attribute, ir.IntegerAttr) or (
        isinstance(attribute, ir.FloatAttr) and math.isfinite(attribute.value)
    )
    return float(attribute.value) if finite else None  # type: ignore[attr-defined]
