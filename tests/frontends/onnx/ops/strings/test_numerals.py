"""Numbers as text and text as numbers: Cast from and to strings."""

from __future__ import annotations

import random
import struct
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

import rillet
from tests.support.string_models import INT, STRING, single, texts

# --- numbers as text ---


def as_text(code: int) -> Any:
    return single("Cast", {"x": (code, ["n"])}, to=STRING)


@pytest.mark.parametrize(
    ("code", "dtype"), [(INT, np.int64), (TensorProto.INT8, np.int8), (TensorProto.UINT64, np.uint64)]
)
def test_integers_as_text(code: int, dtype: Any) -> None:
    info = np.iinfo(dtype)
    values = np.array([0, 9, 10, 99, 100, info.max, info.min, info.min + 1], dtype)
    assert as_text(code)(values).tolist() == [str(int(v)) for v in values]


def test_bools_as_text() -> None:
    assert as_text(TensorProto.BOOL)([True, False]).tolist() == ["True", "False"]


def test_doubles_as_text_are_what_python_prints() -> None:
    generator = np.random.default_rng(0)
    values = np.concatenate(
        [
            np.array([0, -0.0, 25, 0.1, 1e-4, 9.9e-5, 1e15, 1e16, 1e23, 5e-324, 1.7976931348623157e308, 1 / 3]),
            np.array([np.nan, -np.nan, np.inf, -np.inf]),
            generator.integers(0, 1 << 63, 500, dtype=np.uint64).view(np.float64),
            -np.exp2(generator.integers(-1074, 1023, 100).astype(np.float64)),
        ]
    )
    assert as_text(TensorProto.DOUBLE)(values).tolist() == [repr(float(v)) for v in values]


@pytest.mark.parametrize(("code", "dtype"), [(TensorProto.FLOAT, np.float32), (TensorProto.FLOAT16, np.float16)])
def test_narrow_floats_as_text_are_the_shortest(code: int, dtype: Any) -> None:
    bits = np.dtype(dtype).itemsize * 8
    patterns = np.random.default_rng(0).integers(0, 1 << bits, 500).astype(f"uint{bits}")
    values = patterns.view(dtype)
    for text, value in zip(as_text(code)(values), values, strict=True):
        if not np.isfinite(value):
            assert text == repr(float(value))
            continue
        assert dtype(text) == value
        shortest = np.format_float_scientific(value, unique=True, trim="-")
        digits = [t.partition("e")[0].replace(".", "").strip("-0") for t in (text, shortest)]
        assert digits[0] == digits[1]


def test_narrow_floats_that_have_no_text() -> None:
    with pytest.raises(rillet.UnsupportedError, match="cast from bfloat16 to string; cast to float32 first"):
        as_text(TensorProto.BFLOAT16)


# --- text as numbers ---


def as_number(code: int) -> Any:
    return single("Cast", {"x": (STRING, ["n"])}, to=code)


HARD = [
    "0",
    "-0",
    " 1. ",
    "-.5",
    "+3.25E2",
    "inf",
    "-Infinity",
    "NaN",
    "1e400",
    "-1e-400",
    "2.4703282292062327e-324",  # just below half of the smallest double
    "2.4703282292062328e-324",
    "2.2250738585072011e-308",
    "1.7976931348623158e308",
    "1.7976931348623159e308",
    "9007199254740993",  # between two doubles
    "9007199254740993.0000000000000000000000000001",
    "0e99999999",
    "0." + "0" * 400 + "1e401",
    "1" + "0" * 350 + "e-350",
    "1" * 900,
    "123456789" * 30 + "e-200",
]


def test_text_as_doubles_is_rounded_to_nearest() -> None:
    generator = random.Random(1)
    values = [struct.unpack("<d", struct.pack("<Q", generator.getrandbits(64)))[0] for _ in range(200)]
    digits = ["".join(generator.choice("0123456789") for _ in range(generator.randrange(1, 60))) for _ in range(200)]
    strings = [*HARD, *map(repr, values), *(f"{d}e{generator.randrange(-370, 320)}" for d in digits)]
    for pattern in (generator.getrandbits(62) for _ in range(100)):  # halfway between two doubles
        low, high = (struct.unpack("<d", struct.pack("<Q", p))[0] for p in (pattern, pattern + 1))
        middle = (Fraction(low) + Fraction(high)) / 2
        places = middle.denominator.bit_length() - 1
        strings.append(f"{middle.numerator * 5**places}e-{places}")
    got = as_number(TensorProto.DOUBLE)(np.array(strings, dtype=object))
    np.testing.assert_array_equal(got, np.array([float(s) for s in strings]))
    assert np.signbit(got[1])


def test_narrow_floats_are_rounded_once() -> None:
    strings = texts("16777217", "16777217.0000000001", "3.4028235677973366e38", "3.4028235677973367e38", "8e-46")
    got = as_number(TensorProto.FLOAT)(strings)
    largest = np.finfo(np.float32).max
    assert got.tolist() == [16777216, 16777218, largest, np.inf, np.float32(1e-45)]
    half = as_number(TensorProto.FLOAT16)(texts("65519.99", "65520", "1e-7", "2.98e-8", "2049"))
    assert half.tolist() == [65504, np.inf, np.float16(1e-7), 0, 2048]


@pytest.mark.parametrize(("code", "dtype"), [(INT, np.int64), (TensorProto.UINT8, np.uint8)])
def test_text_as_integers(code: int, dtype: Any) -> None:
    info = np.iinfo(dtype)
    module = as_number(code)
    values = [info.min, info.max, 0, 7]
    assert module(texts(*(f" {v}\n" for v in values), "-0", "+3")).tolist() == [*values, 0, 3]
    for text in (str(info.max + 1), str(info.min - 1), "9" * 30):
        with pytest.raises(
            rillet.RunError, match=f"node 'node': a string is a number out of the range of {info.dtype}"
        ):
            module([text])
    for text in ("1.5", "", "x", "1 2"):
        with pytest.raises(rillet.RunError, match=f"node 'node': a string is no {info.dtype}"):
            module([text])


def test_text_that_is_no_float() -> None:
    module = as_number(TensorProto.FLOAT)
    for text in ("1,5", "e5", ".", "0x10", "1_0", "na"):
        with pytest.raises(rillet.RunError, match="node 'node': a string is no float32"):
            module([text])


def test_types_that_text_cannot_become() -> None:
    with pytest.raises(rillet.UnsupportedError, match="cast from string to bool"):
        as_number(TensorProto.BOOL)


def test_cast_like() -> None:
    module = single("CastLike", {"x": (TensorProto.FLOAT, ["n"]), "like": (STRING, [])})
    assert module(np.array([1.5, 2], np.float32), "").tolist() == ["1.5", "2.0"]
