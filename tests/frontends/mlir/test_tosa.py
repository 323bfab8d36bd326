"""TOSA, above all quantized: integers bit for bit."""

import ml_dtypes
import numpy as np
import pytest

import rillet
from rillet.errors import UnsupportedError

RNG = np.random.default_rng(0)


def _const(name: str, values: list[int] | int, element: str) -> str:
    count = len(values) if isinstance(values, list) else 1
    type_ = f"tensor<{count}x{element}>"
    return f' %{name} = "tosa.const"() <{{values = dense<{values}> : {type_}}}> : () -> {type_}\n'


def _compiled(arguments: list[str], result: str, body: str) -> rillet.Module:
    signature = ", ".join(f"%a{n}: {type_}" for n, type_ in enumerate(arguments))
    return rillet.compile(
        f"func.func @main({signature}) -> {result} {{\n{body}\n return %r : {result}\n}}\n", threads=1, jobs=1
    )


def _rescaled(value: int, multiplier: int, shift: int, rounding: str) -> int:
    """TOSA's apply_scale_32."""
    half = 1 << (shift - 1)
    if rounding == "DOUBLE_ROUND" and shift > 31:
        half += (1 << 30) if value >= 0 else -(1 << 30)
    return (value * multiplier + half) >> shift


def _rescale(source: str, result: str, rounding: str, channels: int, zero: tuple[int, int], unsigned: str = "") -> str:
    shifts = [34 + n for n in range(channels)]
    multipliers = [(1 << 30) + 12345 * n + 1 for n in range(channels)]
    given = {
        "in": "input_unsigned = true, output_unsigned = false",
        "out": "input_unsigned = false, output_unsigned = true",
    }
    signs = given.get(unsigned, "input_unsigned = false, output_unsigned = false")
    return (
        _const("m", multipliers, "i32")
        + _const("s", shifts, "i8")
        + _const("zi", zero[0], source)
        + _const("zo", zero[1], result)
        + f" %r = tosa.rescale %x, %m, %s, %zi, %zo {{rounding_mode = {rounding}, scale32 = true, "
        f"per_channel = {'true' if channels > 1 else 'false'}, {signs}}} : "
        f"(tensor<3x4x{source}>, tensor<{channels}xi32>, tensor<{channels}xi8>, "
        f"tensor<1x{source}>, tensor<1x{result}>) -> tensor<3x4x{result}>"
    )


@pytest.mark.parametrize("rounding", ["SINGLE_ROUND", "DOUBLE_ROUND", "INEXACT_ROUND"])
@pytest.mark.parametrize(
    ("source", "result", "channels", "zero"),
    [("i32", "i8", 4, (0, -3)), ("i32", "i16", 1, (0, 0)), ("i8", "i8", 1, (-128, 5)), ("i8", "i32", 1, (7, 0))],
)
def test_rescale_is_exact(rounding, source, result, channels, zero):
    type_ = np.dtype(source.replace("i", "int"))
    low, high = (-(1 << 22), 1 << 22) if source == "i32" else (-128, 128)
    x = RNG.integers(low, high, (3, 4)).astype(type_)
    body = _rescale(source, result, rounding, channels, zero).replace("%x", "%a0")
    module = _compiled([f"tensor<3x4x{source}>"], f"tensor<3x4x{result}>", body)
    limits = np.iinfo(result.replace("i", "int"))
    for (row, column), value in np.ndenumerate(x):
        channel = column if channels > 1 else 0
        scaled = _rescaled(int(value) - zero[0], (1 << 30) + 12345 * channel + 1, 34 + channel, rounding)
        assert module(x)[row, column] == min(max(scaled + zero[1], limits.min), limits.max)


@pytest.mark.parametrize("unsigned", ["in", "out"])
def test_rescale_takes_and_gives_unsigned_bytes(unsigned):
    x = RNG.integers(-128, 128, (3, 4)).astype(np.int8)
    zero = (-56, 0) if unsigned == "in" else (0, -56)  # 200 as the bits of a signed byte
    body = _rescale("i8", "i8", "SINGLE_ROUND", 1, zero, unsigned).replace("%x", "%a0")
    found = _compiled(["tensor<3x4xi8>"], "tensor<3x4xi8>", body)(x)
    values = x.view(np.uint8).astype(int) - 200 if unsigned == "in" else x.astype(int)
    scaled = np.array([[_rescaled(int(v), (1 << 30) + 1, 34, "SINGLE_ROUND") for v in row] for row in values])
    expected = scaled if unsigned == "in" else np.clip(scaled + 200, 0, 255)
    np.testing.assert_array_equal(found.view(np.uint8) if unsigned == "out" else found, expected)


