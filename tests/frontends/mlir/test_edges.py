"""Names, dtypes and dimensions at the module's edges."""

import ml_dtypes
import numpy as np
import pytest

import rillet
from rillet.errors import CompileError, RunError


def _identity(type_: str, attributes: str = "") -> str:
    return f"func.func @main(%a: {type_} {attributes}) -> {type_} {{\n return %a : {type_}\n}}"


@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_unsigned_integers_stay_unsigned(width):
    text = f"""
func.func public @main(%a: tensor<3xui{width}>, %b: tensor<3xui{width}>) -> tensor<3xui{width}> {{
  %0 = stablehlo.divide %a, %b : tensor<3xui{width}>
  %1 = stablehlo.maximum %0, %b : tensor<3xui{width}>
  return %1 : tensor<3xui{width}>
}}"""
    dtype = np.dtype(f"uint{width}")
    top = np.iinfo(dtype).max
    a, b = np.array([top, top - 1, 7], dtype), np.array([2, 3, top], dtype)
    module = rillet.compile(text, threads=1)
    assert module.inputs[0].dtype == dtype
    np.testing.assert_array_equal(module(a, b), np.maximum(a // b, b))


@pytest.mark.parametrize(
    ("element", "dtype"),
    [
        ("i1", np.bool_),
        ("i4", ml_dtypes.int4),
        ("ui4", ml_dtypes.uint4),
        ("f16", np.float16),
        ("bf16", ml_dtypes.bfloat16),
        ("f8E4M3FN", ml_dtypes.float8_e4m3fn),
        ("complex<f64>", np.complex128),
    ],
)
def test_every_dtype_crosses_the_edge(element, dtype):
    module = rillet.compile(_identity(f"tensor<2x2x{element}>"), threads=1)
    x = np.array([[0, 1], [1, 0]]).astype(dtype)
    assert module.inputs[0].dtype == np.dtype(dtype)
    np.testing.assert_array_equal(np.asarray(module(x)), x)


def test_dimensions_without_names_are_called_by_their_axis_and_may_change():
    text = """
func.func @main(%a: tensor<?x2xf32>) -> tensor<?x2xf32> {
  %0 = stablehlo.abs %a : tensor<?x2xf32>
  return %0 : tensor<?x2xf32>
}"""
    module = rillet.compile(text, threads=1)
    for rows in (0, 1, 5):
        x = np.full((rows, 2), -1, np.float32)
        np.testing.assert_array_equal(module(x), -x)


@pytest.mark.parametrize("name", ["?", "-1", "dyn"])
def test_placeholders_are_no_names_of_dimensions(name):
    text = f"""
func.func @main(%a: tensor<?x?xf32> {{rillet.dims = ["{name}", "{name}"]}}) -> tensor<?x?xf32> {{
  %0 = stablehlo.abs %a : tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}}"""
    module = rillet.compile(text, threads=1)
    assert module.inputs[0].shape == ("argument0_0", "argument0_1")
    np.testing.assert_array_equal(module(np.full((2, 3), -1, np.float32)), np.ones((2, 3), np.float32))
    assert rillet.compile(text, inputs={"argument0": (2, -1)}, threads=1).inputs[0].shape == (2, "argument0_1")


@pytest.mark.parametrize("element", ["f32", "ui8", "i1"])
def test_dimensions_of_joined_tensors_are_checked(element):
    type_ = f"tensor<?x?x{element}>"
    text = f"""
func.func @main(%a: {type_}, %b: {type_}) -> {type_} {{
  %0 = stablehlo.concatenate %a, %b, dim = 0 : ({type_}, {type_}) -> {type_}
  return %0 : {type_}
}}"""
    module = rillet.compile(text, threads=1)
    a, b = (np.ones((rows, 3), module.inputs[0].dtype) for rows in (2, 4))
    np.testing.assert_array_equal(module(a, b), np.concatenate([a, b]))
    with pytest.raises(RunError, match="dimensions 3 and 2 do not agree"):
        module(a, b[:, :2])


def test_a_function_without_results_does_nothing():
    module = rillet.compile("func.func @main(%a: tensor<2xf32>) {\n return\n}", threads=1)
    assert module.outputs == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_identity("f32"), "argument 0 of @main is f32; only ranked tensors"),
        (_identity("tensor<*xf32>"), r"argument 0 of @main is tensor<\*xf32>; only ranked tensors"),
        (_identity("memref<2xf32>"), "argument 0 of @main is memref<2xf32>; only ranked tensors"),
        (_identity("!stablehlo.token"), "argument 0 of @main is !stablehlo.token; only ranked tensors"),
        (_identity("tuple<tensor<2xf32>>"), "argument 0 of @main is tuple<tensor<2xf32>>; only ranked tensors"),
        (_identity("tensor<2xf8E4M3>"), "tensor<2xf8E4M3>, which has no numpy dtype: convert it inside the function"),
        (_identity("tensor<2xi48>"), "tensor<2xi48>, which has no numpy dtype"),
        (_identity("tensor<2xindex>"), "tensor<2xindex>, which has no numpy dtype"),
        (_identity("tensor<2x!quant.uniform<i8:f32, 1.0>>"), "which has no numpy dtype"),
        (_identity("tensor<2xf32>", '{rillet.dtype = "int8"}'), 'but its rillet.dtype is "int8"'),
        (_identity("tensor<2xf32>", "{rillet.dtype = 3 : i32}"), "but its rillet.dtype is 3 : i32"),
        (_identity("tensor<2xf32>", "{rillet.name = 3 : i32}"), "has the rillet.name 3 : i32; it takes a string"),
        (_identity("tensor<?xf32>", '{rillet.dims = ["N", "M"]}'), "a string for each dimension"),
        (
            'func.func @main(%a: tensor<2xf32> {rillet.name = "x"}, %b: tensor<2xf32> {rillet.name = "x"}) {'
            "\n return\n}",
            "two arguments of @main have the rillet.name 'x'",
        ),
    ],
)
def test_what_cannot_cross_the_edge_is_refused(text, message):
    with pytest.raises(CompileError, match=message):
        rillet.compile(text)
