from __future__ import annotations

import math

import numpy as np
import pytest

from rillet import targets
from rillet.codegen.result import CodegenOptions
from tests.support.kernel_harness import Kernel, kernel_text
from tests.support.kernel_texts import PACK, assert_close, conv2d_reference, pack, reduction, tensor, zero_init
from tests.support.targets import with_machine


def _identity(rank: int) -> str:
    loops = ", ".join(f"d{i}" for i in range(rank))
    return f"affine_map<({loops})->({loops})>"


def _pointwise(name: str, operands: str, types: str, result: str, body: str, rank: int, count: int) -> str:
    kinds = ", ".join(['"parallel"'] * rank)
    maps = ", ".join([_identity(rank)] * (count + 1))
    arguments = ", ".join(f"%i{n}: f32" for n in range(count))
    return f"""
{name} = linalg.generic {{indexing_maps=[{maps}], iterator_types=[{kinds}]}}
    ins({operands} : {types}) outs(%e : {result}) {{
^bb0({arguments}, %o: f32):
{body}
}} -> {result}"""


def _matmul_root(m: int, n: int, k: int) -> tuple[str, str, str, str]:
    result, left, right = tensor((m, n)), tensor((m, k)), tensor((-(-n // PACK), k, PACK))
    maps = ("m, k", f"n floordiv {PACK}, k, n mod {PACK}", "m, n")
    return result, left, right, zero_init(result) + reduction(result, left, right, "m, n, k", maps, "ppr")


@pytest.mark.parametrize("target", ["host", "x86-64-v2"])
def test_a_costly_epilogue_and_a_residual_input(target: str) -> None:
    m, n, k = 13, 40, 24
    result, left, right, body = _matmul_root(m, n, k)
    sigmoid = """  %n = arith.negf %i0 : f32
  %x = math.exp %n : f32
  %one = arith.constant 1.0 : f32
  %d = arith.addf %x, %one : f32
  %q = arith.divf %i0, %d : f32
  %s = arith.addf %q, %i1 : f32
  linalg.yield %s : f32"""
    body += _pointwise("%1", "%0, %r", f"{result}, {result}", result, sigmoid, 2, 2)
    text = kernel_text("swish", f"%a: {left}, %b: {right}, %r: {result}", result, f"{body}\nreturn %1 : {result}")
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    r = rng.standard_normal((m, n), np.float32)
    kernel = Kernel(text, target)
    assert kernel.compiled.strategy == "contraction"
    [y] = kernel([a, pack(b), r], [((m, n), np.float32)])
    z = a.astype(np.float64) @ b
    assert_close(y, z / (1 + np.exp(-z)) + r)


@pytest.mark.parametrize(("m", "n"), [(300, 240), (61, 250)])
def test_a_residual_that_is_fetched_ahead(m: int, n: int) -> None:
    k = 24
    result, left, right, body = _matmul_root(m, n, k)
    add = "  %s = arith.addf %i0, %i1 : f32\n  linalg.yield %s : f32"
    body += _pointwise("%1", "%0, %r", f"{result}, {result}", result, add, 2, 2)
    text = kernel_text("residual", f"%a: {left}, %b: {right}, %r: {result}", result, f"{body}\nreturn %1 : {result}")
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    r = rng.standard_normal((m, n), np.float32)
    small = with_machine(targets.get("x86-64-v3"), l2_bytes=1 << 16)
    kernel = Kernel(text, small, CodegenOptions(keep_intermediates=True))
    assert "prefetcht0" in kernel.compiled.assembly
    [y] = kernel([a, pack(b), r], [((m, n), np.float32)])
    assert_close(y, a.astype(np.float64) @ b + r)


def test_a_costly_epilogue_with_dynamic_rows() -> None:
    n, k = 40, 24
    result, left, right = f"tensor<?x{n}xf32>", f"tensor<?x{k}xf32>", tensor((3, k, PACK))
    maps = ("m, k", f"n floordiv {PACK}, k, n mod {PACK}", "m, n")
    body = zero_init(result, dynamic="%m") + reduction(result, left, right, "m, n, k", maps, "ppr")
    gelu = """  %h = arith.constant 0.5 : f32
  %f = math.erf %i0 : f32
  %g = arith.mulf %i0, %f : f32
  %s = arith.mulf %g, %h : f32
  linalg.yield %s : f32"""
    body += _pointwise("%1", "%0", result, result, gelu, 2, 1)
    dims = "{flow.dims = array<i64: 2>}"
    text = kernel_text(
        "gelu", f"%a: {left} {dims}, %b: {right}, %m: index", f"{result} {dims}", f"{body}\nreturn %1 : {result}"
    )
    kernel = Kernel(text)
    assert kernel.compiled.strategy == "contraction"
    rng = np.random.default_rng(0)
    b = rng.standard_normal((k, n), np.float32)
    for m in (1, 5, 6, 26):
        a = rng.standard_normal((m, k), np.float32)
        [y] = kernel([a, pack(b)], [((m, n), np.float32)], [m])
        z = a.astype(np.float64) @ b
        assert_close(y, z * np.vectorize(math.erf)(z) / 2)


def test_two_results_one_of_them_the_sum_itself() -> None:
    m, n, k = 9, 20, 11
    result, left, right, body = _matmul_root(m, n, k)
    relu = "  %s = arith.maximumf %i0, %zero : f32\n  linalg.yield %s : f32"
    body += _pointwise("%1", "%0", result, result, relu, 2, 1)
    text = kernel_text(
        "two", f"%a: {left}, %b: {right}", f"{result}, {result}", f"{body}\nreturn %0, %1 : {result}, {result}"
    )
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    y, z = Kernel(text)([a, pack(b)], [((m, n), np.float32)] * 2)
    assert_close(y, a.astype(np.float64) @ b)
    assert_close(z, np.maximum(a.astype(np.float64) @ b, 0))


def test_sums_start_from_a_tensor() -> None:
    m, n, k = 9, 20, 11
    result, left, right, _ = _matmul_root(m, n, k)
    maps = ("m, k", f"n floordiv {PACK}, k, n mod {PACK}", "m, n")
    body = reduction(result, left, right, "m, n, k", maps, "ppr") + f"\nreturn %0 : {result}"
    text = kernel_text("from", f"%a: {left}, %b: {right}, %init: {result}", result, body)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    c = rng.standard_normal((m, n), np.float32)
    [y] = Kernel(text)([a, pack(b), c], [((m, n), np.float32)])
    assert_close(y, a.astype(np.float64) @ b + c)


@pytest.mark.parametrize("target", ["host", "x86-64-v2"])
@pytest.mark.parametrize(("low", "high"), [((0, 1, 1, 0), (0, 1, 1, 0)), ((0, 0, 2, 3), (1, 1, 0, 5))])
def test_a_padded_result(target: str, low: tuple[int, ...], high: tuple[int, ...]) -> None:
    shape, ic, size = (1, 7, 7, 24), 8, (9, 9)
    padded = tuple(a + b + c for a, b, c in zip(low, shape, high, strict=True))
    result, out = tensor(shape), tensor(padded)
    left, right = tensor((1, *size, ic)), tensor((2, 3, 3, ic, PACK))
    maps = ("n, h + i, w + j, c", f"o floordiv {PACK}, i, j, c, o mod {PACK}", "n, h, w, o")
    body = zero_init(result) + reduction(result, left, right, "n, h, w, o, i, j, c", maps, "pppprrr")
    lows, highs = (str(list(x)) for x in (low, high))
    body += f"""
%v = arith.constant -3.0 : f32
%1 = tensor.pad %0 low{lows} high{highs} {{
^bb0(%i0: index, %i1: index, %i2: index, %i3: index):
  tensor.yield %v : f32
}} : {result} to {out}
return %1 : {out}"""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, *size, ic), np.float32)
    w = rng.standard_normal((3, 3, ic, 24), np.float32)
    kernel = Kernel(kernel_text("padded", f"%a: {left}, %b: {right}", out, body), target)
    assert kernel.compiled.strategy == "contraction"
    [y] = kernel([x, pack(w)], [(padded, np.float32)])
    expected = np.pad(conv2d_reference(x, w), list(zip(low, high, strict=True)), constant_values=-3.0)
    assert_close(y, expected)


def test_a_result_under_another_shape() -> None:
    m, n, k = 6, 32, 5
    result, left, right, body = _matmul_root(m, n, k)
    out = tensor((2, 3, 32))
    body += (
        f"\n%1 = tensor.expand_shape %0 [[0, 1], [2]] output_shape [2, 3, 32] : {result} into {out}\nreturn %1 : {out}"
    )
    text = kernel_text("shaped", f"%a: {left}, %b: {right}", out, body)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    [y] = Kernel(text)([a, pack(b)], [((2, 3, 32), np.float32)])
    assert_close(y, (a.astype(np.float64) @ b).reshape(2, 3, 32))


def test_a_transposed_result_is_stored_lane_by_lane() -> None:
    """The column loop is the last axis of the root, whatever happens to the result behind it."""
    m, n, k = 7, 20, 5
    result, left, right, body = _matmul_root(m, n, k)
    out = tensor((n, m))
    body += f"""
%t = tensor.empty() : {out}
%1 = linalg.generic {{indexing_maps=[affine_map<(i, j)->(i, j)>, affine_map<(i, j)->(j, i)>],
    iterator_types=["parallel", "parallel"]}} ins(%0 : {result}) outs(%t : {out}) {{
^bb0(%x: f32, %o: f32):
  linalg.yield %x : f32
}} -> {out}
return %1 : {out}"""
    text = kernel_text("turned", f"%a: {left}, %b: {right}", out, body)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    [y] = Kernel(text)([a, pack(b)], [((n, m), np.float32)])
    assert_close(y, (a.astype(np.float64) @ b).T)


@pytest.mark.parametrize("offset", [0, 24, 13])
def test_a_result_written_into_a_part_of_a_tensor(offset: int) -> None:
    """A concatenation whose parts are computed in place: the rest of the tensor stays as it is."""
    m, n, k = 13, 24, 8
    result, left, right, body = _matmul_root(m, n, k)
    whole = tensor((m, 61))
    relu = "  %s = arith.maximumf %i0, %zero : f32\n  linalg.yield %s : f32"
    body += _pointwise("%1", "%0", result, result, relu, 2, 1)
    body += f"""
%2 = tensor.insert_slice %1 into %all[0, {offset}] [{m}, {n}] [1, 1] : {result} into {whole}
return %2 : {whole}"""
    arguments = f"%a: {left}, %b: {right}, %all: {whole}"
    text = kernel_text("part", arguments, whole, body, "attributes {flow.tied = array<i64: 0, 2>}")
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    c = rng.standard_normal((m, 61), np.float32)
    expected = c.copy()
    expected[:, offset : offset + n] = np.maximum(a.astype(np.float64) @ b, 0)
    kernel = Kernel(text)
    assert kernel.compiled.strategy == "contraction"
    assert kernel.run([a, pack(b), c, c]) == 0
    assert_close(c, expected)
