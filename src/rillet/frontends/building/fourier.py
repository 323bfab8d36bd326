"""Discrete Fourier transforms of rows, from their definition (``rillet.ir.fourier``)."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import linalg

from rillet.frontends.building import element_types, fourier_at_run_time, scalars
from rillet.frontends.building.builder import Builder
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.fourier_at_run_time import Complex
from rillet.frontends.building.loops import scalar_of
from rillet.frontends.building.scalars import Scalar, constant, select
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
    if not isinstance(of.length, int):
        return _at_run_time(b, factors, rows, of, results, compute)
    if not isinstance(results, int):
        every = b.reshape(transform(b, factors, rows, of, of.length, dtype), [*rows, of.length, of.pitch])
        wanted = b.slice_axis(every, len(rows), 0, results)
        return b.reshape(wanted, [*rows, b.extents.mul(results, of.pitch)])
    numbers = results * of.pitch
    known = Fourier(of.length, of.source, of.result, of.inverse)
    as_product = known.length <= _LONGEST_PRODUCT
    *outer, v, u = builders.dims(len(rows) + 2)
    if as_product:
        factors = [*factors, (_matrix(b, known, numbers, compute), [u, v])]

    def body(*values: Scalar) -> Scalar:
        *parts, total = (convert(x, compute) for x in values)
        value = _product(parts)
        if as_product:
            return total + value
        number, result = (Scalar(linalg.IndexOp(len(rows) + n).result, "index") for n in (1, 0))
        return total + value * convert(_weight(_OnScalars, number, result, known), compute)

    shape = [*rows, numbers]
    output = (b.init(0, compute, shape), [*outer, v], compute, shape)
    (transformed,) = b.generic(factors, [output], "p" * (len(rows) + 1) + "r", body)
    if not as_product:
        mark(b.value(transformed).owner.operation, known)  # type: ignore[union-attr]
    return transformed


def _at_run_time(
    b: Builder, factors: Sequence[Factor], rows: Sequence[Extent], of: Transform, results: Extent, dtype: str
) -> Tensor:
    """The transforms where only run time knows the length."""
    whole = b.value(_source(b, factors, rows, dtype))
    length = scalar_of(of.length)

    def sample(row: Scalar, t: Scalar) -> Complex:
        if of.source == "real":
            return b.element(whole, dtype, [row, t]), constant(0.0, dtype)
        is_mirrored = t * 2 > length if of.source == "half" else constant(False, "bool")
        at = select(is_mirrored, length - t, t) * 2
        re, im = b.element(whole, dtype, [row, at]), b.element(whole, dtype, [row, at + 1])
        if of.source == "half":
            im = select((t == 0) | (t * 2 == length), constant(0.0, dtype), select(is_mirrored, -im, im))
        return re, im

    count = b.extents.product(rows)
    result = fourier_at_run_time.transform(b, sample, count, of.length, results, of.inverse, dtype)
    return b.reshape(b.slice_axis(result, 2, 0, of.pitch), [*rows, b.extents.mul(results, of.pitch)])


def _source(b: Builder, factors: Sequence[Factor], rows: Sequence[Extent], dtype: str) -> Tensor:
    """The numbers of all rows' sources, [rows, numbers]."""
    *outer, u = builders.dims(len(rows) + 1)
    without_results = builders.affine_map(len(rows) + 1, [*outer, 0, u])
    taken = [(t, [ir.AffineExpr.compose(e, without_results) for e in exprs]) for t, exprs in factors]
    numbers = next(t.shape[axis] for t, exprs in taken for axis, expr in enumerate(exprs) if expr == u)
    shape = [*rows, numbers]
    output = (b.empty(dtype, shape), [*outer, u], dtype, shape)
    (product,) = b.generic(taken, [output], "p" * len(shape), lambda *v: _product([convert(x, dtype) for x in v[:-1]]))
    return b.reshape(product, [b.extents.product(rows), numbers])


def _product(factors: Sequence[Scalar]) -> Scalar:
    return functools.reduce(operator.mul, factors)


def _matrix(b: Builder, of: Fourier, results: int, dtype: str) -> Tensor:
    """The matrix [numbers of the source, numbers of the result] of weights."""
    place = np.indices((of.numbers, results), sparse=True)
    values = np.broadcast_to(_weight(_OnArrays, *place, of), (of.numbers, results))
    return b.constant(np.ascontiguousarray(values, dtype), name="transform")


def _weight(calculate: Any, u: Any, v: Any, of: Fourier) -> Any:
    """The factor of number ``u`` of a row's source in number ``v`` of its result. Works on numpy arrays and on scalars
    alike; ``calculate`` has the functions.
    """
    length = max(of.length, 1)
    t, c = (u, u * 0) if of.source == "real" else (u // 2, u % 2)
    k, j = (v, v * 0) if of.result == "real" else (v // 2, v % 2)
    angle = calculate.wide((t * k) % length) * ((2 if of.inverse else -2) * np.pi / length)
    cosine, sine = calculate.cos(angle), calculate.sin(angle)
    value = calculate.select(c == j, cosine, calculate.select(c < j, sine, -sine))
    if of.source == "half":
        # All frequencies but the first (and the middle one of an even length) stand for a conjugate pair.
        value = calculate.select((t == 0) | (t * 2 == length), value, value * 2.0)
    return value * (1 / length) if of.inverse else value


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
    def wide(value: Scalar) -> Scalar:
        return convert(convert(value, "int64"), "float64")
