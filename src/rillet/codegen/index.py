"""Index arithmetic that folds: an extent or offset is a Python ``int`` when it is known, an ``index`` value otherwise.

All quantities here are non-negative, so divisions are unsigned.
"""

from __future__ import annotations

from typing import TypeAlias

from torch_mlir import ir
from torch_mlir.dialects import arith

Index: TypeAlias = int | ir.Value


def value(i: Index) -> ir.Value:
    """``i`` as an SSA value of type ``index`` at the current insertion point."""
    if isinstance(i, int):
        return arith.ConstantOp(ir.IndexType.get(), i).result
    return i


def add(a: Index, b: Index) -> Index:
    """``a + b``"""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if isinstance(a, int) and a == 0:
        return b
    if isinstance(b, int) and b == 0:
        return a
    return arith.AddIOp(value(a), value(b)).result


def sub(a: Index, b: Index) -> Index:
    """``a - b``"""
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    if isinstance(b, int) and b == 0:
        return a
    return arith.SubIOp(value(a), value(b)).result


def mul(a: Index, b: Index) -> Index:
    """``a * b``"""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    for known, other in ((a, b), (b, a)):
        if isinstance(known, int) and known in (0, 1):
            return other if known else 0
    return arith.MulIOp(value(a), value(b)).result


def floordiv(a: Index, b: Index) -> Index:
    """``a / b`` rounded down, for ``a >= 0`` and ``b > 0``."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    if isinstance(b, int) and b == 1:
        return a
    return arith.DivUIOp(value(a), value(b)).result


def mod(a: Index, b: Index) -> Index:
    """``a`` modulo ``b``, for ``a >= 0`` and ``b > 0``."""
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    if isinstance(b, int) and b == 1:
        return 0
    return arith.RemUIOp(value(a), value(b)).result


def ceildiv(a: Index, b: Index) -> Index:
    """``a / b`` rounded up, for ``a >= 0`` and ``b > 0``."""
    if isinstance(b, int) and b == 1:
        return a
    return floordiv(sub(add(a, b), 1), b)


def minimum(a: Index, b: Index) -> Index:
    """The smaller of the two."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    return arith.MinSIOp(value(a), value(b)).result


def maximum(a: Index, b: Index) -> Index:
    """The larger of the two."""
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    return arith.MaxSIOp(value(a), value(b)).result


def product(extents: list[Index] | tuple[Index, ...]) -> Index:
    """The product of all extents; 1 for none."""
    result: Index = 1
    for extent in extents:
        result = mul(result, extent)
    return result


def delinearize(linear: Index, extents: list[Index] | tuple[Index, ...]) -> list[Index]:
    """The row-major coordinates of position ``linear`` in a space of these extents."""
    coordinates: list[Index] = []
    for extent in reversed(extents[1:]):
        coordinates.append(mod(linear, extent) if not is_one(extent) else 0)
        linear = floordiv(linear, extent)
    if extents:
        coordinates.append(linear)
    return coordinates[::-1]


def successor(coordinates: list[Index], extents: list[Index] | tuple[Index, ...]) -> list[Index]:
    """The row-major coordinates of the next position: those that ``delinearize`` gives for it, without divisions."""
    following: list[Index] = []
    carry: Index = 1
    for axis in reversed(range(len(extents))):
        if axis and is_one(extents[axis]):
            following.append(0)
            continue
        raised = add(coordinates[axis], carry)
        if axis:
            wraps = arith.CmpIOp(arith.CmpIPredicate.eq, value(raised), value(extents[axis])).result
            raised = arith.SelectOp(wraps, value(0), value(raised)).result
            carry = arith.SelectOp(wraps, value(1), value(0)).result
        following.append(raised)
    return following[::-1]


def linearize(coordinates: list[Index] | tuple[Index, ...], extents: list[Index] | tuple[Index, ...]) -> Index:
    """The row-major position of ``coordinates`` in a space of these extents."""
    linear: Index = 0
    for coordinate, extent in zip(coordinates, extents, strict=True):
        linear = add(mul(linear, extent), coordinate)
    return linear


def is_one(extent: Index) -> bool:
    """Whether an extent is known to be 1."""
    return isinstance(extent, int) and extent == 1
