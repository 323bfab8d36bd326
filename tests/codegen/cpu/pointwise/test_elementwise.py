"""Point-wise kernels against numpy: broadcasts, permutations, pads, slices, concatenations, gathers, types, tails."""

from __future__ import annotations

import numpy as np
import pytest

from rillet import targets
from rillet.codegen.cpu.compile import compile_kernel
from rillet.errors import CompileError
from tests.support.kernel_harness import Kernel, generic, kernel_text

TARGETS = ["x86-64-v2", "x86-64-v3", "host"]
F32 = np.float32


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(F32)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (2, 8), (5, 33), (37, 1001), (1, 20000)])
def test_add_with_broadcast_row(target: str, shape: tuple[int, int]) -> None:
    n, m = shape
    body = f"""
    %e = tensor.empty() : tensor<{n}x{m}xf32>
    %r = {
        generic(
            "(d0,d1)->(d0,d1)|(d0,d1)->(d1)|(d0,d1)->(d0,d1)",
            "pp",
            f"%a,%b:tensor<{n}x{m}xf32>,tensor<{m}xf32>",
            f"%e:tensor<{n}x{m}xf32>",
            "%x:f32,%y:f32,%o:f32",
            "%s = arith.addf %x, %y : f32",
            "%s:f32",
        )
    }
    return %r : tensor<{n}x{m}xf32>"""
    kernel = Kernel(
        kernel_text("add", f"%a: tensor<{n}x{m}xf32>, %b: tensor<{m}xf32>", f"tensor<{n}x{m}xf32>", body), target
    )
    a, b = random(n, m), random(m, seed=1)
    (r,) = kernel([a, b], [(shape, F32)])
    np.testing.assert_array_equal(r, a + b)


def test_two_results_of_different_shapes() -> None:
    body = f"""
    %e = tensor.empty() : tensor<6x10xf32>
    %f = tensor.empty() : tensor<10x6xf32>
    %r:2 = {
        generic(
            "(d0,d1)->(d0,d1)|(d0,d1)->(d0,d1)|(d0,d1)->(d1,d0)",
            "pp",
            "%a:tensor<6x10xf32>",
            "%e,%f:tensor<6x10xf32>,tensor<10x6xf32>",
            "%x:f32,%o:f32,%p:f32",
            "%s = arith.addf %x, %x : f32",
            "%s,%x:f32,f32",
        )
    }
    return %r#0, %r#1 : tensor<6x10xf32>, tensor<10x6xf32>"""
    kernel = Kernel(kernel_text("two", "%a: tensor<6x10xf32>", "tensor<6x10xf32>, tensor<10x6xf32>", body))
    a = random(6, 10)
    doubled, turned = kernel([a], [((6, 10), F32), ((10, 6), F32)])
    np.testing.assert_array_equal(doubled, a + a)
    np.testing.assert_array_equal(turned, a.T)


GATHER = """
    %e = tensor.empty() : tensor<5x12xf32>
    %r = GENERIC
    return %r : tensor<5x12xf32>""".replace(
    "GENERIC",
    generic(
        "(d0,d1)->(d0)|(d0,d1)->(d0,d1)",
        "pp",
        "%i:tensor<5xi64>",
        "%e:tensor<5x12xf32>",
        "%p:i64,%o:f32",
        "%q = arith.index_cast %p : i64 to index\n %j = linalg.index 1 : index\n"
        "%v = tensor.extract %t[%q,%j] : tensor<9x12xf32>",
        "%v:f32",
    ),
)


def test_gather_rows() -> None:
    kernel = Kernel(kernel_text("gather", "%t: tensor<9x12xf32>, %i: tensor<5xi64>", "tensor<5x12xf32>", GATHER))
    t, i = random(9, 12), np.array([8, 0, 3, 3, 7])
    (r,) = kernel([t, i], [((5, 12), F32)])
    np.testing.assert_array_equal(r, t[i])


@pytest.mark.parametrize("bad", [9, -1, 2**40])
def test_gather_out_of_bounds_fails_the_call(bad: int) -> None:
    kernel = Kernel(kernel_text("gather", "%t: tensor<9x12xf32>, %i: tensor<5xi64>", "tensor<5x12xf32>", GATHER))
    assert kernel.run([random(9, 12), np.array([1, 2, 3, 4, bad]), np.zeros((5, 12), F32)]) == 1


def test_gather_of_single_elements() -> None:
    body = "    %e = tensor.empty() : tensor<19xf32>\n    %r = " + generic(
        "(d0)->(d0)|(d0)->(d0)",
        "p",
        "%i:tensor<19xi32>",
        "%e:tensor<19xf32>",
        "%p:i32,%o:f32",
        "%q = arith.index_cast %p : i32 to index\n %v = tensor.extract %t[%q] : tensor<50xf32>",
        "%v:f32",
    )
    kernel = Kernel(
        kernel_text(
            "g", "%t: tensor<50xf32>, %i: tensor<19xi32>", "tensor<19xf32>", f"{body}\n return %r : tensor<19xf32>"
        )
    )
    t, i = random(50), np.random.default_rng(0).integers(0, 50, 19).astype(np.int32)
    (r,) = kernel([t, i], [((19,), F32)])
    np.testing.assert_array_equal(r, t[i])
    i[18] = 50
    assert kernel.run([t, i, np.zeros(19, F32)]) == 1


