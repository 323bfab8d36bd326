"""StableHLO beyond upstream's conversion to linalg: values against numpy, two runs, one thread and two."""

import ml_dtypes
import numpy as np
import pytest

import rillet
from rillet.errors import UnsupportedError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 5)).astype(np.float32)


def _function(arguments: list[str], results: list[str], body: str) -> str:
    """The body names its results ``%r0``, ``%r1``, ..."""
    signature = ", ".join(f"%a{n}: {type_}" for n, type_ in enumerate(arguments))
    values = ", ".join(f"%r{n}" for n in range(len(results)))
    types = ", ".join(results)
    return f"func.func public @main({signature}) -> ({types}) {{\n{body}\n return {values} : {types}\n}}\n"


def _check(text: str, inputs: list[np.ndarray], expected: list[np.ndarray], tolerance: float = 0) -> None:
    for threads in (1, 2):
        module = rillet.compile(text, threads=threads, jobs=1)
        for _ in range(2):
            found = module(*inputs)
            for a, b in zip(found if isinstance(found, tuple | list) else [found], expected, strict=True):
                assert np.shape(a) == np.shape(b)
                wide = [np.asarray(v).astype(np.float32) if v.dtype.name == "bfloat16" else v for v in (a, b)]
                np.testing.assert_allclose(*wide, rtol=tolerance, atol=tolerance)


# --- control flow ---


def test_loops_of_tensors_carry_signed_and_unsigned_state():
    body = """
 %zero = stablehlo.constant dense<0> : tensor<ui32>
 %one = stablehlo.constant dense<1> : tensor<ui32>
 %n, %r0 = stablehlo.while(%i = %zero, %x = %a0) : tensor<ui32>, tensor<3x5xf32> cond {
  %c = stablehlo.compare LT, %i, %a1 : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
  stablehlo.return %c : tensor<i1>
 } do {
  %1 = stablehlo.add %i, %one : tensor<ui32>
  %2 = stablehlo.add %x, %x : tensor<3x5xf32>
  stablehlo.return %1, %2 : tensor<ui32>, tensor<3x5xf32>
 }"""
    text = _function(["tensor<3x5xf32>", "tensor<ui32>"], ["tensor<3x5xf32>"], body)
    for count in (0, 1, 4):
        _check(text, [X, np.array(count, np.uint32)], [X * 2**count])


@pytest.mark.parametrize(("index", "factor"), [(0, 1), (1, -1), (2, 2), (7, 2), (-1, 2)])
def test_a_case_without_a_branch_takes_the_last_one(index, factor):
    body = """
 %r0 = "stablehlo.case"(%a0) ({
  stablehlo.return %a1 : tensor<3x5xf32>
 }, {
  %1 = stablehlo.negate %a1 : tensor<3x5xf32>
  stablehlo.return %1 : tensor<3x5xf32>
 }, {
  %1 = stablehlo.add %a1, %a1 : tensor<3x5xf32>
  stablehlo.return %1 : tensor<3x5xf32>
 }) : (tensor<i32>) -> tensor<3x5xf32>"""
    text = _function(["tensor<i32>", "tensor<3x5xf32>"], ["tensor<3x5xf32>"], body)
    _check(text, [np.array(index, np.int32), X], [X * factor])


def test_an_if_inside_of_a_loop_body():
    body = """
 %zero = stablehlo.constant dense<0> : tensor<i32>
 %one = stablehlo.constant dense<1> : tensor<i32>
 %two = stablehlo.constant dense<2> : tensor<i32>
 %n, %r0 = stablehlo.while(%i = %zero, %x = %a0) : tensor<i32>, tensor<3x5xf32> cond {
  %five = stablehlo.constant dense<5> : tensor<i32>
  %c = stablehlo.compare LT, %i, %five : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.return %c : tensor<i1>
 } do {
  %1 = stablehlo.add %i, %one : tensor<i32>
  %c = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %2 = "stablehlo.if"(%c) ({
   %3 = stablehlo.add %x, %x : tensor<3x5xf32>
   stablehlo.return %3 : tensor<3x5xf32>
  }, {
   %3 = stablehlo.negate %x : tensor<3x5xf32>
   stablehlo.return %3 : tensor<3x5xf32>
  }) : (tensor<i1>) -> tensor<3x5xf32>
  stablehlo.return %1, %2 : tensor<i32>, tensor<3x5xf32>
 }"""
    _check(_function(["tensor<3x5xf32>"], ["tensor<3x5xf32>"], body), [X], [-4 * X])


