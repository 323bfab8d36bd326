"""Scalars for device loops over strings: where an element's bytes are, characters, comparison, copying."""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rillet.frontends.building.builder import Builder
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.loops import for_range, store
from rillet.frontends.building.scalars import Scalar, constant, minimum, select, shift_left
from rillet.frontends.onnx.strings.tensor import StringTensor


@dataclass(frozen=True)
class Range:
    """The bytes of one string: positions ``first`` to ``last`` (excluded), index scalars."""

    first: Scalar
    last: Scalar

    @property
    def length(self) -> Scalar:
        """The number of bytes, an index scalar."""
        return self.last - self.first


class Reader:
    """Reads the elements of a tensor of strings by their row-major position, inside device loops."""

    def __init__(self, b: Builder, x: StringTensor):
        """Make one outside of the loop."""
        self._b = b
        self._ids = b.value(b.reshape(x.ids, [b.extents.product(x.shape)]))
        self._spans, self._data = b.value(x.spans), b.value(x.data)

    def range(self, position: Scalar) -> Range:
        """Where element ``position`` lies."""
        entry = convert(self._b.element(self._ids, "int64", [position]), "index")
        first, last = (convert(self._b.element(self._spans, "int64", [entry, side]), "index") for side in (0, 1))
        return Range(first, last)

    def byte(self, at: Scalar) -> Scalar:
        """The byte at ``at`` as int32."""
        return convert(self._b.element(self._data, "uint8", [at]), "int32")

    def copy(self, source: Range, target: ir.Value, at: Scalar) -> ir.Value:
        """``target`` (uint8) with the bytes of ``source`` from ``at`` on."""

        def one(offset: Scalar, target: ir.Value) -> ir.Value:
            byte = self._b.element(self._data, "uint8", [source.first + offset])
            return store(byte, "uint8", target, [at + offset])

        return for_range(0, source.length, [target], one)[0]

    def character(self, at: Scalar, last: Scalar) -> tuple[Scalar, Scalar]:
        """The code point (int32) that begins at ``at`` and the number of its bytes; a cut-off one has the bytes that
        are there.
        """
        lead = self.byte(at)
        size = select(
            lead < 0x80,
            constant(1, "index"),
            select(lead < 0xE0, constant(2, "index"), select(lead < 0xF0, constant(3, "index"), 4)),
        )
        size = minimum(size, last - at)
        bits = select(lead < 0xE0, lead & 0x1F, select(lead < 0xF0, lead & 0x0F, lead & 0x07))
        for step in (1, 2, 3):
            inside = size > step
            follow = self.byte(select(inside, at + step, at)) & 0x3F
            bits = select(inside, shift_left(bits, 6) | follow, bits)
        return select(lead < 0x80, lead, bits), size


def compare(a: Reader, x: Range, b: Reader, y: Range) -> Scalar:
    """-1, 0 or 1 (int32): the order of two strings by their bytes, which is that of their code points."""
    shorter = minimum(x.length, y.length)

    def one(offset: Scalar, found: ir.Value) -> ir.Value:
        known = Scalar(found, "int32")
        return select(known != 0, known, a.byte(x.first + offset) - b.byte(y.first + offset)).value

    difference = Scalar(for_range(0, shorter, [constant(0, "int32").value], one)[0], "int32")
    longer = convert(x.length > y.length, "int32") - convert(x.length < y.length, "int32")
    sign = convert(difference > 0, "int32") - convert(difference < 0, "int32")
    return select(difference != 0, sign, longer)


def same(a: Reader, x: Range, b: Reader, y: Range) -> Scalar:
    """Whether two strings are equal; bytes are compared only when the lengths are equal."""
    alike = x.length == y.length

    def one(offset: Scalar, going: ir.Value) -> ir.Value:
        return (Scalar(going, "bool") & (a.byte(x.first + offset) == b.byte(y.first + offset))).value

    count = select(alike, x.length, 0)
    return Scalar(for_range(0, count, [alike.value], one)[0], "bool")
