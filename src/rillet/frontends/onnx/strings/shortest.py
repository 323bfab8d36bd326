"""The shortest decimal that reads back as a float, the nearest one of that length: the Schubfach method.

R. Giulietti, "The Schubfach way to render doubles", 2020. ``c * 2^q`` and the bounds of the interval that rounds to it
are multiplied by a power of ten from a table of 128 bits each; the products, rounded to odd, decide.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.frontends.building.builder import Builder
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.scalars import Scalar, constant, select, shift_left, shift_right
from rillet.frontends.onnx.strings.formats import Format

_MASK = (1 << 64) - 1


def _log10_of_pow2(q: int) -> int:
    return (q * 1262611) >> 22


def _log10_of_three_quarters(q: int) -> int:
    """floor(log10(3/4 * 2^q))"""
    return (q * 1262611 - 524031) >> 22


def _log2_of_pow10(e: int) -> int:
    return (e * 1741647) >> 19


def _power(e: int) -> int:
    """10^e scaled to 128 bits and rounded up."""
    shift = 127 - _log2_of_pow10(e)
    if e < 0:
        return (1 << shift) // 10**-e + 1
    return (10**e << shift if shift >= 0 else 10**e >> -shift) + 1


@dataclass(frozen=True)
class _Values:
    """Tables of the values that depend on ``q`` alone, by ``q - format.least`` and whether the interval is narrower
    below.
    """

    exponent: np.ndarray  # int32: of ten
    shift: np.ndarray  # int32
    high: np.ndarray  # uint64: of the power of ten
    low: np.ndarray


def _values(form: Format) -> _Values:
    rows = []
    for q in range(form.least, form.largest + 1):
        for k in (_log10_of_pow2(q), _log10_of_three_quarters(q)):
            power = _power(-k)
            rows.append((k, q + _log2_of_pow10(-k) + 1, power >> 64, power & _MASK))
    columns = list(zip(*rows, strict=True))
    return _Values(*(np.array(c, t) for c, t in zip(columns, (np.int32, np.int32, np.uint64, np.uint64), strict=True)))


def _multiply(a: Scalar, b: Scalar) -> tuple[Scalar, Scalar]:
    """The high and the low half of a product of uint64."""
    product = arith.mului_extended(a.value, b.value)
    return Scalar(product[1], "uint64"), Scalar(product[0], "uint64")


def _round_to_odd(high: Scalar, low: Scalar, factor: Scalar) -> Scalar:
    """The top 64 bits of ``(high, low) * factor``; the last one is set where the rest is not 0."""
    carried, _ = _multiply(low, factor)
    top, middle = _multiply(high, factor)
    total = middle + carried
    top = top + convert(total < carried, "uint64")
    return top | convert(total > 1, "uint64")


class Shortest:
    """Shortest decimals of one format; made outside of the loops that use it."""

    def __init__(self, b: Builder, form: Format):
        self._b, self._form = b, form
        tables = _values(form)
        self._exponent, self._shift, self._high, self._low = (
            b.value(b.constant(array, name="powers_of_ten"))
            for array in (tables.exponent, tables.shift, tables.high, tables.low)
        )

    def of(self, bits: Scalar) -> tuple[Scalar, Scalar]:
        """``d`` (uint64, without zeros at its end) and ``e`` (int32) with the value ``d * 10^e``.

        ``bits`` (uint64) are those of a finite value without its sign; 0 gives 0 and 0.
        """
        form = self._form
        fraction = bits & ((1 << form.fraction) - 1)
        field = shift_right(bits, form.fraction)
        normal = field != 0
        c = select(normal, fraction | (1 << form.fraction), fraction)
        row = convert(select(normal, field - 1, field), "index")
        # At a power of two the interval reaches half as far down as up, but not below the smallest one.
        narrow = (fraction == 0) & (field > 1)
        digits, exponent = self._decide(c, narrow, row * 2 + convert(narrow, "index"))
        zero = bits == 0
        return select(zero, constant(0, "uint64"), digits), select(zero, constant(0, "int32"), exponent)

    def _read(self, table: ir.Value, dtype: str, row: Scalar) -> Scalar:
        return self._b.element(table, dtype, [row])

    def _decide(self, c: Scalar, narrow: Scalar, row: Scalar) -> tuple[Scalar, Scalar]:
        shift = convert(self._read(self._shift, "int32", row), "uint64")
        high, low = (self._read(t, "uint64", row) for t in (self._high, self._low))
        four = c * 4
        below = four - 2 + convert(narrow, "uint64")
        scaled = [_round_to_odd(high, low, shift_left(v, shift)) for v in (below, four, four + 2)]
        odd = c & 1
        lower, upper = scaled[0] + odd, scaled[2] - odd
        s = shift_right(scaled[1], 2)
        tenth = s // 10
        # One digit less: at most one of the two neighbours is inside.
        short_down, short_up = lower <= tenth * 40, tenth * 40 + 40 <= upper
        is_short = (s >= 10) & (short_down ^ short_up)
        down, up = lower <= s * 4, s * 4 + 4 <= upper
        middle = s * 4 + 2
        nearer_up = (scaled[1] > middle) | ((scaled[1] == middle) & ((s & 1) == 1))
        rounded = s + convert(select(down ^ up, up, nearer_up), "uint64")
        digits = select(is_short, tenth + convert(short_up, "uint64"), rounded)
        exponent = self._read(self._exponent, "int32", row) + convert(is_short, "int32")
        return _without_zeros(digits, exponent)


def _without_zeros(digits: Scalar, exponent: Scalar) -> tuple[Scalar, Scalar]:
    """Up to 17 digits without the zeros at their end."""
    for count in (8, 8, 4, 2, 1):
        quotient = digits // 10**count
        ends = quotient * 10**count == digits
        digits = select(ends, quotient, digits)
        exponent = select(ends, exponent + count, exponent)
    return digits, exponent
