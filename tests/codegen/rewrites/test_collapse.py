"""Merging of dimensions: what merges, what does not, and that the kernel still computes the same."""

from __future__ import annotations

import numpy as np
from torch_mlir import ir

from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.codegen.rewrites.collapse import collapse
from rillet.ir import make_context
from tests.support.kernel_harness import Kernel, generic, kernel_text

NHWC = "(d0,d1,d2,d3)->(d0,d1,d2,d3)"


def shapes(text: str) -> list[list[int]]:
    """Argument and result shapes after collapsing; empty when nothing was merged."""
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        (nested,) = module.body.operations
        dispatch = KernelFunction(ir.Module.parse(str(nested)))
        if not collapse(dispatch):
            return []
        after = KernelFunction(dispatch.module)
        return [list(p.type.shape) for p in (*after.arguments, *after.results)]


def bias(shape: tuple[int | str, ...] = (1, 7, 5, 12)) -> str:
    t = "tensor<" + "x".join(map(str, shape)) + "xf32>"
    sizes = "%n" if "?" in shape else ""
    note = " {flow.dims = array<i64: 2>}" if sizes else ""
    body = f"""
    %e = tensor.empty({sizes}) : {t}
    %r = {
        generic(
            f"{NHWC}|(d0,d1,d2,d3)->(d3)|{NHWC}",
            "pppp",
            f"%a,%b:{t},tensor<12xf32>",
            f"%e:{t}",
            "%x:f32,%y:f32,%o:f32",
            "%s = arith.addf %x, %y : f32",
            "%s:f32",
        )
    }
    return %r : {t}"""
    return kernel_text("bias", f"%a: {t}{note}, %b: tensor<12xf32>{', %n: index' if sizes else ''}", f"{t}{note}", body)


def test_leading_dimensions_merge_beside_a_broadcast_row() -> None:
    assert shapes(bias()) == [[35, 12], [12], [35, 12]]


def test_dynamic_dimensions_merge_into_their_product() -> None:
    dynamic = ir.ShapedType.get_dynamic_size()
    text = bias(("?", 7, 5, 12))
    assert shapes(text) == [[dynamic, 12], [12], [dynamic, 12]]
    a, b = (np.random.default_rng(0).random(shape, np.float32) for shape in ((3, 7, 5, 12), (12,)))
    (r,) = Kernel(text)([a, b], [((3, 7, 5, 12), np.float32)], [3])
    np.testing.assert_array_equal(r, a + b)


def test_a_kernel_that_only_copies_has_no_tensor_to_compute_the_product_before() -> None:
    tensor = "tensor<3x?xf32> {flow.dims = array<i64: 1>}"
    text = kernel_text("copy", f"%a: {tensor}, %n: index", tensor, "return %a : tensor<3x?xf32>")
    assert shapes(text) == [[ir.ShapedType.get_dynamic_size()]] * 2


def test_a_dynamic_padded_axis_takes_those_behind_it() -> None:
    source, result = "tensor<1x?x?x3xf32>", "tensor<1x?x?x3xf32>"
    body = f"""
    %v = arith.constant 2.0 : f32
    %r = tensor.pad %a low[0, 1, 1, 0] high[0, 1, 1, 0] {{
    ^bb0(%i: index, %j: index, %k: index, %l: index):
      tensor.yield %v : f32
    }} : {source} to {result}
    return %r : {result}"""
    arguments = f"%a: {source} {{flow.dims = array<i64: 1, 2>}}, %h: index, %w: index, %p: index, %q: index"
    text = kernel_text("padded", arguments, f"{result} {{flow.dims = array<i64: 3, 4>}}", body)
    dynamic = ir.ShapedType.get_dynamic_size()
    assert shapes(text) == [[1, dynamic, dynamic]] * 2
    kernel = Kernel(text)
    for height, width in ((5, 7), (1, 1), (0, 3)):
        x = np.random.default_rng(0).standard_normal((1, height, width, 3), np.float32)
        [y] = kernel([x], [((1, height + 2, width + 2, 3), np.float32)], [height, width, height + 2, width + 2])
        np.testing.assert_array_equal(y, np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=2))


def test_transposed_pairs_merge_as_a_unit() -> None:
    body = f"""
    %e = tensor.empty() : tensor<1x4x5x3xf32>
    %r = {
        generic(
            "(d0,d1,d2,d3)->(d0,d3,d1,d2)|" + NHWC,
            "pppp",
            "%a:tensor<1x3x4x5xf32>",
            "%e:tensor<1x4x5x3xf32>",
            "%x:f32,%o:f32",
            "",
            "%x:f32",
        )
    }
    return %r : tensor<1x4x5x3xf32>"""
    assert shapes(kernel_text("t", "%a: tensor<1x3x4x5xf32>", "tensor<1x4x5x3xf32>", body)) == [[3, 20], [20, 3]]


def test_reduced_dimensions_merge_with_each_other_only() -> None:
    body = f"""
    %z = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<2x3xf32>
    %i = linalg.fill ins(%z : f32) outs(%e : tensor<2x3xf32>) -> tensor<2x3xf32>
    %r = {
        generic(
            NHWC + "|(d0,d1,d2,d3)->(d0,d1)",
            "pprr",
            "%a:tensor<2x3x4x5xf32>",
            "%i:tensor<2x3xf32>",
            "%x:f32,%o:f32",
            "%s = arith.addf %x, %o : f32",
            "%s:f32",
        )
    }
    return %r : tensor<2x3xf32>"""
    text = kernel_text("m", "%a: tensor<2x3x4x5xf32>", "tensor<2x3xf32>", body)
    assert shapes(text) == [[6, 20], [6]]
    a = np.random.default_rng(0).random((2, 3, 4, 5), np.float32)
    (r,) = Kernel(text)([a], [((2, 3), np.float32)])
    np.testing.assert_allclose(r, a.sum((2, 3)), rtol=1e-6)


def test_positions_in_the_body_keep_the_dimensions() -> None:
    body = f"""
    %e = tensor.empty() : tensor<2x3xindex>
    %r = {
        generic(
            "(d0,d1)->(d0,d1)", "pp", ":", "%e:tensor<2x3xindex>", "%o:index", "%s = linalg.index 1 : index", "%s:index"
        )
    }
    return %r : tensor<2x3xindex>"""
    assert shapes(kernel_text("iota", "", "tensor<2x3xindex>", body)) == []
    (r,) = Kernel(kernel_text("iota", "", "tensor<2x3xindex>", body))([], [((2, 3), np.int64)])
    np.testing.assert_array_equal(r, [[0, 1, 2], [0, 1, 2]])


def test_a_padded_axis_takes_those_behind_it() -> None:
    source, result = "tensor<2x5x7x3xf32>", "tensor<2x6x9x3xf32>"
    body = f"""
    %v = arith.constant 2.0 : f32
    %r = tensor.pad %a low[0, 0, 1, 0] high[0, 1, 1, 0] {{
    ^bb0(%i: index, %j: index, %k: index, %l: index):
      tensor.yield %v : f32
    }} : {source} to {result}
    return %r : {result}"""
    text = kernel_text("padded", f"%a: {source}", result, body)
    assert shapes(text) == [[2, 5, 21], [2, 6, 27]]
    x = np.random.default_rng(0).standard_normal((2, 5, 7, 3), np.float32)
    [y] = Kernel(text)([x], [((2, 6, 9, 3), np.float32)])
    np.testing.assert_array_equal(y, np.pad(x, ((0, 0), (0, 1), (1, 1), (0, 0)), constant_values=2))
