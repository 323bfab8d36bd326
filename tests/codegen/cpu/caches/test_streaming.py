"""Results too large for the caches: stored past them where their memory allows, with the same values."""

from __future__ import annotations

import numpy as np
import pytest

from rillet import targets
from rillet.codegen.result import CodegenOptions
from tests.support.kernel_harness import Kernel, aligned, generic, kernel_text
from tests.support.softmax_kernels import numpy_softmax, softmax
from tests.support.targets import with_machine

F32 = np.float32
SMALL_CACHE = with_machine(targets.get("x86-64-v3"), l2_bytes=16 * 1024, l3_bytes=24 * 1024)
ASSEMBLY = CodegenOptions(keep_intermediates=True)
SHAPE = (64, 96)


def elementwise(op: str = "arith.addf %x, %y", attributes: str = "", rows: int = 64) -> str:
    t = f"tensor<{rows}x96xf32>"
    same = "(d0,d1)->(d0,d1)"
    body = generic(
        f"{same}|{same}|{same}",
        "pp",
        f"%a,%b:{t},{t}",
        f"%e:{t}",
        "%x:f32,%y:f32,%o:f32",
        f"%s = {op} : f32",
        "%s:f32",
    )
    return kernel_text(
        "add", f"%a: {t}, %b: {t}", t, f"%e = tensor.empty() : {t}\n%r = {body}\nreturn %r : {t}", attributes
    )


def arrays(count: int, offset: int = 0) -> list[np.ndarray]:
    """Arrays whose data start ``offset`` bytes behind the start of a cache line."""
    size = 4 * int(np.prod(SHAPE))
    rng = np.random.default_rng(0)
    found = [aligned(size + 64)[offset : offset + size].view(F32).reshape(SHAPE) for _ in range(count)]
    for array in found:
        array[...] = rng.standard_normal(SHAPE)
    return found


@pytest.mark.parametrize("offset", [0, 4, 32])
def test_result_anywhere_in_a_line(offset: int) -> None:
    kernel = Kernel(elementwise(), SMALL_CACHE, ASSEMBLY)
    assert "vmovntps" in kernel.compiled.assembly
    a, b, r = arrays(3, offset)
    assert kernel.run([a, b, r]) == 0
    np.testing.assert_array_equal(r, a + b)


def test_result_in_an_argument_s_memory() -> None:
    kernel = Kernel(elementwise(attributes="attributes {flow.may_alias = array<i64: 0, 0>}"), SMALL_CACHE, ASSEMBLY)
    assert "vmovntps" in kernel.compiled.assembly
    a, b, r = arrays(3)
    want = a + b
    assert kernel.run([a, b, r]) == 0
    np.testing.assert_array_equal(r, want)
    assert kernel.run([a, b, a]) == 0
    np.testing.assert_array_equal(a, want)


def test_rows_of_a_mean_subtracted() -> None:
    t, r, same, kept = "tensor<64x96xf32>", "tensor<64xf32>", "(d0,d1)->(d0,d1)", "(d0,d1)->(d0)"
    add = "%s = arith.addf %o, %x : f32"
    total = generic(f"{same}|{kept}", "pr", f"%a:{t}", f"%i:{r}", "%x:f32,%o:f32", add, "%s:f32")
    centre = "%m = arith.divf %y, %n : f32;%s = arith.subf %x, %m : f32"
    result = generic(
        f"{same}|{kept}|{same}", "pp", f"%a,%t:{t},{r}", f"%e:{t}", "%x:f32,%y:f32,%o:f32", centre, "%s:f32"
    )
    body = f"""
    %zero = arith.constant 0.0 : f32
    %n = arith.constant 96.0 : f32
    %re = tensor.empty() : {r}
    %e = tensor.empty() : {t}
    %i = linalg.fill ins(%zero : f32) outs(%re : {r}) -> {r}
    %t = {total}
    %r = {result}
    return %r : {t}"""
    kernel = Kernel(kernel_text("centre", f"%a: {t}", t, body), SMALL_CACHE, ASSEMBLY)
    assert "vmovntps" in kernel.compiled.assembly
    for offset in (0, 4):
        a, out = arrays(2, offset)
        assert kernel.run([a, out]) == 0
        np.testing.assert_allclose(out, a - a.mean(1, keepdims=True), atol=1e-6)


def test_shares_of_a_softmax_whose_exponentials_are_kept_elsewhere() -> None:
    kernel = Kernel(softmax(*SHAPE, 1), SMALL_CACHE, ASSEMBLY)
    assert "vmovntps" in kernel.compiled.assembly
    assert kernel.compiled.local_memory_size == 4 * 4 * SHAPE[1]  # of the rows that are computed side by side
    for offset in (0, 4):
        a, out = arrays(2, offset)
        a *= 5
        assert kernel.run([a, out]) == 0
        np.testing.assert_allclose(out, numpy_softmax(a, 1), rtol=2e-6, atol=1e-9)


@pytest.mark.parametrize(
    "text",
    [
        softmax(64, 96, 0),  # the exponentials that stages keep are in the result's memory
        softmax(2, 6144, 1),  # and where a row takes much of the L2 cache
        elementwise(rows=31),  # the cache holds it
        elementwise(attributes="attributes {flow.tied = array<i64: 0, 0>}"),
    ],
)
def test_what_is_not_streamed(text: str) -> None:
    assert "vmovntps" not in Kernel(text, SMALL_CACHE, ASSEMBLY).compiled.assembly