# --- sorting ---


def _sort(elements: list[str], comparator: str, axis: int) -> str:
    types = [f"tensor<3x7x{e}>" for e in elements]
    arguments = ", ".join(f"%x{n}: tensor<{e}>, %y{n}: tensor<{e}>" for n, e in enumerate(elements))
    operands = ", ".join(f"%a{n}" for n in range(len(elements)))
    listed = ", ".join(types)
    body = f' %s:{len(types)} = "stablehlo.sort"({operands}) ({{\n ^bb0({arguments}):\n{comparator}\n'
    body += f" }}) {{dimension = {axis} : i64, is_stable = true}} : ({listed}) -> ({listed})\n"
    body += "\n".join(f" %r{n} = stablehlo.reshape %s#{n} : ({t}) -> {t}" for n, t in enumerate(types))
    return _function(types, types, body)


def _compare(element: str, direction: str) -> str:
    return f""" %c = stablehlo.compare {direction}, %x0, %y0 : (tensor<{element}>, tensor<{element}>) -> tensor<i1>
 stablehlo.return %c : tensor<i1>"""


@pytest.mark.parametrize(
    ("element", "dtype"),
    [("f32", np.float32), ("f64", np.float64), ("bf16", ml_dtypes.bfloat16), ("i32", np.int32), ("ui8", np.uint8)],
)
@pytest.mark.parametrize("direction", ["LT", "GT"])
@pytest.mark.parametrize("axis", [0, 1])
def test_sorting_either_way(element, dtype, direction, axis):
    x = RNG.integers(-100 if element != "ui8" else 0, 200, (3, 7)).astype(dtype)
    keys = np.sort(x.astype(np.float64), axis)
    expected = np.flip(keys, axis) if direction == "GT" else keys
    _check(_sort([element], _compare(element, direction), axis), [x], [expected.astype(dtype)])


def test_what_is_sorted_by_a_key_keeps_its_order_among_equals():
    keys = RNG.integers(0, 3, (3, 7)).astype(np.int32)
    values = np.arange(21, dtype=np.float32).reshape(3, 7)
    order = np.argsort(keys, 1, kind="stable")
    expected = [np.take_along_axis(v, order, 1) for v in (keys, values)]
    _check(_sort(["i32", "f32"], _compare("i32", "LT"), 1), [keys, values], expected)


def test_a_comparison_may_be_any_arithmetic():
    comparator = """
 %far = stablehlo.abs %x0 : tensor<f32>
 %near = stablehlo.abs %y0 : tensor<f32>
 %equal = stablehlo.compare EQ, %far, %near : (tensor<f32>, tensor<f32>) -> tensor<i1>
 %less = stablehlo.compare LT, %far, %near : (tensor<f32>, tensor<f32>) -> tensor<i1>
 %second = stablehlo.compare GT, %x1, %y1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
 %c = stablehlo.select %equal, %second, %less : tensor<i1>, tensor<i1>
 stablehlo.return %c : tensor<i1>"""
    x = RNG.integers(-2, 3, (3, 7)).astype(np.float32)
    tie = np.argsort(RNG.random((3, 7)), 1).astype(np.int32)
    order = np.lexsort((-tie, np.abs(x)), axis=1)
    expected = [np.take_along_axis(v, order, 1) for v in (x, tie)]
    _check(_sort(["f32", "i32"], comparator, 1), [x, tie], expected)