def _windows(x: np.ndarray) -> np.ndarray:
    """[n, h, w, 3, 3, c] of an image padded by one."""
    padded = np.pad(x.astype(np.int64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    return np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2)).transpose(0, 1, 2, 4, 5, 3)


_CONV = "acc_type = i32, dilation = array<i64: 1, 1>, pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 1, 1>"


@pytest.mark.parametrize(("zx", "zw"), [(0, 0), (-5, 0), (3, 2)])
def test_a_quantized_layer_is_exact(zx, zw):
    x = RNG.integers(-128, 128, (1, 6, 6, 3)).astype(np.int8)
    w = RNG.integers(-128, 128, (4, 3, 3, 3)).astype(np.int8)
    b = RNG.integers(-1000, 1000, 4).astype(np.int32)
    body = (
        _const("zx", zx, "i8")
        + _const("zw", zw, "i8")
        + _const("m", [(1 << 30) + n for n in range(4)], "i32")
        + _const("s", [38, 39, 40, 38], "i8")
        + _const("z", 0, "i32")
        + _const("zo", -3, "i8")
        + f" %0 = tosa.conv2d %a0, %a1, %a2, %zx, %zw {{{_CONV}}} : (tensor<1x6x6x3xi8>, tensor<4x3x3x3xi8>, "
        "tensor<4xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x6x6x4xi32>\n"
        " %1 = tosa.rescale %0, %m, %s, %z, %zo {rounding_mode = DOUBLE_ROUND, scale32 = true, per_channel = true, "
        "input_unsigned = false, output_unsigned = false} : (tensor<1x6x6x4xi32>, tensor<4xi32>, tensor<4xi8>, "
        "tensor<1xi32>, tensor<1xi8>) -> tensor<1x6x6x4xi8>\n"
        " %r = tosa.clamp %1 {min_val = -3 : i8, max_val = 100 : i8} : (tensor<1x6x6x4xi8>) -> tensor<1x6x6x4xi8>"
    )
    module = _compiled(["tensor<1x6x6x3xi8>", "tensor<4x3x3x3xi8>", "tensor<4xi32>"], "tensor<1x6x6x4xi8>", body)
    # The padding is the zero point, so it adds nothing.
    sums = np.einsum("nhwijc,oijc->nhwo", _windows(x.astype(np.int64) - zx), w.astype(np.int64) - zw) + b
    scaled = np.vectorize(lambda v, m, s: _rescaled(int(v), int(m), int(s), "DOUBLE_ROUND"))(
        sums, (1 << 30) + np.arange(4), np.array([38, 39, 40, 38])
    )
    np.testing.assert_array_equal(module(x, w, b), np.clip(scaled - 3, -3, 100))


def test_a_quantized_matrix_product_with_zero_points_is_exact():
    a = RNG.integers(-128, 128, (2, 3, 70)).astype(np.int8)
    b = RNG.integers(-128, 128, (2, 70, 4)).astype(np.int8)
    body = (
        _const("za", 3, "i8")
        + _const("zb", -7, "i8")
        + " %r = tosa.matmul %a0, %a1, %za, %zb : (tensor<2x3x70xi8>, tensor<2x70x4xi8>, tensor<1xi8>, tensor<1xi8>)"
        " -> tensor<2x3x4xi32>"
    )
    module = _compiled(["tensor<2x3x70xi8>", "tensor<2x70x4xi8>"], "tensor<2x3x4xi32>", body)
    np.testing.assert_array_equal(module(a, b), (a.astype(np.int64) - 3) @ (b.astype(np.int64) + 7))


def test_tables_are_looked_up():
    table = RNG.integers(-128, 128, 256)
    x = RNG.integers(-128, 128, (2, 5)).astype(np.int8)
    body = _const("t", table.tolist(), "i8")
    body += " %r = tosa.table %a0, %t : (tensor<2x5xi8>, tensor<256xi8>) -> tensor<2x5xi8>"
    np.testing.assert_array_equal(_compiled(["tensor<2x5xi8>"], "tensor<2x5xi8>", body)(x), table[x.astype(int) + 128])


