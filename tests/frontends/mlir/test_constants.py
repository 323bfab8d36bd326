"""Constants of every type, short and long, splats, resources and globals."""

import ml_dtypes
import numpy as np
import pytest

import rillet
from rillet.errors import CompileError

_DTYPES = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f4E2M1FN": ml_dtypes.float4_e2m1fn,
    "i64": np.int64,
    "i16": np.int16,
    "i8": np.int8,
    "i4": ml_dtypes.int4,
    "i2": ml_dtypes.int2,
    "complex<f32>": np.complex64,
    "complex<f64>": np.complex128,
}


def _function(value: str, type_: str, rest: str = "") -> str:
    return f"func.func @main() -> {type_} {{\n %0 = arith.constant {value} : {type_}\n return %0 : {type_}\n}}\n{rest}"


def _literal(values: np.ndarray) -> str:
    if values.dtype.kind == "c":
        return "[" + ", ".join(f"({v.real!r}, {v.imag!r})" for v in values.tolist()) + "]"
    return str([float(v) if "float" in values.dtype.name else int(v) for v in values])


def _returned(text: str) -> np.ndarray:
    return np.asarray(rillet.compile(text, threads=1)())


@pytest.mark.parametrize("count", [3, 300], ids=["written-out", "hexadecimal"])
@pytest.mark.parametrize("element", _DTYPES)
def test_elements_of_every_type_are_read(element, count):
    values = (np.arange(count) % 4 - 2).astype(_DTYPES[element])
    if values.dtype.kind == "c":
        values = values + np.array(0.5j, values.dtype)
    # 300 elements are printed as the bytes they consist of.
    np.testing.assert_array_equal(
        _returned(_function(f"dense<{_literal(values)}>", f"tensor<{count}x{element}>")), values
    )


@pytest.mark.parametrize("element", _DTYPES)
def test_splats_of_every_type_are_read(element):
    dtype = np.dtype(_DTYPES[element])
    scalar = "(-1.0, 0.5)" if dtype.kind == "c" else "-1.0" if "float" in dtype.name else "-1"
    expected = np.full((2, 3), -1 + 0.5j if dtype.kind == "c" else -1).astype(dtype)
    np.testing.assert_array_equal(_returned(_function(f"dense<{scalar}>", f"tensor<2x3x{element}>")), expected)


def test_what_is_infinite_or_no_number_is_read_by_its_bits():
    found = _returned(_function("dense<[0x7F80, 0xFF80, 0x7FC0]>", "tensor<3xbf16>"))
    np.testing.assert_array_equal(found.astype(np.float32), np.array([np.inf, -np.inf, np.nan], np.float32))


def _resource(type_: str, data: str) -> str:
    return _function("dense_resource<w>", type_, f'{{-# dialect_resources: {{ builtin: {{ w: "0x{data}" }} }} #-}}')


@pytest.mark.parametrize(
    ("type_", "data", "expected"),
    [
        ("tensor<2xf32>", "040000000000803F00000040", np.array([1, 2], np.float32)),
        ("tensor<2xbf16>", "02000000803F0040", np.array([1, 2], ml_dtypes.bfloat16)),
        ("tensor<3xi4>", "01000000010EFF", np.array([1, -2, -1], ml_dtypes.int4)),
        ("tensor<1xcomplex<f32>>", "040000000000803F00000040", np.array([1 + 2j], np.complex64)),
    ],
)
def test_resources_are_read(type_, data, expected):
    np.testing.assert_array_equal(_returned(_resource(type_, data)), expected)


def test_globals_with_a_value_are_constants_and_unused_ones_go():
    text = """
ml_program.global private mutable @seed(dense<0> : tensor<i64>) : tensor<i64>
ml_program.global private @w(dense<[1.0, 2.0]> : tensor<2xf32>) : tensor<2xf32>
func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %w = ml_program.global_load_const @w : tensor<2xf32>
  %0 = arith.addf %a, %w : tensor<2xf32>
  %1 = stablehlo.add %a, %w : tensor<2xf32>
  return %1 : tensor<2xf32>
}"""
    found = rillet.compile(text, threads=1)(np.array([3, 4], np.float32))
    np.testing.assert_array_equal(found, np.array([4, 6], np.float32))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_function("dense_resource<w>", "tensor<2xf32>"), "dense_resource<w> has no data in the MLIR text"),
        (_resource("tensor<4xf32>", "040000000000803F00000040"), "that takes 16 bytes, it has 8"),
        (_resource("tensor<2xf32>", "0400000000"), "that takes 8 bytes, it has 1"),
        (
            "ml_program.global private @w(#ml_program.extern<tensor<2xf32>>) : tensor<2xf32>\n"
            "func.func @main() -> tensor<2xf32> {\n %w = ml_program.global_load_const @w : tensor<2xf32>\n"
            " return %w : tensor<2xf32>\n}",
            "external constant @w has no array",
        ),
        (
            _function("sparse<[[0]], [1.0]>", "tensor<4xf32>"),
            "a constant of type tensor<4xf32> has a value that is not dense",
        ),
    ],
)
def test_constants_without_all_their_elements_are_refused(text, message):
    with pytest.raises(CompileError, match=message):
        rillet.compile(text)