def test_the_largest_of_each_row_also_as_a_serialized_call():
    types, x = ["tensor<3x2xf32>", "tensor<3x2xi32>"], RNG.standard_normal((3, 7)).astype(np.float32)
    order = np.argsort(-x, 1, kind="stable")[:, :2]
    expected = [np.take_along_axis(x, order, 1), order.astype(np.int32)]
    chlo = " %r0, %r1 = chlo.top_k(%a0, k = 2) : tensor<3x7xf32> -> (tensor<3x2xf32>, tensor<3x2xi32>)"
    call = """ %r0, %r1 = stablehlo.custom_call @mhlo.topk(%a0) {mhlo.attributes = {k = 2 : i64, largest = true},
   mhlo.version = 1 : i64} : (tensor<3x7xf32>) -> (tensor<3x2xf32>, tensor<3x2xi32>)"""
    for body in (chlo, call):
        _check(_function(["tensor<3x7xf32>"], types, body), [x], expected)


# --- scatter ---


def _scatter(operand: str, indices: str, updates: str, numbers: str, update: str) -> str:
    element = operand.partition("<")[2].split("x")[-1].rstrip(">")
    body = f""" %r0 = "stablehlo.scatter"(%a0, %a1, %a2) ({{
 ^bb0(%x: tensor<{element}>, %y: tensor<{element}>):
  {update.replace("T", f"tensor<{element}>")}
 }}) {{scatter_dimension_numbers = #stablehlo.scatter<{numbers}>}} : ({operand}, {indices}, {updates}) -> {operand}"""
    return _function([operand, indices, updates], [operand], body)


_ADD = "%1 = stablehlo.add %x, %y : T\n  stablehlo.return %1 : T"
_SET = "stablehlo.return %y : T"
_ROWS = "update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1"


@pytest.mark.parametrize(("element", "dtype"), [("f32", np.float32), ("bf16", ml_dtypes.bfloat16), ("ui8", np.uint8)])
def test_rows_are_added_and_those_outside_are_dropped(element, dtype):
    x = RNG.integers(0, 9, (5, 3)).astype(dtype)
    rows = RNG.integers(0, 9, (5, 3)).astype(dtype)
    at = np.array([[0], [4], [0], [9], [-1]], np.int32)
    expected = x.copy()
    for index, row in zip(at[:3, 0], rows[:3], strict=True):
        expected[index] += row
    text = _scatter(f"tensor<5x3x{element}>", "tensor<5x1xi32>", f"tensor<5x3x{element}>", _ROWS, _ADD)
    _check(text, [x, at, rows], [expected])


def test_the_last_update_of_an_element_stays():
    x, values = np.zeros((5, 3), np.float32), np.array([1, 2, 3], np.float32)
    at = np.array([[0, 1], [4, 2], [0, 1]], np.int32)
    numbers = "inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1"
    expected = x.copy()
    expected[0, 1], expected[4, 2] = 3, 2
    _check(_scatter("tensor<5x3xf32>", "tensor<3x2xi32>", "tensor<3xf32>", numbers, _SET), [x, at, values], [expected])


def test_windows_and_batches_are_scattered():
    numbers = "update_window_dims = [1, 2], scatter_dims_to_operand_dims = [0], index_vector_dim = 1"
    x, windows = np.zeros((5, 3), np.float32), RNG.random((2, 2, 3), np.float32)
    expected = x.copy()
    expected[1:3] += windows[0]
    expected[3:5] += windows[1]
    text = _scatter("tensor<5x3xf32>", "tensor<2x1xi32>", "tensor<2x2x3xf32>", numbers, _ADD)
    _check(text, [x, np.array([[1], [3]], np.int32), windows], [expected])

    numbers = """update_window_dims = [1], inserted_window_dims = [1], input_batching_dims = [0],
      scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 1"""
    x, rows = np.zeros((3, 3, 2), np.float32), RNG.random((3, 2), np.float32)
    at = np.array([[1], [0], [2]], np.int32)
    expected = x.copy()
    for batch in range(3):
        expected[batch, at[batch, 0]] += rows[batch]
    text = _scatter("tensor<3x3x2xf32>", "tensor<3x1xi32>", "tensor<3x2xf32>", numbers, _ADD)
    _check(text, [x, at, rows], [expected])


