"""How many elements a vector of this dispatch holds."""

from __future__ import annotations

from torch_mlir import ir

from rillet.codegen.cpu.body import is_vectorizable
from rillet.codegen.cpu.dispatch import Dispatch, Generic
from rillet.targets import Target


def lanes_for(dispatch: Dispatch, target: Target) -> int:
    """Lanes such that the widest value any body computes fills one vector register; 1 when a body cannot be
    vectorized."""
    if target.vector_bits == 0 or not all(is_vectorizable(g) for g in dispatch.generics):
        return 1
    types = [port.type.element_type for port in (*dispatch.arguments, *dispatch.results)]
    for generic in dispatch.generics:
        for op in generic.body.operations:
            types += [v.type for v in (*op.operation.operands, *op.operation.results)]
    if any(isinstance(t, ir.ComplexType) for t in types):
        return 1
    return target.lanes(max(_bits(t) for t in types))


_CHEAP_MATH = frozenset(
    {"math.absf", "math.absi", "math.copysign", "math.fma", "math.floor", "math.ceil", "math.trunc"}
)


def is_costly(generic: Generic) -> bool:
    """True when computing the body again would cost more than reading its result from the cache."""
    names = [op.operation.name for op in generic.body.operations]
    return any(n == "arith.divf" or (n.startswith("math.") and n not in _CHEAP_MATH) for n in names)


def _bits(type_: ir.Type) -> int:
    if isinstance(type_, ir.IndexType):
        return 64
    if isinstance(type_, ir.FloatType) and type_.width <= 16:
        return 32  # computed in f32
    if isinstance(type_, ir.IntegerType | ir.FloatType):
        return max(8, type_.width)
    return 8