@pytest.mark.parametrize(
    ("source", "result", "values", "expected"),
    [
        ("f32", "i8", [300, -300, 2.5, 3.5], [127, -128, 2, 4]),
        ("f16", "bf16", [1.00390625, -2, 0.5, 65504], [1, -2, 0.5, 65536]),
        ("bf16", "f16", [1, -2, 0.5, 131072], [1, -2, 0.5, np.inf]),
    ],
)
def test_casts_saturate_and_round(source, result, values, expected):
    dtype = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}.get(source, np.float32)
    body = f" %r = tosa.cast %a0 : (tensor<4x{source}>) -> tensor<4x{result}>"
    found = _compiled([f"tensor<4x{source}>"], f"tensor<4x{result}>", body)(np.array(values).astype(dtype))
    np.testing.assert_array_equal(np.asarray(found).astype(np.float32), expected)


def test_scatter_writes_rows():
    values, rows = RNG.random((2, 5, 3), np.float32), RNG.random((2, 2, 3), np.float32)
    indices = np.array([[0, 4], [3, 1]], np.int32)
    types = ["tensor<2x5x3xf32>", "tensor<2x2xi32>", "tensor<2x2x3xf32>"]
    body = f" %r = tosa.scatter %a0, %a1, %a2 : ({', '.join(types)}) -> {types[0]}"
    expected = values.copy()
    for n in range(2):
        expected[n, indices[n]] = rows[n]
    np.testing.assert_array_equal(_compiled(types, types[0], body)(values, indices, rows), expected)


def test_control_flow_holds_tosa():
    body = """
 %c = "tosa.const"() <{values = dense<3> : tensor<i32>}> : () -> tensor<i32>
 %n, %0 = tosa.while_loop (%x = %a0, %y = %a1) : (tensor<i32>, tensor<2xf32>) -> (tensor<i32>, tensor<2xf32>) {
  %1 = tosa.greater %c, %x : (tensor<i32>, tensor<i32>) -> tensor<i1>
  tosa.yield %1 : tensor<i1>
 } do {
 ^bb0(%x: tensor<i32>, %y: tensor<2xf32>):
  %one = "tosa.const"() <{values = dense<1> : tensor<i32>}> : () -> tensor<i32>
  %1 = tosa.add %x, %one : (tensor<i32>, tensor<i32>) -> tensor<i32>
  %2 = tosa.add %y, %y : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  tosa.yield %1, %2 : tensor<i32>, tensor<2xf32>
 }
 %p = tosa.greater %c, %a0 : (tensor<i32>, tensor<i32>) -> tensor<i1>
 %r = tosa.cond_if %p : tensor<i1> -> tensor<2xf32> {
  tosa.yield %0 : tensor<2xf32>
 } else {
  tosa.yield %a1 : tensor<2xf32>
 }"""
    module = _compiled(["tensor<i32>", "tensor<2xf32>"], "tensor<2xf32>", body)
    x = np.array([1, -1], np.float32)
    for start, factor in ((0, 8), (2, 2), (3, 1)):
        np.testing.assert_array_equal(module(np.array(start, np.int32), x), x * factor)


def test_fourier_transforms_compute_their_angles_from_indices():
    x = RNG.random((1, 4, 8), np.float32)
    body = " %r, %i = tosa.rfft2d %a0 {local_bound = false} : (tensor<1x4x8xf32>)"
    body += " -> (tensor<1x4x5xf32>, tensor<1x4x5xf32>)"
    found = _compiled(["tensor<1x4x8xf32>"], "tensor<1x4x5xf32>", body)(x)
    np.testing.assert_allclose(found, np.fft.rfft2(x).real, atol=1e-5)


def test_custom_ops_and_variables_are_refused_all_at_once():
    text = """
module {
  tosa.variable @v = dense<1.0> : tensor<2xf32>
  func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
    %0 = tosa.variable_read @v : tensor<2xf32>
    %1 = tosa.custom %0 {operator_name = "x", domain_name = "d", implementation_attrs = ""}
      : (tensor<2xf32>) -> tensor<2xf32>
    %2 = tosa.custom %1 {operator_name = "y", domain_name = "d", implementation_attrs = ""}
      : (tensor<2xf32>) -> tensor<2xf32>
    tosa.variable_write @v, %2 : tensor<2xf32>
    return %2 : tensor<2xf32>
  }
}"""
    with pytest.raises(UnsupportedError, match="make the state an argument and a result of the function") as refused:
        rillet.compile(text)
    assert [(node.op, node.name) for node in refused.value.nodes] == [
        ("tosa.variable_read", "line 5:10"),
        ("tosa.custom", "line 6:10"),
        ("tosa.custom", "line 8:10"),
        ("tosa.variable_write", "line 10:5"),
    ]