# --- dimensions ---


def test_dimensions_known_at_run_time_only():
    body = """
 %n = stablehlo.get_dimension_size %a0, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
 %two = stablehlo.constant dense<2> : tensor<i32>
 %m = stablehlo.multiply %n, %two : tensor<i32>
 %n1 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
 %m1 = stablehlo.reshape %m : (tensor<i32>) -> tensor<1xi32>
 %c2 = stablehlo.constant dense<2> : tensor<1xi32>
 %c4 = stablehlo.constant dense<4> : tensor<1xi32>
 %s = stablehlo.concatenate %m1, %c2, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
 %t = stablehlo.concatenate %n1, %c4, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
 %one = stablehlo.constant dense<1.0> : tensor<f32>
 %b = stablehlo.dynamic_broadcast_in_dim %one, %t, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x4xf32>
 %i = stablehlo.dynamic_iota %t, dim = 0 : (tensor<2xi32>) -> tensor<?x4xf32>
 %1 = stablehlo.add %a0, %b : tensor<?x4xf32>
 %2 = stablehlo.add %1, %i : tensor<?x4xf32>
 %r0 = stablehlo.dynamic_reshape %2, %s : (tensor<?x4xf32>, tensor<2xi32>) -> tensor<?x2xf32>"""
    text = _function(["tensor<?x4xf32>"], ["tensor<?x2xf32>"], body)
    for rows in (1, 3):
        x = RNG.standard_normal((rows, 4)).astype(np.float32)
        _check(text, [x], [(x + 1 + np.arange(rows, dtype=np.float32)[:, None]).reshape(rows * 2, 2)], 1e-6)


# --- Fourier transforms ---


def _type(array: np.ndarray) -> str:
    element = {"float32": "f32", "complex64": "complex<f32>", "float64": "f64", "complex128": "complex<f64>"}
    return f"tensor<{'x'.join(map(str, array.shape))}x{element[array.dtype.name]}>"


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(
    ("kind", "shape", "lengths"),
    [
        ("FFT", (3, 64), [64]),
        ("FFT", (2, 4, 18, 5), [4, 18, 5]),
        ("IFFT", (2, 8, 60), [8, 60]),
        ("RFFT", (3, 37), [37]),
        ("RFFT", (2, 8, 60), [8, 60]),
        ("IRFFT", (3, 33), [64]),
        ("IRFFT", (2, 7, 10), [7, 19]),
    ],
)
def test_fourier_transforms(kind, shape, lengths, wide):
    parts = RNG.standard_normal((2, *shape))
    x = (parts[0] if kind == "RFFT" else parts[0] + 1j * parts[1]).astype(
        {(False, False): "complex64", (False, True): "complex128", (True, False): "float32", (True, True): "float64"}[
            kind == "RFFT", wide
        ]
    )
    axes = tuple(range(-len(lengths), 0))
    function = {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn, "IRFFT": np.fft.irfftn}[kind]
    expected = function(x, lengths, axes)
    body = (
        f' %r0 = "stablehlo.fft"(%a0) {{fft_type = #stablehlo<fft_type {kind}>, '
        f"fft_length = array<i64: {', '.join(map(str, lengths))}>}} : ({_type(x)}) -> {_type(expected)}"
    )
    found = rillet.compile(_function([_type(x)], [_type(expected)], body), threads=1, jobs=1)(x)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    np.testing.assert_allclose(found, expected, atol=(1e-14 if wide else 1e-6) * np.abs(expected).max())


# --- complex numbers, bools, nothing ---

_COMPLEX = {
    "exponential": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sine": np.sin,
    "cosine": np.cos,
    "tanh": np.tanh,
    "negate": np.negative,
    "sign": lambda x: x / np.abs(x),
}
Z = (RNG.standard_normal((3, 4)) + 1j * RNG.standard_normal((3, 4))).astype(np.complex64)


