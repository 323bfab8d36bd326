"""Discrete Fourier transforms of rows, from their definition (``rillet.ir.fourier``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from torch_mlir.dialects import linalg

from rillet.frontends.building import element_types, scalars
from rillet.frontends.building.builder import Builder
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.loops import scalar_of
from rillet.frontends.building.scalars import Scalar, select
from rillet.frontends.building.tensor import Tensor
from rillet.ir import builders
from rillet.ir.builders import Expr, Extent
from rillet.ir.fourier import Fourier, Result, Source, mark

_LONGEST_PRODUCT = 16  # points; shorter transforms are faster as a product with the matrix of their weights

Factor: TypeAlias = tuple[Tensor, Sequence[Expr]]


@dataclass(frozen=True)
class Transform:
    """What ``rillet.ir.fourier.Fourier`` says, with a length that may be known at run time only."""

    length: Extent
    source: Source
    result: Result
    inverse: bool

    @property
    def pitch(self) -> int:
        """The real numbers of a point of the result."""
        return 2 if self.result == "complex" else 1


def transform_rows(b: Builder, x: Tensor, of: Transform, results: Extent) -> Tensor:
    """The transforms, of shape [rows..., results, 1 or 2], of rows [rows..., points, 1 or 2] as ``of`` says, in the
    type that x's is computed in. The last dimension has the parts of complex numbers."""
    *rows, points, parts = x.shape
    flat = b.reshape(x, [*rows, b.extents.mul(points, parts)])
    *outer, _, u = builders.dims(len(rows) + 2)
    result = transform(b, [(flat, [*outer, u])], rows, of, results, x.dtype)
    return b.reshape(result, [*rows, results, of.pitch])


def transform(
    b: Builder, factors: Sequence[Factor], rows: Sequence[Extent], of: Transform, results: Extent, dtype: str
) -> Tensor:
    """The transforms of rows, of shape [rows..., results * of.pitch], in the type that ``dtype`` is computed in.

    A row's source is the product of ``factors``, tensors with their indices over the loops of
    ``dims(len(rows) + 2)``: the rows, the numbers of a row's result, those of its source. One of the factors is
    indexed by the last alone along some axis. ``results``: how many points of each row's result are wanted.
    """
    compute = element_types.compute_dtype(dtype)
    numbers = b.extents.mul(results, of.pitch)
    known = Fourier(of.length, of.source, of.result, of.inverse) if isinstance(of.length, int) else None
    as_product = known is None or known.length <= _LONGEST_PRODUCT
    *outer, v, u = builders.dims(len(rows) + 2)
    if as_product:
        factors = [*factors, (_matrix(b, of, known, _extent_along(factors, u), numbers, compute), [u, v])]

    def body(*values: Scalar) -> Scalar:
        *parts, total = (convert(x, compute) for x in values)
        value = parts[0]
        for part in parts[1:]:
            value = value * part
        if as_product:
            return total + value
        number, result = (Scalar(linalg.IndexOp(len(rows) + n).result, "index") for n in (1, 0))
        return total + value * convert(_weight(_OnScalars, number, result, of, of.length), compute)

    shape = [*rows, numbers]
    output = (b.init(0, compute, shape), [*outer, v], compute, shape)
    (transformed,) = b.generic(factors, [output], "p" * (len(rows) + 1) + "r", body)
    if known is not None and not as_product:
        mark(b.value(transformed).owner.operation, known)  # type: ignore[union-attr]
    return transformed


def _extent_along(factors: Sequence[Factor], loop: Expr) -> Extent:
    return next(t.shape[axis] for t, exprs in factors for axis, expr in enumerate(exprs) if expr == loop)


def _matrix(b: Builder, of: Transform, known: Fourier | None, sources: Extent, results: Extent, dtype: str) -> Tensor:
    """The matrix [numbers of the source, numbers of the result] of weights."""
    if known is not None and isinstance(sources, int) and isinstance(results, int):
        place = np.indices((sources, results), sparse=True)
        values = np.broadcast_to(_weight(_OnArrays, *place, of, max(known.length, 1)), (sources, results))
        return b.constant(np.ascontiguousarray(values, dtype), name="transform")
    length = scalar_of(b.extents.maximum(of.length, 1))

    def body(at: list[Scalar]) -> Scalar:
        number, result = at
        return convert(_weight(_OnScalars, number, result, of, length), dtype)

    return b.indexed(dtype, [sources, results], body)


def _weight(calculate: Any, u: Any, v: Any, of: Transform, length: Any) -> Any:
    """The factor of number ``u`` of a row's source in number ``v`` of its result. Works on numpy arrays and on scalars
    alike; ``calculate`` has the functions.
    """
    t, c = (u, u * 0) if of.source == "real" else (u // 2, u % 2)
    k, j = (v, v * 0) if of.result == "real" else (v // 2, v % 2)
    angle = calculate.wide((t * k) % length) * ((2 if of.inverse else -2) * np.pi) / calculate.wide(length)
    cosine, sine = calculate.cos(angle), calculate.sin(angle)
    value = calculate.select(c == j, cosine, calculate.select(c < j, sine, -sine))
    if of.source == "half":
        # All frequencies but the first (and the middle one of an even length) stand for a conjugate pair.
        value = calculate.select((t == 0) | (t * 2 == length), value, value * 2.0)
    return value / calculate.wide(length) if of.inverse else value


class _OnArrays:
    """What ``_weight`` needs, on numpy arrays."""

    cos, sin, select = np.cos, np.sin, np.where

    @staticmethod
    def wide(value: Any) -> Any:
        return np.asarray(value, np.float64)


class _OnScalars:
    """What ``_weight`` needs, in a kernel."""

    cos, sin, select = staticmethod(scalars.cos), staticmethod(scalars.sin), staticmethod(select)

    @staticmethod
    def wide(value: Scalar | int) -> Scalar:
        return (
            scalars.constant(value, "float64")
            if isinstance(value, int)
            else convert(convert(value, "int64"), "float64")
        )
