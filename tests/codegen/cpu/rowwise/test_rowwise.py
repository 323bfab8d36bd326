"""Row-wise kernels against numpy: normalizations, means, argmax, other reductions, static and dynamic."""

from __future__ import annotations

import numpy as np
import pytest

from rillet import targets
from rillet.codegen.cpu.compile import compile_kernel
from rillet.errors import CompileError
from tests.support.kernel_harness import Kernel, generic, kernel_text

F32 = np.float32
TARGETS = ["x86-64-v2", "x86-64-v3", "host"]
ID = "(d0,d1)->(d0,d1)"


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(F32)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("op", ["arith.maximumf", "arith.minimumf"])
def test_extremum_of_a_row_finds_nan_and_infinities_in_any_lane(op: str, target: str) -> None:
    columns = 45
    kind = f"tensor<{columns}x{columns}xf32>"
    initial = "0xFF800000" if op == "arith.maximumf" else "0x7F800000"
    body = f"""
    %c = arith.constant {initial} : f32
    %e = tensor.empty() : tensor<{columns}xf32>
    %i = linalg.fill ins(%c : f32) outs(%e : tensor<{columns}xf32>) -> tensor<{columns}xf32>
    %r = {
        generic(
            f"{ID}|(d0,d1)->(d0)",
            "pr",
            f"%a:{kind}",
            f"%i:tensor<{columns}xf32>",
            "%x:f32,%o:f32",
            f"%s = {op} %x, %o : f32",
            "%s:f32",
        )
    }
    return %r : tensor<{columns}xf32>"""
    kernel = Kernel(kernel_text("extremum", f"%a: {kind}", f"tensor<{columns}xf32>", body), target)
    for value in (np.nan, np.inf, -np.inf):
        a = random(columns, columns)
        np.fill_diagonal(a, value)
        (r,) = kernel([a], [((columns,), F32)])
        np.testing.assert_array_equal(r, a.max(1) if op == "arith.maximumf" else a.min(1))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(2, 384), (7, 13), (1, 1)])
