"""Discrete Fourier transforms whose length only run time knows, or is too long for one kernel.

Those of a length without fitting factors are convolutions of another length (Bluestein, A linear filtering approach to
the computation of the discrete Fourier transform, 1970): with ``w = exp(-pi i / n)``,
``X[k] = w^(k^2) sum of (x[t] w^(t^2)) w^(-(k - t)^2)``.

A length is ``rows columns``. Number ``columns n1 + n2`` is at ``(n1, n2)`` of a matrix, whose columns are
transformed, turned, and then its rows (Bailey, FFTs in external or hierarchical memory, 1990). The number of rows is
known, so the columns are fast transforms; so are the rows where the number of columns is known, else they are
multiplied by a matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from torch_mlir.dialects import linalg

from rillet.frontends.building import scalars
from rillet.frontends.building.builder import Builder
from rillet.frontends.building.contraction import contract
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.extent_arithmetic import Flag
from rillet.frontends.building.fourier_sums import Transform, sums
from rillet.frontends.building.loops import scalar_of
from rillet.frontends.building.scalars import Scalar, constant, select
from rillet.frontends.building.tensor import Tensor
from rillet.ir import builders
from rillet.ir.builders import Extent

_ROWS = 512  # where only run time knows the columns
LONGEST = 60_000  # points of a transform in one kernel, whose scratch memory holds twice as many complex float64


# At an index: a numerator, a denominator, and whether there is such a number (None: always).
_Fraction: TypeAlias = Callable[[list[Scalar]], tuple[Scalar, Scalar, Scalar | None]]


@dataclass(frozen=True)
class Parts:
    """Complex numbers as two tensors of a shape."""

    re: Tensor
    im: Tensor


def transform(b: Builder, samples: Parts, length: Extent, results: Extent, *, inverse: bool, are_real: bool) -> Tensor:
    """The transforms [many, results, 2] of ``samples`` [many, length]. ``results``: how many points are wanted;
    ``are_real``: whether the imaginary parts of the samples are zero, an ``i1`` where run time tells."""
    sign = 1.0 if inverse else -1.0
    factors = _factors(length) if isinstance(length, int) else None
    if factors is None:
        product = _convolution(b, samples, length, results, sign)
    else:
        matrix = _Matrix(b, samples.re.dtype, *factors)
        transformed = matrix.each(matrix.forward(samples, sign), lambda p: b.reshape(p, samples.re.shape))
        product = matrix.each(transformed, lambda p: b.slice_axis(p, 1, 0, results))
    im = product.im if are_real is False else _with_real_ends(b, product.im, length, are_real)
    return b.concat([b.unsqueeze(p, [2]) for p in (product.re, im)], 2)


def _with_real_ends(b: Builder, im: Tensor, length: Extent, are_real: Flag) -> Tensor:
    """The imaginary parts of frequencies of real samples, without the errors of those that are zero."""
    count, loops = scalar_of(length), builders.dims(2)

    def body(value: Scalar, _: Scalar) -> Scalar:
        k = Scalar(linalg.IndexOp(1).result, "index")
        is_real = constant(True, "bool") if isinstance(are_real, bool) else Scalar(are_real, "bool")
        return select(is_real & ((k == 0) | (k * 2 == count)), constant(0.0, im.dtype), value)

    return b.generic([(im, loops)], [(b.empty(im.dtype, im.shape), loops, im.dtype, im.shape)], "pp", body)[0]


def _factors(length: int) -> tuple[int, int] | None:
    """The rows and columns of a matrix of so many numbers, if both fit kernels."""
    rows = next(n for n in range(math.isqrt(length), 0, -1) if length % n == 0)
    return (rows, length // rows) if length // rows <= LONGEST else None


def _convolution(b: Builder, samples: Parts, length: Extent, results: Extent, sign: float) -> Parts:
    e, dtype = b.extents, samples.re.dtype
    length = e.maximum(length, 1)
    matrix = _Matrix(b, dtype, *_room(b, length))
    whole = e.mul(matrix.rows, matrix.columns)
    count, size = scalar_of(length), scalar_of(whole)

    def chirp(at: list[Scalar]) -> tuple[Scalar, Scalar, Scalar | None]:
        (n,) = at
        return n * n % (count * 2), count, n < count

    def weight(at: list[Scalar]) -> tuple[Scalar, Scalar, Scalar | None]:
        _, n = at
        distance = scalars.minimum(n, size - n)
        return distance * distance % (count * 2), count, distance < count

    chirps = matrix.turns([whole], sign, chirp)
    weights = matrix.forward(matrix.turns([1, whole], -sign, weight), -1.0)
    missing = [0, e.sub(whole, samples.re.shape[1])]
    padded = matrix.each(samples, lambda p: b.pad(p, [0, 0], missing))
    spectrum = matrix.forward(matrix.times(padded, chirps), -1.0)
    sums = matrix.backward(matrix.times(spectrum, weights))
    wanted = matrix.each(sums, lambda p: b.slice_axis(p, 1, 0, results))
    product = matrix.times(wanted, matrix.each(chirps, lambda p: b.slice_axis(p, 0, 0, results)))
    if sign > 0:
        scale = 1 / convert(convert(count, "int64"), dtype)
        product = matrix.each(product, lambda p: b.map(lambda v: v * scale, p))
    return product


class _Matrix:
    """Rows of ``rows columns`` numbers as matrices."""

    def __init__(self, b: Builder, dtype: str, rows: int, columns: Extent) -> None:
        self.b, self.dtype, self.rows, self.columns = b, dtype, rows, columns
        self.whole = b.extents.mul(rows, columns)

    def forward(self, x: Parts, sign: float) -> Parts:
        """Transforms of [many, whole] as [many, columns, rows]; inverse ones where ``sign`` is 1."""
        shape = [x.re.shape[0], self.rows, self.columns]
        columns = self.each(x, lambda p: self.b.transpose(self.b.reshape(p, shape), [0, 2, 1]))
        return self._along_rows(self.times(self._along_columns(columns, sign), self._own_turns(sign)), sign)

    def backward(self, x: Parts) -> Parts:
        """Inverse transforms of [many, columns, rows] as [many, whole]."""
        turned = self.times(self._along_rows(x, 1.0), self._own_turns(1.0))
        shape = [x.re.shape[0], self.whole]
        columns = self._along_columns(turned, 1.0)
        return self.each(columns, lambda p: self.b.reshape(self.b.transpose(p, [0, 2, 1]), shape))

    def _along_columns(self, x: Parts, sign: float) -> Parts:
        """Transforms of [many, columns, rows] along the last axis."""
        return self._fast(x, self.rows, sign)

    def _along_rows(self, x: Parts, sign: float) -> Parts:
        """Transforms of [many, columns, rows] along the middle axis."""
        b, columns = self.b, self.columns
        if isinstance(columns, int):
            turned = self.each(x, lambda p: b.transpose(p, [0, 2, 1]))
            return self.each(self._fast(turned, columns, sign), lambda p: b.transpose(p, [0, 2, 1]))
        count = scalar_of(columns)

        def weight(at: list[Scalar]) -> Scalar:
            (c, n), (j, k) = ((x // count, x % count) for x in at)
            cosine, sine = _turn(n * k * 2 % (count * 2), count, sign)
            value = select(c == j, cosine, select(c < j, sine, -sine))
            return convert(value / _wide(count) if sign > 0 else value, self.dtype)

        matrix = b.indexed(self.dtype, [b.extents.mul(2, columns)] * 2, weight)
        both = b.concat([x.re, x.im], 1)
        product = contract(b, ["xy", "mxr"], "myr", [matrix, both], self.dtype)
        return Parts(b.slice_axis(product, 1, 0, columns), b.slice_axis(product, 1, columns, columns))

    def _fast(self, x: Parts, length: int, sign: float) -> Parts:
        """Transforms along the last axis, whose length is known: of both parts as of real numbers, which takes no more
        time, and needs no pairs of parts in memory."""
        b = self.b
        *rows, _ = x.re.shape
        axis = len(rows)
        *outer, _, u = builders.dims(axis + 3)
        both = b.concat([b.unsqueeze(p, [axis]) for p in (x.re, x.im)], axis)
        result = sums(
            b, [(both, [*outer, u])], [*rows, 2], Transform(length, "real", "complex", False), length, self.dtype
        )
        planes = b.transpose(b.reshape(result, [*rows, 2, length, 2]), [*range(axis + 1), axis + 2, axis + 1])
        flat = b.reshape(planes, [*rows, 4, length])
        parts = [b.reshape(b.slice_axis(flat, axis, n, 1), [*rows, length]) for n in range(4)]
        scale = 1 / length if sign > 0 else 1.0

        def body(re_re: Scalar, re_im: Scalar, im_re: Scalar, im_im: Scalar) -> tuple[Scalar, Scalar]:
            return (re_re + im_im * sign) * scale, (im_re - re_im * sign) * scale

        return self._both([*rows, length], [(p, range(axis + 1)) for p in parts], body)

    def _own_turns(self, sign: float) -> Parts:
        """What the transforms of columns are turned by, [columns, rows]."""
        size = scalar_of(self.whole)
        return self.turns([self.columns, self.rows], sign, lambda at: (at[0] * at[1] * 2, size, None))

    def turns(self, shape: Sequence[Extent], sign: float, at: _Fraction) -> Parts:
        """``exp(sign pi i a / c)`` where ``at`` gives ``a``, ``c`` and whether there is one; else 0."""

        def body() -> tuple[Scalar, Scalar]:
            over, under, inside = at([Scalar(linalg.IndexOp(n).result, "index") for n in range(len(shape))])
            re, im = (convert(part, self.dtype) for part in _turn(over, under, sign))
            return (re, im) if inside is None else (select(inside, re, 0), select(inside, im, 0))

        return self._both(shape, [], body)

    def times(self, x: Parts, y: Parts) -> Parts:
        """The product, whose shape is that of ``x``; ``y`` lacks leading axes, or has them of extent 1."""
        rank = x.re.rank
        first = rank - y.re.rank
        kept = [a for a in range(y.re.rank) if y.re.shape[a] != 1 or x.re.shape[first + a] == 1]
        factors = [(self.b.drop_unit_dims(p, kept), [first + a for a in kept]) for p in (y.re, y.im)]

        def body(a: Scalar, c: Scalar, d: Scalar, f: Scalar) -> tuple[Scalar, Scalar]:
            return a * d - c * f, a * f + c * d

        return self._both(x.re.shape, [(x.re, range(rank)), (x.im, range(rank)), *factors], body)

    def _both(
        self,
        shape: Sequence[Extent],
        inputs: Sequence[tuple[Tensor, Sequence[int]]],
        body: Callable[..., tuple[Scalar, Scalar]],
    ) -> Parts:
        """Both parts from the elements of ``inputs``, each with the axes of the result that index it."""
        loops = builders.dims(len(shape))
        operands = [(x, [loops[axis] for axis in axes]) for x, axes in inputs]
        outputs = [(self.b.empty(self.dtype, shape), loops, self.dtype, shape) for _ in range(2)]
        return Parts(*self.b.generic(operands, outputs, "p" * len(shape), lambda *values: body(*values[:-2])))

    def each(self, x: Parts, move: Callable[[Tensor], Tensor]) -> Parts:
        """Both parts after ``move``."""
        return Parts(move(x.re), move(x.im))


def _room(b: Builder, length: Extent) -> tuple[int, Extent]:
    """The rows and columns of a convolution of ``length`` points: not fewer than ``2 length - 1`` numbers."""
    least = b.extents.sub(b.extents.mul(2, length), 1)
    if not isinstance(least, int):
        return _ROWS, b.extents.ceildiv(least, _ROWS)
    rows = 1 << -(-(least - 1).bit_length() // 2)
    return rows, -(-least // rows)


def _turn(numerator: Scalar, denominator: Scalar, sign: float) -> tuple[Scalar, Scalar]:
    """The parts of ``exp(sign pi i numerator / denominator)`` in float64."""
    angle = _wide(numerator) * (sign * np.pi) / _wide(denominator)
    return scalars.cos(angle), scalars.sin(angle)


def _wide(index: Scalar) -> Scalar:
    return convert(convert(index, "int64"), "float64")
