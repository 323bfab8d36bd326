"""Discrete Fourier transforms of rows."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir

from rillet.frontends.building import element_types, fourier_long, fourier_sums
from rillet.frontends.building.builder import Builder
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.fourier_long import Parts
from rillet.frontends.building.fourier_sums import Factor, Transform, product_of
from rillet.frontends.building.loops import scalar_of
from rillet.frontends.building.scalars import Scalar, constant, select
from rillet.frontends.building.tensor import Tensor
from rillet.ir import builders
from rillet.ir.builders import Extent


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

    A row's source is the product of ``factors``, as ``fourier_sums.sums`` takes them. ``results``: how many points of
    each row's result are wanted.
    """
    if not isinstance(of.length, int) or _complex_points(of.length, of) > fourier_long.LONGEST:
        return _long(b, factors, rows, of, results, element_types.compute_dtype(dtype))
    if isinstance(results, int):
        return fourier_sums.sums(b, factors, rows, of, results, dtype)
    every = b.reshape(fourier_sums.sums(b, factors, rows, of, of.length, dtype), [*rows, of.length, of.pitch])
    return b.reshape(b.slice_axis(every, len(rows), 0, results), [*rows, b.extents.mul(results, of.pitch)])


def _complex_points(length: int, of: Transform) -> int:
    """The points of the complex transform that a kernel does."""
    is_real = of.source == "real" or of.result == "real"
    return length // 2 if is_real and length % 2 == 0 else length


def _long(
    b: Builder, factors: Sequence[Factor], rows: Sequence[Extent], of: Transform, results: Extent, dtype: str
) -> Tensor:
    """The transforms of rows that no kernel takes."""
    samples = _samples(b, _source(b, factors, rows, dtype), of)
    result = fourier_long.transform(
        b, samples, of.length, results, inverse=of.inverse, are_real=of.source == "real" or of.are_real
    )
    return b.reshape(b.slice_axis(result, 2, 0, of.pitch), [*rows, b.extents.mul(results, of.pitch)])


def _samples(b: Builder, source: Tensor, of: Transform) -> Parts:
    """The samples of rows whose numbers are ``source`` [rows, numbers]."""
    count, dtype = source.shape[0], source.dtype
    if of.source == "real":
        return Parts(source, b.fill(0, dtype, source.shape))
    if of.source == "complex":
        pairs = b.reshape(source, [count, of.length, 2])
        re, im = (b.reshape(b.slice_axis(pairs, 2, part, 1), [count, of.length]) for part in range(2))
        return Parts(re, im)
    whole, length = b.value(source), scalar_of(of.length)

    def part(number: int) -> Tensor:
        def body(place: list[Scalar]) -> Scalar:
            row, t = place
            is_mirrored = t * 2 > length
            value = b.element(whole, dtype, [row, select(is_mirrored, length - t, t) * 2 + number])
            if number == 0:
                return value
            return select((t == 0) | (t * 2 == length), constant(0.0, dtype), select(is_mirrored, -value, value))

        return b.indexed(dtype, [count, of.length], body)

    return Parts(part(0), part(1))


def _source(b: Builder, factors: Sequence[Factor], rows: Sequence[Extent], dtype: str) -> Tensor:
    """The numbers of all rows' sources, [rows, numbers]."""
    *outer, u = builders.dims(len(rows) + 1)
    without_results = builders.affine_map(len(rows) + 1, [*outer, 0, u])
    taken = [(t, [ir.AffineExpr.compose(e, without_results) for e in exprs]) for t, exprs in factors]
    numbers = next(t.shape[axis] for t, exprs in taken for axis, expr in enumerate(exprs) if expr == u)
    shape = [*rows, numbers]
    output = (b.empty(dtype, shape), [*outer, u], dtype, shape)
    (product,) = b.generic(
        taken, [output], "p" * len(shape), lambda *v: product_of([convert(x, dtype) for x in v[:-1]])
    )
    return b.reshape(product, [b.extents.product(rows), numbers])
