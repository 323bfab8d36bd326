"""Coordinates of an element, or of a vector of elements, in an index space.

A coordinate is an ``Index`` (the same for every lane), a ``Lane`` (``base + step * lane``), or an ``ir.Value`` of type
``vector<n x index>`` (anything else). Affine maps keep uniform coordinates uniform and linear ones linear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from torch_mlir import ir
from torch_mlir.dialects import arith, vector

from rillet.codegen import index
from rillet.codegen.index import Index
from rillet.errors import CompileError
from rillet.ir.structured import Expr


@dataclass(frozen=True)
class Lane:
    """The coordinate ``base + step * lane`` of each lane; ``step`` is not 0."""

    base: Index
    step: int = 1


Coordinate: TypeAlias = Index | Lane


def is_uniform(c: Coordinate) -> bool:
    """True when the coordinate is the same for every lane."""
    return not isinstance(c, Lane) and not is_vector(c)


def is_vector(c: Coordinate) -> bool:
    """True for an arbitrary coordinate for each lane."""
    return isinstance(c, ir.Value) and isinstance(c.type, ir.VectorType)


def lane(c: Coordinate, number: int) -> Index:
    """The coordinate of lane ``number``."""
    if isinstance(c, Lane):
        return index.add(c.base, c.step * number)
    if is_vector(c):
        return vector.extract(c, [], [number])
    return c


def to_vector(c: Coordinate, lanes: int) -> ir.Value:
    """The coordinate as ``vector<lanes x index>``."""
    type_ = ir.VectorType.get([lanes], ir.IndexType.get())
    if is_vector(c):
        return c
    if not isinstance(c, Lane):
        return vector.BroadcastOp(type_, index.value(c)).result
    steps = ir.DenseElementsAttr.get(
        [ir.IntegerAttr.get(ir.IndexType.get(), c.step * n) for n in range(lanes)], type=type_
    )
    offsets = arith.ConstantOp(type_, steps).result
    return arith.AddIOp(vector.BroadcastOp(type_, index.value(c.base)).result, offsets).result


def add(a: Coordinate, b: Coordinate, lanes: int) -> Coordinate:
    """``a + b``"""
    if is_uniform(a) and is_uniform(b):
        return index.add(a, b)
    if is_vector(a) or is_vector(b):
        return arith.AddIOp(to_vector(a, lanes), to_vector(b, lanes)).result
    base = index.add(_base(a), _base(b))
    step = (a.step if isinstance(a, Lane) else 0) + (b.step if isinstance(b, Lane) else 0)
    return Lane(base, step) if step else base


def subtract(a: Coordinate, b: Index) -> Coordinate:
    """``a - b`` for a ``b`` that is the same for every lane."""
    if isinstance(a, Lane):
        return Lane(index.sub(a.base, b), a.step)
    if is_vector(a):
        lanes = ir.VectorType(index.value(a).type).shape[0]
        return arith.SubIOp(a, to_vector(b, lanes)).result
    return index.sub(a, b)


def mul(a: Coordinate, b: Coordinate, lanes: int) -> Coordinate:
    """``a * b``"""
    if is_uniform(a) and is_uniform(b):
        return index.mul(a, b)
    for c, factor in ((a, b), (b, a)):
        if isinstance(factor, int):
            if factor == 0:
                return 0
            if isinstance(c, Lane):
                return Lane(index.mul(c.base, factor), c.step * factor)
    return arith.MulIOp(to_vector(a, lanes), to_vector(b, lanes)).result


def floordiv(a: Coordinate, b: Coordinate, lanes: int) -> Coordinate:
    """``a / b`` rounded down, for non-negative ``a``."""
    if is_uniform(a) and is_uniform(b):
        return index.floordiv(a, b)
    return arith.DivUIOp(to_vector(a, lanes), to_vector(b, lanes)).result


def mod(a: Coordinate, b: Coordinate, lanes: int) -> Coordinate:
    """``a`` modulo ``b``, for non-negative ``a``."""
    if is_uniform(a) and is_uniform(b):
        return index.mod(a, b)
    return arith.RemUIOp(to_vector(a, lanes), to_vector(b, lanes)).result


def apply(map_: Sequence[Expr], dims: Sequence[Coordinate], lanes: int = 1) -> list[Coordinate]:
    """The results of a map at these coordinates."""
    return [_evaluate(e, dims, lanes) for e in map_]


def _evaluate(expr: Expr, dims: Sequence[Coordinate], lanes: int) -> Coordinate:
    if isinstance(expr, int):
        return dims[expr]
    if isinstance(expr, ir.AffineDimExpr):
        return dims[expr.position]
    if isinstance(expr, ir.AffineConstantExpr):
        return expr.value
    for kind, operation in _OPERATIONS:
        if isinstance(expr, kind):
            return operation(_evaluate(expr.lhs, dims, lanes), _evaluate(expr.rhs, dims, lanes), lanes)
    raise CompileError(f"indexing map term {expr} is not supported")


def _ceildiv(a: Coordinate, b: Coordinate, lanes: int) -> Coordinate:
    return floordiv(add(a, add(b, -1, lanes), lanes), b, lanes)


_OPERATIONS = (
    (ir.AffineAddExpr, add),
    (ir.AffineMulExpr, mul),
    (ir.AffineFloorDivExpr, floordiv),
    (ir.AffineCeilDivExpr, _ceildiv),
    (ir.AffineModExpr, mod),
)


def _base(c: Coordinate) -> Index:
    return c.base if isinstance(c, Lane) else c