@pytest.mark.parametrize("op", _COMPLEX)
def test_complex_functions(op):
    type_ = "tensor<3x4xcomplex<f32>>"
    text = _function([type_], [type_], f" %r0 = stablehlo.{op} %a0 : ({type_}) -> {type_}")
    _check(text, [Z], [_COMPLEX[op](Z)], 1e-5)


def test_complex_products_sums_and_constants():
    body = """
 %k = stablehlo.constant dense<[(1.0, 2.0), (0.0, -1.0)]> : tensor<2xcomplex<f32>>
 %p = stablehlo.constant dense<(1.0, 2.0)> : tensor<complex<f32>>
 %z = stablehlo.constant dense<(0.0, 0.0)> : tensor<complex<f32>>
 %1 = stablehlo.dot_general %a0, %a1, contracting_dims = [1] x [0]
   : (tensor<3x4xcomplex<f32>>, tensor<4x2xcomplex<f32>>) -> tensor<3x2xcomplex<f32>>
 %2 = stablehlo.broadcast_in_dim %k, dims = [1] : (tensor<2xcomplex<f32>>) -> tensor<3x2xcomplex<f32>>
 %3 = stablehlo.multiply %1, %2 : tensor<3x2xcomplex<f32>>
 %4 = stablehlo.reduce(%3 init: %z) applies stablehlo.add across dimensions = [1]
   : (tensor<3x2xcomplex<f32>>, tensor<complex<f32>>) -> tensor<3xcomplex<f32>>
 %r0 = stablehlo.pad %4, %p, low = [1], high = [0], interior = [0]
   : (tensor<3xcomplex<f32>>, tensor<complex<f32>>) -> tensor<4xcomplex<f32>>
 %r1 = stablehlo.real %4 : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
 %r2 = stablehlo.imag %4 : (tensor<3xcomplex<f32>>) -> tensor<3xf32>"""
    text = _function(
        ["tensor<3x4xcomplex<f32>>", "tensor<4x2xcomplex<f32>>"],
        ["tensor<4xcomplex<f32>>", "tensor<3xf32>", "tensor<3xf32>"],
        body,
    )
    w = np.ascontiguousarray(Z.T[:, :2]) * np.complex64(0.5)
    sums = ((Z @ w) * np.array([1 + 2j, -1j])).sum(1)
    _check(text, [Z, w], [np.concatenate([[1 + 2j], sums]), sums.real, sums.imag], 1e-5)


@pytest.mark.parametrize(("op", "expected"), [("add", [True, True, False]), ("multiply", [True, False, False])])
def test_arithmetic_of_bools_is_logic_in_reductions_too(op, expected):
    start = "false" if op == "add" else "true"
    body = f""" %c = stablehlo.constant dense<{start}> : tensor<i1>
 %r0 = stablehlo.reduce(%a0 init: %c) applies stablehlo.{op} across dimensions = [1]
   : (tensor<3x2xi1>, tensor<i1>) -> tensor<3xi1>"""
    x = np.array([[True, True], [True, False], [False, False]])
    _check(_function(["tensor<3x2xi1>"], ["tensor<3xi1>"], body), [x], [np.array(expected)])


def test_a_reduction_of_nothing_is_what_it_starts_from():
    body = """ %c = stablehlo.constant dense<2.0> : tensor<f32>
 %r0 = stablehlo.reduce(%a0 init: %c) applies stablehlo.add across dimensions = [0]
   : (tensor<0x5xf32>, tensor<f32>) -> tensor<5xf32>"""
    text = _function(["tensor<0x5xf32>"], ["tensor<5xf32>"], body)
    _check(text, [np.zeros((0, 5), np.float32)], [np.full(5, 2, np.float32)])


def test_quantized_types_inside_of_a_function_are_computed():
    body = """ %q = stablehlo.uniform_quantize %a0 : (tensor<3x5xf32>) -> tensor<3x5x!quant.uniform<i8:f32, 0.5:3>>
 %r0 = stablehlo.uniform_dequantize %q : (tensor<3x5x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<3x5xf32>"""
    _check(_function(["tensor<3x5xf32>"], ["tensor<3x5xf32>"], body), [X], [np.rint(X / np.float32(0.5)) * 0.5])


