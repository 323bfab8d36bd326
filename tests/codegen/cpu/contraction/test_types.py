from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.support.kernel_harness import Kernel, kernel_text
from tests.support.kernel_texts import PACK, assert_close, pack, reduction, tensor, zero_init

_MAPS = ("m, k", f"n floordiv {PACK}, k, n mod {PACK}", "m, n")


def _widening(m: int, n: int, k: int, storage: str, sums: str, extend: str, out: str = "") -> str:
    """A product of ``storage`` operands summed in ``sums``, stored as ``out`` (truncated in the body) when given."""
    result, left, right = (
        tensor((m, n), out or sums),
        tensor((m, k), storage),
        tensor((-(-n // PACK), k, PACK), storage),
    )
    add, mul = ("arith.addf", "arith.mulf") if sums.startswith("f") else ("arith.addi", "arith.muli")
    zero = "0.0" if sums.startswith("f") else "0"
    wide = f"%w = arith.extf %c : {out} to {sums}" if out else ""
    narrow = f"%t = arith.truncf %s : {sums} to {out}" if out else ""
    body = f"""
%zero = arith.constant {zero} : {out or sums}
%e = tensor.empty() : {result}
%init = linalg.fill ins(%zero : {out or sums}) outs(%e : {result}) -> {result}
%0 = linalg.generic {{indexing_maps=[{", ".join(f"affine_map<(m, n, k)->({m})>" for m in _MAPS)}],
    iterator_types=["parallel", "parallel", "reduction"]}}
    ins(%a, %b : {left}, {right}) outs(%init : {result}) {{
^bb0(%x: {storage}, %y: {storage}, %c: {out or sums}):
  %p = {extend} %x : {storage} to {sums}
  %q = {extend} %y : {storage} to {sums}
  %r = {mul} %p, %q : {sums}
  {wide}
  %s = {add} {"%w" if out else "%c"}, %r : {sums}
  {narrow}
  linalg.yield {"%t" if out else "%s"} : {out or sums}
}} -> {result}
return %0 : {result}"""
    return kernel_text("wide", f"%a: {left}, %b: {right}", result, body)


@pytest.mark.parametrize("target", ["host", "x86-64-v2"])
def test_f64(target: str) -> None:
    m, n, k = 9, 21, 13
    result, left, right = tensor((m, n), "f64"), tensor((m, k), "f64"), tensor((2, k, PACK), "f64")
    body = zero_init(result, "f64") + reduction(result, left, right, "m, n, k", _MAPS, "ppr", "f64")
    text = kernel_text("double", f"%a: {left}, %b: {right}", result, f"{body}\nreturn %0 : {result}")
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    kernel = Kernel(text, target)
    assert kernel.compiled.strategy == "contraction"
    [y] = kernel([a, pack(b)], [((m, n), np.float64)])
    assert_close(y, a @ b, 1e-13)


@pytest.mark.parametrize("target", ["host", "x86-64-v2"])
@pytest.mark.parametrize(("name", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
@pytest.mark.parametrize("narrow", [False, True])
def test_small_floats_are_summed_in_f32(target: str, name: str, dtype: type, narrow: bool) -> None:
    m, n, k = 7, 24, 40
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(dtype) for s in ((m, k), (k, n)))
    kernel = Kernel(_widening(m, n, k, name, "f32", "arith.extf", name if narrow else ""), target)
    assert kernel.compiled.strategy == "contraction"
    [y] = kernel([a, pack(b)], [((m, n), dtype if narrow else np.float32)])
    expected = a.astype(np.float64) @ b.astype(np.float64)
    if narrow:
        # One rounding at the end: nothing is lost in between.
        assert np.abs(y.astype(np.float64) - expected).max() <= np.abs(expected).max() * 2.0 ** (
            -11 if name == "f16" else -8
        )
    else:
        assert_close(y, expected)


@pytest.mark.parametrize("target", ["host", "x86-64-v2"])
def test_i8_to_i32(target: str) -> None:
    m, n, k = 11, 37, 29
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, s).astype(np.int8) for s in ((m, k), (k, n)))
    kernel = Kernel(_widening(m, n, k, "i8", "i32", "arith.extsi"), target)
    assert kernel.compiled.strategy == "contraction"
    [y] = kernel([a, pack(b)], [((m, n), np.int32)])
    np.testing.assert_array_equal(y, a.astype(np.int32) @ b.astype(np.int32))