@pytest.mark.parametrize("extents", [(3, 8), (1, 1), (7, 1000), (0, 5), (5, 0)])
def test_dynamic_extents(extents: tuple[int, int]) -> None:
    n, m = extents
    body = """
    %e = tensor.empty(%n, %m) : tensor<?x?xf32>
    %r = GENERIC
    return %r : tensor<?x?xf32>""".replace(
        "GENERIC",
        generic(
            "(d0,d1)->(d0,d1)|(d0,d1)->(d0,d1)|(d0,d1)->(d0,d1)",
            "pp",
            "%a,%b:tensor<?x?xf32>,tensor<?x?xf32>",
            "%e:tensor<?x?xf32>",
            "%x:f32,%y:f32,%o:f32",
            "%s = arith.mulf %x, %y : f32",
            "%s:f32",
        ),
    )
    dims = "{flow.dims = array<i64: 2, 3>}"
    arguments = f"%a: tensor<?x?xf32> {dims}, %b: tensor<?x?xf32> {dims}, %n: index, %m: index"
    kernel = Kernel(kernel_text("dynamic", arguments, f"tensor<?x?xf32> {dims}", body))
    a, b = random(n, m), random(n, m, seed=1)
    (r,) = kernel([a, b], [(extents, F32)], [n, m])
    np.testing.assert_array_equal(r, a * b)


@pytest.mark.parametrize("target", ["x86-64-v2", "host"])
def test_bool_and_select(target: str) -> None:
    body = "    %e = tensor.empty() : tensor<27xi1>\n    %r = " + generic(
        "(d0)->(d0)|(d0)->(d0)|(d0)->(d0)|(d0)->(d0)",
        "p",
        "%a,%b,%c:tensor<27xi1>,tensor<27xf32>,tensor<27xf32>",
        "%e:tensor<27xi1>",
        "%x:i1,%y:f32,%z:f32,%o:i1",
        "%l = arith.cmpf olt, %y, %z : f32\n %s = arith.xori %x, %l : i1",
        "%s:i1",
    )
    kernel = Kernel(
        kernel_text(
            "b",
            "%a: tensor<27xi1>, %b: tensor<27xf32>, %c: tensor<27xf32>",
            "tensor<27xi1>",
            f"{body}\n return %r : tensor<27xi1>",
        ),
        target,
    )
    a = np.random.default_rng(0).integers(0, 2, 27).astype(bool)
    b, c = random(27), random(27, seed=1)
    (r,) = kernel([a, b, c], [((27,), np.bool_)])
    np.testing.assert_array_equal(r, a ^ (b < c))


def test_scalar_argument_and_rank_zero() -> None:
    body = "    %e = tensor.empty() : tensor<f32>\n    %r = " + generic(
        "()->()|()->()",
        "",
        "%a:tensor<f32>",
        "%e:tensor<f32>",
        "%x:f32,%o:f32",
        "%s = arith.mulf %x, %k : f32",
        "%s:f32",
    )
    kernel = Kernel(kernel_text("s", "%a: tensor<f32>, %k: f32", "tensor<f32>", f"{body}\n return %r : tensor<f32>"))
    (r,) = kernel([np.array(3.5, F32)], [((), F32)], [2.0])
    assert r == 7.0


def test_in_place_update_through_aliasing_bindings() -> None:
    body = "    %e = tensor.empty() : tensor<100xf32>\n    %r = " + generic(
        "(d0)->(d0)|(d0)->(d0)", "p", "%a:tensor<100xf32>", "%e:tensor<100xf32>", "%x:f32,%o:f32",
        "%s = arith.addf %x, %x : f32", "%s:f32",
    )  # fmt: skip
    text = kernel_text(
        "inplace", "%a: tensor<100xf32>", "tensor<100xf32>", f"{body}\n return %r : tensor<100xf32>",
        "attributes {flow.may_alias = array<i64: 0, 0>}",
    )  # fmt: skip
    a = random(100)
    want = a + a
    assert Kernel(text).run([a, a]) == 0
    np.testing.assert_array_equal(a, want)


def test_object_for_aarch64_needs_nothing_and_is_reproducible() -> None:
    text = kernel_text("gather", "%t: tensor<9x12xf32>, %i: tensor<5xi64>", "tensor<5x12xf32>", GATHER)
    first = compile_kernel(text, targets.get("aarch64"))
    assert first.object == compile_kernel(text, targets.get("aarch64")).object
    assert (first.binding_count, first.constant_count, first.strategy) == (3, 0, "elementwise")


def test_invalid_text_is_a_compile_error() -> None:
    with pytest.raises(CompileError, match="not valid MLIR"):
        compile_kernel("builtin.module @x { nonsense }", targets.get("x86-64-v2"))


def test_missing_dims_is_a_compile_error() -> None:
    body = "return %a : tensor<?xf32>"
    with pytest.raises(CompileError, match=r"flow\.dims"):
        compile_kernel(
            kernel_text("x", "%a: tensor<?xf32>, %n: index", "tensor<?xf32>", body), targets.get("x86-64-v2")
        )
