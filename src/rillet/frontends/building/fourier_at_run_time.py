"""Discrete Fourier transforms whose length only run time knows.

They are convolutions of a length that is a power of two (Bluestein, A linear filtering approach to the computation of
the discrete Fourier transform, 1970): with ``w = exp(-pi i / n)``,
``X[k] = w^(k^2) sum of (x[t] w^(t^2)) w^(-(k - t)^2)``. Frequencies in between stay in bit-reversed order.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch_mlir import ir

from rillet.frontends.building import scalars
from rillet.frontends.building.builder import Builder
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.loops import for_range, scalar_of, store
from rillet.frontends.building.scalars import Scalar, constant, select, shift_left, shift_right
from rillet.frontends.building.tensor import Tensor
from rillet.ir.builders import Extent

_PASSES = 40  # of up to 2^40 points
_BITS = 64

Complex = tuple[Scalar, Scalar]


def transform(
    b: Builder,
    sample: Callable[[Scalar, Scalar], Complex],
    rows: Extent,
    length: Extent,
    results: Extent,
    inverse: bool,
    dtype: str,
) -> Tensor:
    """The transforms [rows, results, 2] of ``length`` samples a row: ``sample`` gives number ``t`` of a row (both in
    the body of a structured op). ``results``: how many points are wanted of each row."""
    whole = _power_of_two(b, length)
    count, size = scalar_of(b.extents.maximum(length, 1)), scalar_of(whole)
    chirp = b.value(_table(b, whole, dtype, lambda n: _turn(n * n % (count * 2), count, 1.0 if inverse else -1.0)))
    turns = b.value(_table(b, whole, dtype, lambda n: _turn(n * 2, size, -1.0)))

    def read(source: ir.Value, *at: Scalar) -> Complex:
        re, im = (b.element(source, dtype, [*at, constant(part, "index")]) for part in range(2))
        return re, im

    def filtered(_: Scalar, n: Scalar) -> Complex:
        distance = select(n < count, n, size - n)
        re, im = read(chirp, select(distance < count, distance, 0))
        return _where(distance < count, (re, -im))

    def chirped(row: Scalar, n: Scalar) -> Complex:
        inside = n < count
        at = select(inside, n, 0)
        return _where(inside, _times(sample(row, at), read(chirp, at)))

    weights = _forward(b, b.value(_rows(b, 1, whole, dtype, filtered)), 1, whole, turns, dtype)
    spectrum = _forward(b, b.value(_rows(b, rows, whole, dtype, chirped)), rows, whole, turns, dtype)
    zero = constant(0, "index")
    product = _rows(b, rows, whole, dtype, lambda row, n: _times(read(spectrum, row, n), read(weights, zero, n)))
    sums = _backward(b, b.value(product), rows, whole, turns, dtype)
    divisor = convert(convert(size * count if inverse else size, "int64"), dtype)

    def result(row: Scalar, k: Scalar) -> Complex:
        re, im = _times(read(sums, row, k), read(chirp, k))
        return re / divisor, im / divisor

    return _rows(b, rows, results, dtype, result)


def _power_of_two(b: Builder, length: Extent) -> Extent:
    """The least one that a convolution of ``length`` points needs: not below ``2 length - 1``."""
    bits = convert(scalar_of(b.extents.mul(2, b.extents.sub(b.extents.maximum(length, 1), 1))), "int64")
    distance = 1
    while distance < _BITS:
        bits = bits | shift_right(bits, distance)
        distance *= 2
    return b.extents.declare(convert(bits + 1, "index").value)


def _rows(b: Builder, rows: Extent, count: Extent, dtype: str, at: Callable[[Scalar, Scalar], Complex]) -> Tensor:
    """The tensor [rows, count, 2] of complex numbers."""

    def body(place: list[Scalar]) -> Scalar:
        row, number, part = place
        re, im = at(row, number)
        return select(part == 0, re, im)

    return b.indexed(dtype, [rows, count, 2], body)


def _table(b: Builder, count: Extent, dtype: str, at: Callable[[Scalar], Complex]) -> Tensor:
    """The tensor [count, 2] of complex numbers that are computed in float64."""

    def body(place: list[Scalar]) -> Scalar:
        number, part = place
        re, im = at(number)
        return convert(select(part == 0, re, im), dtype)

    return b.indexed(dtype, [count, 2], body)


def _turn(numerator: Scalar, denominator: Scalar, sign: float) -> Complex:
    """``exp(sign pi i numerator / denominator)``"""
    over, under = (convert(convert(x, "int64"), "float64") for x in (numerator, denominator))
    angle = over * (sign * np.pi) / under
    return scalars.cos(angle), scalars.sin(angle)


def _forward(b: Builder, x: ir.Value, rows: Extent, whole: Extent, turns: ir.Value, dtype: str) -> ir.Value:
    """Transforms of rows, whose frequencies come in bit-reversed order."""
    size = scalar_of(whole)

    def butterfly(first: Complex, second: Complex, turn: Complex) -> tuple[Complex, Complex]:
        difference = first[0] - second[0], first[1] - second[1]
        return (first[0] + second[0], first[1] + second[1]), _times(difference, turn)

    def halved(number: Scalar) -> Scalar:
        return shift_right(size, number + 1)

    return _passes(b, x, rows, size, turns, dtype, halved, butterfly)


def _backward(b: Builder, x: ir.Value, rows: Extent, whole: Extent, turns: ir.Value, dtype: str) -> ir.Value:
    """Inverse transforms of rows whose frequencies are in bit-reversed order, times the number of points."""
    size = scalar_of(whole)

    def butterfly(first: Complex, second: Complex, turn: Complex) -> tuple[Complex, Complex]:
        re, im = _times(second, (turn[0], -turn[1]))
        return (first[0] + re, first[1] + im), (first[0] - re, first[1] - im)

    def doubled(number: Scalar) -> Scalar:
        half = shift_left(constant(1, "index"), number)
        return select(half < size, half, 0)

    return _passes(b, x, rows, size, turns, dtype, doubled, butterfly)


def _passes(
    b: Builder,
    x: ir.Value,
    rows: Extent,
    size: Scalar,
    turns: ir.Value,
    dtype: str,
    distance: Callable[[Scalar], Scalar],
    butterfly: Callable[[Complex, Complex, Complex], tuple[Complex, Complex]],
) -> ir.Value:
    """Butterflies of numbers that are ``distance(pass)`` apart (0: none), in place."""
    zero = constant(0, "index")

    def one_pass(row: Scalar, number: Scalar, x: ir.Value) -> list[ir.Value]:
        apart = distance(number)
        step = scalars.truncdiv(shift_right(size, 1), scalars.maximum(apart, 1))

        def one(i: Scalar, x: ir.Value) -> ir.Value:
            inner = i & (apart - 1)  # a power of two
            place = i * 2 - inner
            ends = place, place + apart
            first, second = (
                (b.element(x, dtype, [row, at, zero]), b.element(x, dtype, [row, at, zero + 1])) for at in ends
            )
            turn = b.element(turns, dtype, [inner * step, zero]), b.element(turns, dtype, [inner * step, zero + 1])
            for at, value in zip(ends, butterfly(first, second, turn), strict=True):
                for part in range(2):
                    x = store(value[part], dtype, x, [row, at, zero + part])
            return x

        count = select(apart > 0, shift_right(size, 1), 0)
        return for_range(0, count, [x], one)

    return for_range(
        0, rows, [x], lambda row, x: for_range(0, _PASSES, [x], lambda number, x: one_pass(row, number, x))
    )[0]


def _times(a: Complex, c: Complex) -> Complex:
    return a[0] * c[0] - a[1] * c[1], a[0] * c[1] + a[1] * c[0]


def _where(condition: Scalar, value: Complex) -> Complex:
    return select(condition, value[0], 0), select(condition, value[1], 0)
