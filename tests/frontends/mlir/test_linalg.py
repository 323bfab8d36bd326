"""linalg, tensor and arith as producers write them, beyond the tensor form."""

import numpy as np
import pytest

import rillet
from rillet.errors import UnsupportedError

X = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
_T = "tensor<3x5xf32>"


def _compiled(arguments: list[str], result: str, body: str, threads: int = 1) -> rillet.Module:
    signature = ", ".join(f"%a{n}: {type_}" for n, type_ in enumerate(arguments))
    text = f"func.func @main({signature}) -> {result} {{\n{body}\n return %r : {result}\n}}\n"
    return rillet.compile(text, threads=threads, jobs=1)


_ONE = " %v = tensor.extract %a0[] : tensor<f32>\n"
_CASES = {
    "arithmetic-on-tensors": (
        [_T, _T],
        _T,
        f" %1 = arith.addf %a0, %a1 : {_T}\n %r = math.exp %1 : {_T}",
        [X, X],
        np.exp(X + X),
    ),
    "select-by-a-tensor": (
        ["tensor<3x5xi1>", _T, _T],
        _T,
        f" %r = arith.select %a0, %a1, %a2 : tensor<3x5xi1>, {_T}",
        [X > 0, X, -X],
        np.abs(X),
    ),
    "select-by-a-scalar": (
        ["tensor<i1>", _T, _T],
        _T,
        f" %c = tensor.extract %a0[] : tensor<i1>\n %r = arith.select %c, %a1, %a2 : {_T}",
        [np.array(False), X, X + 1],
        X + 1,
    ),
    "splat": ([], _T, f" %v = arith.constant 2.0 : f32\n %r = tensor.splat %v : {_T}", [], np.full((3, 5), 2)),
    "splat-of-a-computed-value": (
        ["tensor<f32>"],
        _T,
        _ONE + f" %r = tensor.splat %v : {_T}",
        [np.float32(3)],
        np.full((3, 5), 3),
    ),
    "generate": (
        ["tensor<3xf32>"],
        _T,
        f""" %r = tensor.generate {{
 ^bb0(%i: index, %j: index):
  %v = tensor.extract %a0[%i] : tensor<3xf32>
  tensor.yield %v : f32
 }} : {_T}""",
        [X[:, 0].copy()],
        np.repeat(X[:, :1], 5, 1),
    ),
    "bitcast": (
        ["tensor<3x5xi32>"],
        _T,
        f" %r = tensor.bitcast %a0 : tensor<3x5xi32> to {_T}",
        [X.view(np.int32)],
        X,
    ),
    "reshape-by-a-tensor": (
        [_T, "tensor<2xi64>"],
        "tensor<?x?xf32>",
        f" %r = tensor.reshape %a0(%a1) : ({_T}, tensor<2xi64>) -> tensor<?x?xf32>",
        [X, np.array([5, 3])],
        X.reshape(5, 3),
    ),
    "scalar-operand": (
        ["tensor<f32>", _T],
        _T,
        _ONE
        + f""" %e = tensor.empty() : {_T}
 %r = linalg.generic {{indexing_maps = [affine_map<(i, j) -> ()>, affine_map<(i, j) -> (i, j)>,
   affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}}
   ins(%v, %a1 : f32, {_T}) outs(%e : {_T}) {{
 ^bb0(%s: f32, %x: f32, %o: f32):
  %1 = arith.mulf %s, %x : f32
  linalg.yield %1 : f32
 }} -> {_T}""",
        [np.float32(3), X],
        3 * X,
    ),
    "scalars-that-the-host-cannot-compute": (
        ["tensor<f32>", "tensor<f16>", _T],
        _T,
        _ONE
        + f""" %s = math.exp %v : f32
 %h0 = tensor.extract %a1[] : tensor<f16>
 %h1 = arith.addf %h0, %h0 : f16
 %h = arith.extf %h1 : f16 to f32
 %e = tensor.empty() : {_T}
 %f = linalg.fill ins(%s : f32) outs(%e : {_T}) -> {_T}
 %r = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
   iterator_types = ["parallel", "parallel"]}} ins(%a2 : {_T}) outs(%f : {_T}) {{
 ^bb0(%x: f32, %o: f32):
  %1 = arith.addf %x, %o : f32
  %2 = arith.mulf %1, %h : f32
  linalg.yield %2 : f32
 }} -> {_T}""",
        [np.float32(1), np.array(1.5, np.float16), X],
        (X + np.exp(np.float32(1))) * 3,
    ),
    "padding-that-the-host-cannot-compute": (
        ["tensor<2xf16>", "tensor<f16>"],
        "tensor<4xf16>",
        """ %v = tensor.extract %a1[] : tensor<f16>
 %r = tensor.pad %a0 low[1] high[1] {
 ^bb0(%i: index):
  tensor.yield %v : f16
 } : tensor<2xf16> to tensor<4xf16>""",
        [np.array([1, 2], np.float16), np.array(3, np.float16)],
        np.array([3, 1, 2, 3], np.float16),
    ),
    "execute-region": (
        [_T],
        _T,
        f" %r = scf.execute_region -> {_T} {{\n  %1 = math.absf %a0 : {_T}\n  scf.yield %1 : {_T}\n }}",
        [X],
        np.abs(X),
    ),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", _CASES)
def test_other_ways_to_write_structured_ops(name, threads):
    arguments, result, body, inputs, expected = _CASES[name]
    module = _compiled(arguments, result, body, threads)
    for _ in range(2):
        np.testing.assert_allclose(module(*inputs), expected, rtol=1e-6)


def test_a_sum_and_its_running_values_are_refused():
    body = """ %e = tensor.empty() : tensor<5xf32>
 %r, %s = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>],
   iterator_types = ["reduction"]} ins(%a0 : tensor<5xf32>) outs(%e, %a1 : tensor<5xf32>, tensor<f32>) {
 ^bb0(%x: f32, %o: f32, %p: f32):
  %1 = arith.addf %x, %p : f32
  linalg.yield %1, %1 : f32, f32
 } -> (tensor<5xf32>, tensor<f32>)"""
    with pytest.raises(UnsupportedError, match="a result of it has a dimension that the op reduces"):
        _compiled(["tensor<5xf32>", "tensor<f32>"], "tensor<5xf32>", body)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            """ %r = tensor.pad %a0 low[1] high[1] {
 ^bb0(%i: index):
  %j = arith.index_cast %i : index to i32
  %v = arith.sitofp %j : i32 to f32
  tensor.yield %v : f32
 } : tensor<3xf32> to tensor<5xf32>""",
            "tensor.pad 'line 2:7': it pads by a value that depends on the position; pad by one value",
        ),
        (
            """ %c = arith.constant 0 : index
 %z = arith.constant 0.0 : f32
 %v = vector.transfer_read %a0[%c], %z : tensor<3xf32>, vector<3xf32>
 %e = tensor.empty() : tensor<5xf32>
 %r = vector.transfer_write %v, %e[%c] : vector<3xf32>, tensor<5xf32>""",
            "vector.transfer_read 'line 4:7': no conversion to linalg on tensors is known for it",
        ),
        (
            """ %c = arith.constant 0 : index
 %v = tensor.extract %a0[%c] : tensor<3xf32>
 %w = math.exp %v : f32
 %r = tensor.from_elements %w, %w, %w, %w, %w : tensor<5xf32>""",
            "math.exp 'line 4:7': the host would have to compute a scalar of type f32",
        ),
    ],
)
def test_what_has_no_form_is_refused_with_its_place(body, message):
    with pytest.raises(UnsupportedError) as refused:
        _compiled(["tensor<3xf32>"], "tensor<5xf32>", body)
    assert message in str(refused.value)


def test_padded_tensors_are_inserted_with_steps() -> None:
    body = """
 %zero = arith.constant 0.0 : f32
 %p = tensor.pad %a0 low[1, 2] high[0, 1] {
 ^bb0(%i: index, %j: index):
   tensor.yield %zero : f32
 } : tensor<3x5xf32> to tensor<4x8xf32>
 %e = tensor.empty() : tensor<8x24xf32>
 %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x24xf32>) -> tensor<8x24xf32>
 %r = tensor.insert_slice %p into %f[1, 0] [4, 8] [2, 3] : tensor<4x8xf32> into tensor<8x24xf32>"""
    expected = np.zeros((8, 24), np.float32)
    expected[1::2, ::3] = np.pad(X, ((1, 0), (2, 1)))
    np.testing.assert_array_equal(_compiled([_T], "tensor<8x24xf32>", body)(X), expected)