def test_layer_normalization(target: str, shape: tuple[int, int]) -> None:
    n, c = shape
    t, r, v, row = f"tensor<{n}x{c}xf32>", f"tensor<{n}xf32>", f"tensor<{c}xf32>", "(d0,d1)->(d0)"
    body = f"""
    %zero = arith.constant 0.0 : f32
    %count = arith.constant {float(c)} : f32
    %eps = arith.constant 1.0e-5 : f32
    %e = tensor.empty() : {t}
    %re = tensor.empty() : {r}
    %i = linalg.fill ins(%zero : f32) outs(%re : {r}) -> {r}
    %sum = {
        generic(f"{ID}|{row}", "pr", f"%a:{t}", f"%i:{r}", "%x:f32,%o:f32", "%s = arith.addf %x, %o : f32", "%s:f32")
    }
    %mean = {
        generic(
            "(d0)->(d0)|(d0)->(d0)",
            "p",
            f"%sum:{r}",
            f"%re:{r}",
            "%x:f32,%o:f32",
            "%s = arith.divf %x, %count : f32",
            "%s:f32",
        )
    }
    %d = {
        generic(
            f"{ID}|{row}|{ID}",
            "pp",
            f"%a,%mean:{t},{r}",
            f"%e:{t}",
            "%x:f32,%y:f32,%o:f32",
            "%s = arith.subf %x, %y : f32",
            "%s:f32",
        )
    }
    %var = {
        generic(
            f"{ID}|{row}",
            "pr",
            f"%d:{t}",
            f"%i:{r}",
            "%x:f32,%o:f32",
            "%q = arith.mulf %x, %x : f32;%s = arith.addf %o, %q : f32",
            "%s:f32",
        )
    }
    %out = {
        generic(
            f"{ID}|{row}|(d0,d1)->(d1)|(d0,d1)->(d1)|{ID}",
            "pp",
            f"%d,%var,%g,%b:{t},{r},{v},{v}",
            f"%e:{t}",
            "%x:f32,%vv:f32,%gg:f32,%bb:f32,%o:f32",
            "%m = arith.divf %vv, %count : f32;%p = arith.addf %m, %eps : f32;%is = math.rsqrt %p : f32;"
            "%k = arith.mulf %x, %is : f32;%l = arith.mulf %k, %gg : f32;%s = arith.addf %l, %bb : f32",
            "%s:f32",
        )
    }
    return %out, %mean : {t}, {r}"""
    kernel = Kernel(kernel_text("norm", f"%a: {t}, %g: {v}, %b: {v}", f"{t}, {r}", body), target)
    a, g, b = random(n, c), random(c, seed=1), random(c, seed=2)
    out, mean = kernel([a, g, b], [(shape, F32), ((n,), F32)])
    wide = a.astype(np.float64)
    want = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * g + b
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(mean, wide.mean(1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("channels", [3, 16, 100])
def test_mean_over_the_middle_axes_with_unit_dimensions_kept(target: str, channels: int) -> None:
    t, r, k = f"tensor<2x7x5x{channels}xf32>", f"tensor<2x{channels}xf32>", f"tensor<2x1x1x{channels}xf32>"
    body = f"""
    %zero = arith.constant 0.0 : f32
    %count = arith.constant 35.0 : f32
    %re = tensor.empty() : {r}
    %i = linalg.fill ins(%zero : f32) outs(%re : {r}) -> {r}
    %sum = {
        generic(
            "(d0,d1,d2,d3)->(d0,d1,d2,d3)|(d0,d1,d2,d3)->(d0,d3)",
            "prrp",
            f"%a:{t}",
            f"%i:{r}",
            "%x:f32,%o:f32",
            "%s = arith.addf %x, %o : f32",
            "%s:f32",
        )
    }
    %mean = {
        generic(
            "(d0,d1)->(d0,d1)|(d0,d1)->(d0,d1)",
            "pp",
            f"%sum:{r}",
            f"%re:{r}",
            "%x:f32,%o:f32",
            "%s = arith.divf %x, %count : f32",
            "%s:f32",
        )
    }
    %out = tensor.expand_shape %mean [[0, 1, 2], [3]] output_shape [2, 1, 1, {channels}] : {r} into {k}
    return %out : {k}"""
    a = random(2, 7, 5, channels)
    (out,) = Kernel(kernel_text("mean", f"%a: {t}", k, body), target)([a], [((2, 1, 1, channels), F32)])
    np.testing.assert_allclose(out, a.mean((1, 2), keepdims=True), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("target", ["x86-64-v2", "host"])
@pytest.mark.parametrize("axis", [0, 1])
def test_argmax_takes_the_first_of_equal_values(target: str, axis: int) -> None:
    n, m = 6, 43
    length, kept, kinds = (m, "(d0,d1)->(d0)", "pr") if axis else (n, "(d0,d1)->(d1)", "rp")
    r, ri = f"tensor<{n if axis else m}xf32>", f"tensor<{n if axis else m}xi64>"
    body = f"""
    %ninf = arith.constant 0xFF800000 : f32
    %zero = arith.constant 0 : i64
    %re = tensor.empty() : {r}
    %rj = tensor.empty() : {ri}
    %i0 = linalg.fill ins(%ninf : f32) outs(%re : {r}) -> {r}
    %i1 = linalg.fill ins(%zero : i64) outs(%rj : {ri}) -> {ri}
    %q:2 = {
        generic(
            f"{ID}|{kept}|{kept}",
            kinds,
            f"%a:tensor<{n}x{m}xf32>",
            f"%i0,%i1:{r},{ri}",
            "%x:f32,%o:f32,%p:i64",
            f"%j = linalg.index {axis} : index;%k = arith.index_cast %j : index to i64;"
            "%g = arith.cmpf ogt, %x, %o : f32;%v = arith.select %g, %x, %o : f32;"
            "%w = arith.select %g, %k, %p : i64",
            "%v,%w:f32,i64",
        )
    }
    return %q#1 : {ri}"""
    a = np.random.default_rng(0).integers(0, 9, (n, m)).astype(F32)
    kernel = Kernel(kernel_text("argmax", f"%a: tensor<{n}x{m}xf32>", ri, body), target)
    (out,) = kernel([a], [((n if axis else m,), np.int64)])
    np.testing.assert_array_equal(out, a.argmax(axis))
    assert length


@pytest.mark.parametrize("size", [1, 7, 100, 100_003])
def test_reduction_of_everything(size: int) -> None:
    body = f"""
    %c = arith.constant 3.0 : f32
    %e = tensor.empty() : tensor<f32>
    %i = linalg.fill ins(%c : f32) outs(%e : tensor<f32>) -> tensor<f32>
    %r = {
        generic(
            "(d0)->(d0)|(d0)->()",
            "r",
            f"%a:tensor<{size}xf32>",
            "%i:tensor<f32>",
            "%x:f32,%o:f32",
            "%s = arith.addf %o, %x : f32",
            "%s:f32",
        )
    }
    return %r : tensor<f32>"""
    a = random(size)
    (r,) = Kernel(kernel_text("sum", f"%a: tensor<{size}xf32>", "tensor<f32>", body))([a], [((), F32)])
    np.testing.assert_allclose(r, 3.0 + a.astype(np.float64).sum(), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("target", ["x86-64-v2", "host"])
@pytest.mark.parametrize(
    ("op", "dtype", "init", "reference"),
    [
        ("arith.maxsi", "i8", "-128", np.max),
        ("arith.minsi", "i32", "2147483647", np.min),
        ("arith.muli", "i64", "1", np.prod),
        ("arith.ori", "i1", "false", np.any),
        ("arith.andi", "i1", "true", np.all),
        ("arith.maximumf", "f64", "0xFFF0000000000000", np.max),
        ("arith.minimumf", "f32", "0x7F800000", np.min),
    ],
)
def test_kinds_of_reductions(target: str, op: str, dtype: str, init: str, reference: object) -> None:
    numpy_type = {"i8": np.int8, "i32": np.int32, "i64": np.int64, "i1": np.bool_, "f64": np.float64, "f32": F32}[dtype]
    constant = init if dtype == "i1" else f"{init} : {dtype}"
    body = f"""
    %c = arith.constant {constant}
    %e = tensor.empty() : tensor<5x{dtype}>
    %i = linalg.fill ins(%c : {dtype}) outs(%e : tensor<5x{dtype}>) -> tensor<5x{dtype}>
    %r = {
        generic(
            f"{ID}|(d0,d1)->(d0)",
            "pr",
            f"%a:tensor<5x77x{dtype}>",
            f"%i:tensor<5x{dtype}>",
            f"%x:{dtype},%o:{dtype}",
            f"%s = {op} %x, %o : {dtype}",
            f"%s:{dtype}",
        )
    }
    return %r : tensor<5x{dtype}>"""
    rng = np.random.default_rng(0)
    a: np.ndarray = (rng.integers(-3, 4, (5, 77)) if dtype != "i1" else rng.random((5, 77)) > 0.01).astype(numpy_type)
    kernel = Kernel(kernel_text("reduce", f"%a: tensor<5x77x{dtype}>", f"tensor<5x{dtype}>", body), target)
    (r,) = kernel([a], [((5,), numpy_type)])
    np.testing.assert_array_equal(r, reference(a, 1))  # type: ignore[operator]


def test_reduction_over_rows_and_columns_of_a_computed_value() -> None:
    body = f"""
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<6x5x9xf32>
    %re = tensor.empty() : tensor<5xf32>
    %i = linalg.fill ins(%zero : f32) outs(%re : tensor<5xf32>) -> tensor<5xf32>
    %q = {
        generic(
            "(d0,d1,d2)->(d0,d1,d2)|(d0,d1,d2)->(d0,d1,d2)",
            "ppp",
            "%a:tensor<6x5x9xf32>",
            "%e:tensor<6x5x9xf32>",
            "%x:f32,%o:f32",
            "%s = math.absf %x : f32",
            "%s:f32",
        )
    }
    %r = {
        generic(
            "(d0,d1,d2)->(d0,d1,d2)|(d0,d1,d2)->(d1)",
            "rpr",
            "%q:tensor<6x5x9xf32>",
            "%i:tensor<5xf32>",
            "%x:f32,%o:f32",
            "%s = arith.addf %o, %x : f32",
            "%s:f32",
        )
    }
    return %r : tensor<5xf32>"""
    a = random(6, 5, 9)
    (r,) = Kernel(kernel_text("norm1", "%a: tensor<6x5x9xf32>", "tensor<5xf32>", body))([a], [((5,), F32)])
    np.testing.assert_allclose(r, np.abs(a).sum((0, 2)), rtol=1e-5)


def test_chain_whose_second_reduction_crosses_the_rows_of_the_first() -> None:
    """max over columns, then the sum of those over rows: nothing is shared, so the maxima go through scratch memory."""
    body = f"""
    %zero = arith.constant 0.0 : f32
    %ninf = arith.constant 0xFF800000 : f32
    %re = tensor.empty() : tensor<6xf32>
    %i = linalg.fill ins(%ninf : f32) outs(%re : tensor<6xf32>) -> tensor<6xf32>
    %se = tensor.empty() : tensor<f32>
    %j = linalg.fill ins(%zero : f32) outs(%se : tensor<f32>) -> tensor<f32>
    %m = {
        generic(
            f"{ID}|(d0,d1)->(d0)",
            "pr",
            "%a:tensor<6x21xf32>",
            "%i:tensor<6xf32>",
            "%x:f32,%o:f32",
            "%s = arith.maximumf %o, %x : f32",
            "%s:f32",
        )
    }
    %r = {
        generic(
            "(d0)->(d0)|(d0)->()",
            "r",
            "%m:tensor<6xf32>",
            "%j:tensor<f32>",
            "%x:f32,%o:f32",
            "%s = arith.addf %o, %x : f32",
            "%s:f32",
        )
    }
    return %r : tensor<f32>"""
    a = random(6, 21)
    (r,) = Kernel(kernel_text("chain", "%a: tensor<6x21xf32>", "tensor<f32>", body))([a], [((), F32)])
    np.testing.assert_allclose(r, a.max(1).sum(), rtol=1e-5)


@pytest.mark.parametrize("size", [2, 8, 13])
def test_square_result_and_its_transposition(size: int) -> None:
    t, r = f"tensor<{size}x{size}xf32>", f"tensor<{size}xf32>"
    body = f"""
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : {t}
    %re = tensor.empty() : {r}
    %i = linalg.fill ins(%zero : f32) outs(%re : {r}) -> {r}
    %sum = {
        generic(
            f"{ID}|(d0,d1)->(d0)", "pr", f"%a:{t}", f"%i:{r}", "%x:f32,%o:f32", "%s = arith.addf %o, %x : f32", "%s:f32"
        )
    }
    %d = {
        generic(
            f"{ID}|(d0,d1)->(d0)|{ID}",
            "pp",
            f"%a,%sum:{t},{r}",
            f"%e:{t}",
            "%x:f32,%y:f32,%o:f32",
            "%s = arith.subf %x, %y : f32",
            "%s:f32",
        )
    }
    %u = {
        generic(
            f"{ID}|(d0,d1)->(d1,d0)", "pp", f"%d:{t}", f"%e:{t}", "%x:f32,%o:f32", "%s = arith.negf %x : f32", "%s:f32"
        )
    }
    return %d, %u : {t}, {t}"""
    a = random(size, size)
    kernel = Kernel(kernel_text("transposed", f"%a: {t}", f"{t}, {t}", body))
    d, u = kernel([a], [((size, size), F32), ((size, size), F32)])
    np.testing.assert_allclose(d, a - a.sum(1, keepdims=True), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(u, -d.T)


def test_maximum_of_a_row_that_is_spread_as_it_is() -> None:
    """What reads the maximum has a body of no operations."""
    t, r = "tensor<6x9xf32>", "tensor<6xf32>"
    body = f"""
    %ninf = arith.constant 0xFF800000 : f32
    %e = tensor.empty() : {t}
    %re = tensor.empty() : {r}
    %i = linalg.fill ins(%ninf : f32) outs(%re : {r}) -> {r}
    %m = {
        generic(
            f"{ID}|(d0,d1)->(d0)",
            "pr",
            f"%a:{t}",
            f"%i:{r}",
            "%x:f32,%o:f32",
            "%s = arith.maximumf %o, %x : f32",
            "%s:f32",
        )
    }
    %w = {generic(f"(d0,d1)->(d0)|{ID}", "pp", f"%m:{r}", f"%e:{t}", "%x:f32,%o:f32", "", "%x:f32")}
    return %w : {t}"""
    a = random(6, 9)
    (w,) = Kernel(kernel_text("spread", f"%a: {t}", t, body))([a], [((6, 9), F32)])
    np.testing.assert_array_equal(w, np.broadcast_to(a.max(1, keepdims=True), a.shape))


def test_costly_value_that_two_results_read_down_long_columns() -> None:
    """It is not kept in the memory of the result that is stored first."""
    shape = (2048, 40)
    t, r = f"tensor<{shape[0]}x{shape[1]}xf32>", f"tensor<{shape[1]}xf32>"
    column = "(d0,d1)->(d1)"
    scaled = (f"{ID}|{column}|{ID}", "pp", f"%p,%sum:{t},{r}", f"%e:{t}", "%x:f32,%y:f32,%o:f32")
    body = f"""
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : {t}
    %re = tensor.empty() : {r}
    %i = linalg.fill ins(%zero : f32) outs(%re : {r}) -> {r}
    %p = {generic(f"{ID}|{ID}", "pp", f"%a:{t}", f"%e:{t}", "%x:f32,%o:f32", "%s = math.exp %x : f32", "%s:f32")}
    %sum = {
        generic(f"{ID}|{column}", "rp", f"%p:{t}", f"%i:{r}", "%x:f32,%o:f32", "%s = arith.addf %o, %x : f32", "%s:f32")
    }
    %q = {generic(*scaled, "%s = arith.divf %x, %y : f32", "%s:f32")}
    %d = {generic(*scaled, "%s = arith.subf %x, %y : f32", "%s:f32")}
    return %q, %d : {t}, {t}"""
    a = random(*shape)
    q, d = Kernel(kernel_text("columns", f"%a: {t}", f"{t}, {t}", body))([a], [(shape, F32), (shape, F32)])
    powers = np.exp(a.astype(np.float64))
    np.testing.assert_allclose(q, powers / powers.sum(0), rtol=1e-5)
    np.testing.assert_allclose(d, powers - powers.sum(0), rtol=1e-5)


@pytest.mark.parametrize("shape", [(3, 5, 7), (17, 33, 64), (1, 1, 1)])
def test_matrix_product_with_dynamic_extents(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    dims = [f"{{flow.dims = array<i64: {x}, {y}>}}" for x, y in ((2, 3), (3, 4), (2, 4))]
    t = "tensor<?x?xf32>"
    body = f"""
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty(%m, %n) : {t}
    %i = linalg.fill ins(%zero : f32) outs(%e : {t}) -> {t}
    %r = {
        generic(
            "(d0,d1,d2)->(d0,d2)|(d0,d1,d2)->(d2,d1)|(d0,d1,d2)->(d0,d1)",
            "ppr",
            f"%a,%b:{t},{t}",
            f"%i:{t}",
            "%x:f32,%y:f32,%o:f32",
            "%p = arith.mulf %x, %y : f32;%s = arith.addf %o, %p : f32",
            "%s:f32",
        )
    }
    return %r : {t}"""
    arguments = f"%a: {t} {dims[0]}, %b: {t} {dims[1]}, %m: index, %k: index, %n: index"
    text = kernel_text("matmul", arguments, f"{t} {dims[2]}", body)
    a, b = random(m, k), random(k, n, seed=1)
    (r,) = Kernel(text)([a, b], [((m, n), F32)], [m, k, n])
    np.testing.assert_allclose(r, a @ b, rtol=1e-4, atol=1e-5)


def test_intermediate_of_unknown_size_is_refused() -> None:
    dims = "{flow.dims = array<i64: 1, 2>}"
    body = f"""
    %zero = arith.constant 0.0 : f32
    %re = tensor.empty(%n) : tensor<?xf32>
    %i = linalg.fill ins(%zero : f32) outs(%re : tensor<?xf32>) -> tensor<?xf32>
    %se = tensor.empty() : tensor<f32>
    %j = linalg.fill ins(%zero : f32) outs(%se : tensor<f32>) -> tensor<f32>
    %q = {
        generic(
            f"{ID}|(d0,d1)->(d0)",
            "pr",
            "%a:tensor<?x?xf32>",
            "%i:tensor<?xf32>",
            "%x:f32,%o:f32",
            "%s = arith.maximumf %o, %x : f32",
            "%s:f32",
        )
    }
    %r = {
        generic(
            "(d0)->(d0)|(d0)->()",
            "r",
            "%q:tensor<?xf32>",
            "%j:tensor<f32>",
            "%x:f32,%o:f32",
            "%s = arith.addf %o, %x : f32",
            "%s:f32",
        )
    }
    return %r : tensor<f32>"""
    text = kernel_text("chain", f"%a: tensor<?x?xf32> {dims}, %n: index, %m: index", "tensor<f32>", body)
    with pytest.raises(CompileError, match="only known at run time"):
        compile_kernel(text, targets.get("x86-64-v2"))
