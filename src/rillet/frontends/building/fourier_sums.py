"""Discrete Fourier transforms of rows by their definition (``rillet.ir.fourier``)."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from torch_mlir.dialects import linalg

from rillet.frontends.building import element_types, scalars
from rillet.frontends.building.builder import Builder
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.extent_arithmetic import Flag
from rillet.frontends.building.scalars import Scalar, select
from rillet.frontends.building.tensor import Tensor
from rillet.ir import builders
from rillet.ir.builders import Expr, Extent
from rillet.ir.fourier import Fourier, Result, Source, mark

_LONGEST_PRODUCT = 8  # points; such transforms are no slower as a product with the matrix of their weights

Factor: TypeAlias = tuple[Tensor, Sequence[Expr]]


@dataclass(frozen=True)
class Transform:
    """What ``rillet.ir.fourier.Fourier`` says, with a length that may be known at run time only. ``are_real``: whether
    complex samples are real all the same, an ``i1`` where run time tells."""

    length: Extent
    source: Source
    result: Result
    inverse: bool
    are_real: Flag = False

    @property
    def pitch(self) -> int:
        """The real numbers of a point of the result."""
        return 2 if self.result == "complex" else 1


def sums(
    b: Builder, factors: Sequence[Factor], rows: Sequence[Extent], of: Transform, results: int, dtype: str
) -> Tensor:
    """The transforms of rows, of shape [rows..., results * of.pitch], in the type that ``dtype`` is computed in. The
    length is known.

    A row's source is the product of ``factors``, tensors with their indices over the loops of
    ``dims(len(rows) + 2)``: the rows, the numbers of a row's result, those of its source. One of the factors is
    indexed by the last alone along some axis. ``results``: how many points of each row's result are wanted.
    """
    assert isinstance(of.length, int)
    compute = element_types.compute_dtype(dtype)
    numbers = results * of.pitch
    known = Fourier(of.length, of.source, of.result, of.inverse)
    as_product = known.length <= _LONGEST_PRODUCT
    *outer, v, u = builders.dims(len(rows) + 2)
    if as_product:
        factors = [*factors, (_matrix(b, known, numbers, compute), [u, v])]

    def body(*values: Scalar) -> Scalar:
        *parts, total = (convert(x, compute) for x in values)
        value = product_of(parts)
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


def product_of(factors: Sequence[Scalar]) -> Scalar:
    """Their product."""
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
