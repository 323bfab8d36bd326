"""How many elements a vector of this kernel holds."""

from __future__ import annotations

from collections.abc import Set

from torch_mlir import ir

from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.ir.structured import Structured


def lanes_for(function: KernelFunction, vector_bits: int) -> int:
    """The number of lanes with which the widest value of any body fills one vector register of ``vector_bits``. Values
    that are the same for all elements, such as the count of a mean, are no vectors. 1 when a body cannot be vectorized,
    or when ``vector_bits`` is 0: there are no vectors."""
    if vector_bits == 0 or not all(is_vectorizable(g) for g in function.generics):
        return 1
    types = [port.type.element_type for port in (*function.arguments, *function.results)]
    for generic in function.generics:
        varying = set(generic.body.arguments)
        for op in generic.body_ops():
            if op.name == "linalg.index" or any(v in varying for v in op.operands):
                varying.update(op.results)
                types += [v.type for v in (*op.operands, *op.results)]
    if any(isinstance(t, ir.ComplexType) for t in types):
        return 1
    return max(1, vector_bits // max(_bits(t) for t in types))


def is_vectorizable(generic: Structured) -> bool:
    """True when the body can be computed on vectors: no nested regions and no complex numbers."""
    for op in generic.body.operations:
        if len(op.operation.regions):
            return False
        values = (*op.operation.operands, *op.operation.results)
        if any(isinstance(v.type, ir.ComplexType) for v in values):
            return False
    return True


_CHEAP_MATH = frozenset(
    {"math.absf", "math.absi", "math.copysign", "math.fma", "math.floor", "math.ceil", "math.trunc"}
)


def is_costly(generic: Structured, uniform: Set[ir.Value] = frozenset()) -> bool:
    """True when computing the body again would cost more than reading its result from the cache.

    ``uniform``: inputs that are the same all along a loop. Values computed from these alone are computed once, so they
    do not count.
    """
    same = {a for a, v in zip(generic.body.arguments, generic.inputs, strict=False) if v in uniform}
    for op in generic.body.operations:
        operands = [v for v in op.operation.operands if isinstance(v.owner, ir.Block) or v.owner.parent == generic.op]
        if operands and all(v in same for v in operands):
            same.update(op.operation.results)
        elif _is_costly_op(op.operation.name):
            return True
    return False


def _is_costly_op(name: str) -> bool:
    return name == "arith.divf" or (name.startswith("math.") and name not in _CHEAP_MATH)


def _bits(type_: ir.Type) -> int:
    if isinstance(type_, ir.IndexType):
        return 64
    if isinstance(type_, ir.FloatType) and type_.width <= 16:
        return 32  # computed in f32
    if isinstance(type_, ir.IntegerType | ir.FloatType):
        return max(8, type_.width)
    return 8