# --- composites and calls ---


def test_composites_are_what_they_decompose_to():
    text = """
func.func private @twice(%a: tensor<3x5xf32>) -> tensor<3x5xf32> {
  %0 = stablehlo.add %a, %a : tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}
func.func private @fourfold(%a: tensor<3x5xf32>) -> tensor<3x5xf32> {
  %0 = stablehlo.composite "my.twice" %a {decomposition = @twice, version = 1 : i32}
    : (tensor<3x5xf32>) -> tensor<3x5xf32>
  %1 = func.call @twice(%0) : (tensor<3x5xf32>) -> tensor<3x5xf32>
  return %1 : tensor<3x5xf32>
}
func.func public @main(%a: tensor<3x5xf32>) -> tensor<3x5xf32> {
  %0 = stablehlo.composite "my.fourfold" %a {composite_attributes = {k = 1 : i32}, decomposition = @fourfold}
    : (tensor<3x5xf32>) -> tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}"""
    _check(text, [X], [X * 4])


def test_calls_barriers_and_tuples_that_change_nothing_go():
    body = """ %1 = stablehlo.custom_call @Sharding(%a0) {backend_config = ""} : (tensor<3x5xf32>) -> tensor<3x5xf32>
 %2 = stablehlo.optimization_barrier %1 : tensor<3x5xf32>
 %3 = stablehlo.tuple %2, %2 : tuple<tensor<3x5xf32>, tensor<3x5xf32>>
 %4 = stablehlo.get_tuple_element %3[1] : (tuple<tensor<3x5xf32>, tensor<3x5xf32>>) -> tensor<3x5xf32>
 %r0 = stablehlo.negate %4 : tensor<3x5xf32>"""
    _check(_function(["tensor<3x5xf32>"], ["tensor<3x5xf32>"], body), [X], [-X])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            " %r0 = stablehlo.custom_call @foo(%a0) : (tensor<4x4xf32>) -> tensor<4x4xf32>",
            "stablehlo.custom_call 'line 2:8': no implementation of the call target @foo is known",
        ),
        (
            " %r0 = stablehlo.cholesky %a0, lower = true : tensor<4x4xf32>",
            "stablehlo.cholesky 'line 2:8': no conversion to linalg on tensors is known for it",
        ),
        (
            ' %t = stablehlo.after_all : !stablehlo.token\n %u = "stablehlo.outfeed"(%a0, %t) {outfeed_config = ""}'
            " : (tensor<4x4xf32>, !stablehlo.token) -> !stablehlo.token\n %r0 = stablehlo.negate %a0 : tensor<4x4xf32>",
            "stablehlo.outfeed 'line 3:7'",
        ),
        (
            ' %r0 = "stablehlo.sort"(%a0) ({\n ^bb0(%x: tensor<f32>, %y: tensor<f32>):\n'
            "  %1 = stablehlo.custom_call @less(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
            "  stablehlo.return %1 : tensor<i1>\n }) {dimension = 0 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>",
            "stablehlo.sort 'line 2:8': its region holds stablehlo.custom_call, which is no arithmetic on scalars",
        ),
    ],
)
def test_what_has_no_form_is_refused_with_its_place(body, message):
    with pytest.raises(UnsupportedError) as refused:
        rillet.compile(_function(["tensor<4x4xf32>"], ["tensor<4x4xf32>"], body))
    assert message in str(refused.value)


def test_a_tensor_is_padded_by_a_complex_number_that_is_an_input():
    body = """ %r0 = stablehlo.pad %a0, %a1, low = [1], high = [0], interior = [0]
   : (tensor<3xcomplex<f32>>, tensor<complex<f32>>) -> tensor<4xcomplex<f32>>"""
    text = _function(["tensor<3xcomplex<f32>>", "tensor<complex<f32>>"], ["tensor<4xcomplex<f32>>"], body)
    _check(text, [Z[:, 0].copy(), Z[0, 1]], [np.concatenate([[Z[0, 1]], Z[:, 0]])])
