"""Numbers as text.

Floats are the shortest decimal that reads back as the same value, written out from 1e-4 on and below 1e16, with an
exponent elsewhere: 0.1, 1e-05, 25.0, 1e+16, nan, -inf. Bools are True and False. Python prints them the same way.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.frontends.building import element_types
from rillet.frontends.building.builder import Builder
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.loops import for_range, store
from rillet.frontends.building.scalars import Scalar, constant, maximum, minimum, select, shift_right
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import UnsupportedFeature
from rillet.frontends.onnx.strings.build import build
from rillet.frontends.onnx.strings.formats import FORMATS, Format
from rillet.frontends.onnx.strings.shortest import Shortest
from rillet.frontends.onnx.strings.tensor import StringTensor, from_array
from rillet.ir.builders import Extent, extract

_MAX_DIGITS = 20
_PLAIN = range(-4, 16)  # exponents of the first digit of floats that are written out


def to_text(b: Builder, x: Tensor) -> StringTensor:
    """The elements as text. Raises UnsupportedFeature for narrow floats and complex numbers."""
    if x.dtype == "bool":
        words = from_array(b, np.array(["False", "True"], dtype=object), "bools")
        table = b.value(words.ids)
        return words.with_ids(b.map(lambda v: b.element(table, "int64", [convert(v, "index")]), x, dtype="int64"))
    if element_types.is_integer(x.dtype):
        return _written(b, x.shape, _Integers(b, x))
    if x.dtype not in ("float16", "float32", "float64"):
        raise UnsupportedFeature(f"cast from {x.dtype} to string", "cast to float32 first")
    return _written(b, x.shape, _Floats(b, x))


def _written(b: Builder, shape: tuple[Extent, ...], numerals: _Integers | _Floats) -> StringTensor:
    def write(position: Scalar, at: Scalar, data: ir.Value) -> ir.Value:
        length, character = numerals.text(position)

        def one(offset: Scalar, data: ir.Value) -> ir.Value:
            return store(character(offset), "uint8", data, [at + offset])

        return for_range(0, length, [data], one)[0]

    return build(b, shape, lambda position: numerals.text(position)[0], write)


def _character(text: str) -> Scalar:
    return constant(ord(text), "int32")


class _Digits:
    """The decimal digits of a uint64."""

    def __init__(self, b: Builder):
        """Make one outside of loops."""
        self._b = b
        powers = np.array([10**i for i in range(_MAX_DIGITS)], np.uint64)
        self._powers = b.value(b.constant(powers, name="powers_of_ten"))

    def count(self, number: Scalar) -> Scalar:
        """The number of digits, as an index; 1 for 0."""
        result = constant(1, "index")
        for i in range(1, _MAX_DIGITS):
            result = result + convert(number >= 10**i, "index")
        return result

    def at(self, number: Scalar, place: Scalar) -> Scalar:
        """The character of the digit with the value 10^place; ``place`` (index) is clamped to what a uint64 has."""
        power = self._b.element(self._powers, "uint64", [minimum(maximum(place, 0), _MAX_DIGITS - 1)])
        return convert((number // power) % 10, "int32") + ord("0")


class _Integers:
    def __init__(self, b: Builder, x: Tensor):
        self._b, self._dtype = b, x.dtype
        self._source = b.value(b.reshape(x, [b.extents.product(x.shape)]))
        self._digits = _Digits(b)

    def text(self, position: Scalar) -> tuple[Scalar, Callable[[Scalar], Scalar]]:
        """The length of a numeral and its character at an offset."""
        value = self._b.element(self._source, self._dtype, [position])
        if element_types.is_signed(self._dtype):
            wide = convert(value, "int64")
            negative, number = wide < 0, convert(select(wide < 0, -wide, wide), "uint64")
        else:
            negative, number = constant(False, "bool"), convert(value, "uint64")
        sign = convert(negative, "index")
        length = sign + self._digits.count(number)

        def character(offset: Scalar) -> Scalar:
            return select(offset < sign, _character("-"), self._digits.at(number, length - offset - 1))

        return length, character


class _Floats:
    def __init__(self, b: Builder, x: Tensor):
        self._b, self._format = b, FORMATS[x.dtype]
        self._digits = _Digits(b)
        bits, self._decimals, self._exponents = _decimals(b, x, self._format)
        self._bits = bits
        self._specials = b.value(b.constant(np.frombuffer(b"infnan", np.uint8), name="specials"))

    def text(self, position: Scalar) -> tuple[Scalar, Callable[[Scalar], Scalar]]:
        """The length of a numeral and its character at an offset."""
        b, form = self._b, self._format
        bits = b.element(self._bits, "uint64", [position])
        number = b.element(self._decimals, "uint64", [position])
        exponent = convert(b.element(self._exponents, "int32", [position]), "index")
        size = bits & ((1 << (form.bits - 1)) - 1)
        infinity = form.exponents << form.fraction
        is_nan, special = size > infinity, size >= infinity
        sign = convert((shift_right(bits, form.bits - 1) != 0) & ~is_nan, "index")
        length, finite = self._finite(number, exponent)

        def character(offset: Scalar) -> Scalar:
            place = offset - sign
            letter = minimum(maximum(place, 0), 2) + select(is_nan, constant(3, "index"), 0)
            word = convert(b.element(self._specials, "uint8", [letter]), "int32")
            return select(place < 0, _character("-"), select(special, word, finite(place)))

        return sign + select(special, constant(3, "index"), length), character

    def _finite(self, number: Scalar, exponent: Scalar) -> tuple[Scalar, Callable[[Scalar], Scalar]]:
        """The text of ``number * 10^exponent`` without a sign."""
        zero, one = constant(0, "index"), constant(1, "index")
        count = self._digits.count(number)
        first = exponent + count - 1  # the first digit has the value 10^first
        plain = (first >= _PLAIN.start) & (first < _PLAIN.stop)
        # With an exponent the digits are written as if the first one were the units.
        top = select(plain, maximum(first, 0), zero)
        last = select(plain, exponent, one - count)
        body = select(plain, top + 2 + maximum(-last, 1), select(count > 1, count + 1, count))
        size = select(first < 0, -first, first)
        tail = select(plain, zero, select(size >= 100, constant(5, "index"), 4))

        def character(place: Scalar) -> Scalar:
            power = select(place <= top, top - place, top - place + 1)
            index = power - last  # from the last digit
            inside = (index >= 0) & (index < count)
            digit = select(inside, self._digits.at(number, index), _character("0"))
            mantissa = select(place == top + 1, _character("."), digit)
            behind = place - body
            numeral = self._digits.at(convert(size, "uint64"), tail - behind - 1)
            mark = select(behind == 0, _character("e"), select(first < 0, _character("-"), _character("+")))
            return select(behind < 0, mantissa, select(behind < 2, mark, numeral))

        return body + tail, character


def _decimals(b: Builder, x: Tensor, form: Format) -> tuple[ir.Value, ir.Value, ir.Value]:
    """For each element its bits and, where it is finite, its shortest decimal: digits and exponent of ten."""
    count = b.extents.product(x.shape)
    source = b.value(b.reshape(x, [count]))
    integer = ir.IntegerType.get_signless(form.bits)
    shortest = Shortest(b, form)
    infinity = form.exponents << form.fraction

    def one(position: Scalar, bits: ir.Value, digits: ir.Value, exponents: ir.Value) -> list[ir.Value]:
        raw = arith.bitcast(integer, extract(source, [position.value]))
        pattern = convert(Scalar(raw, f"uint{form.bits}"), "uint64")
        size = pattern & ((1 << (form.bits - 1)) - 1)
        number, exponent = shortest.of(select(size < infinity, size, 0))
        return [
            store(pattern, "uint64", bits, [position]),
            store(number, "uint64", digits, [position]),
            store(exponent, "int32", exponents, [position]),
        ]

    start = [b.empty("uint64", [count]), b.empty("uint64", [count]), b.empty("int32", [count])]
    bits, digits, exponents = for_range(0, count, start, one)
    return bits, digits, exponents
