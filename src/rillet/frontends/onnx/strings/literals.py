"""Text as numbers: ``[+-]123`` and ``[+-]1.5e-3``, and ``inf``, ``infinity`` and ``nan`` in upper or lower case.

Whitespace around a number does not matter. A run-time assertion refuses everything else, and integers out of range.
"""

from __future__ import annotations

from torch_mlir import ir

from rillet.frontends.building import element_types
from rillet.frontends.building.builder import Builder
from rillet.frontends.building.checks import require
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.loops import for_range, store
from rillet.frontends.building.scalars import Scalar, constant, select
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import UnsupportedFeature
from rillet.frontends.onnx.strings.exact import Exact
from rillet.frontends.onnx.strings.formats import FORMATS
from rillet.frontends.onnx.strings.matching import full_match
from rillet.frontends.onnx.strings.ranges import Reader
from rillet.frontends.onnx.strings.regex.automaton import build
from rillet.frontends.onnx.strings.regex.parser import parse
from rillet.frontends.onnx.strings.tensor import StringTensor
from rillet.ir import locations

_INTEGER = r"[[:space:]]*[+-]?[0-9]+[[:space:]]*"
_FLOAT = r"[[:space:]]*[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:inf|infinity|nan))[[:space:]]*"


def to_number(b: Builder, x: StringTensor, dtype: str) -> Tensor:
    """The strings as numbers, floats rounded to nearest even. Raises UnsupportedFeature for other types."""
    is_integer = element_types.is_integer(dtype) and element_types.bits(dtype) >= 8
    if not is_integer and dtype not in FORMATS:
        raise UnsupportedFeature(f"cast from string to {dtype}", "cast to a float or an integer type first")
    where = locations.label(ir.Location.current)
    require(b, full_match(b, x, build(parse(_INTEGER if is_integer else _FLOAT))), f"{where}: a string is no {dtype}")
    if not is_integer:
        return _floats(b, x, dtype)
    values, fits = _integers(b, x, dtype)
    require(b, fits, f"{where}: a string is a number out of the range of {dtype}")
    return values


def _integers(b: Builder, x: StringTensor, dtype: str) -> tuple[Tensor, Tensor]:
    """The integers, and whether they are in range."""
    count = b.extents.product(x.shape)
    source = Reader(b, x)
    bits = element_types.bits(dtype)
    highest = (1 << (bits - 1)) - 1 if element_types.is_signed(dtype) else (1 << bits) - 1
    lowest = highest + 1 if element_types.is_signed(dtype) else 0  # without its sign
    last = (1 << 64) - 1

    def one(position: Scalar, values: ir.Value, flags: ir.Value) -> list[ir.Value]:
        text = source.range(position)

        def step(at: Scalar, number: ir.Value, negative: ir.Value, fits: ir.Value) -> list[ir.Value]:
            byte = source.byte(at)
            old = Scalar(number, "uint64")
            is_digit = (byte >= ord("0")) & (byte <= ord("9"))
            digit = convert(byte - ord("0"), "uint64")
            holds = (old < last // 10) | ((old == last // 10) & (digit <= last % 10))
            return [
                select(is_digit, old * 10 + digit, old).value,
                (Scalar(negative, "bool") | (byte == ord("-"))).value,
                (Scalar(fits, "bool") & (~is_digit | holds)).value,
            ]

        start = [constant(0, "uint64").value, constant(False, "bool").value, constant(True, "bool").value]
        result = for_range(text.first, text.last, start, step)
        number, negative, holds = (Scalar(v, d) for v, d in zip(result, ("uint64", "bool", "bool"), strict=True))
        fits = holds & select(negative, number <= lowest, number <= highest)
        value = convert(select(negative, constant(0, "uint64") - number, number), dtype)
        return [store(value, dtype, values, [position]), store(fits, "bool", flags, [position])]

    values, flags = for_range(0, count, [b.empty(dtype, [count]), b.empty("bool", [count])], one)
    return b.reshape(b.tensor(values, dtype, [count]), x.shape), b.tensor(flags, "bool", [count])


def _floats(b: Builder, x: StringTensor, dtype: str) -> Tensor:
    count = b.extents.product(x.shape)
    exact = Exact(b, Reader(b, x), FORMATS[dtype])

    def one(position: Scalar, values: ir.Value, limbs: ir.Value) -> list[ir.Value]:
        bits, limbs = exact.parse(position, limbs)
        return [store(Scalar(exact.as_float(bits), dtype), dtype, values, [position]), limbs]

    values, _ = for_range(0, count, [b.empty(dtype, [count]), exact.scratch()], one)
    return b.reshape(b.tensor(values, dtype, [count]), x.shape)
