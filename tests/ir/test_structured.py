"""A structured op taken apart, and what is asked of its maps."""

from __future__ import annotations

from torch_mlir import ir

from rillet.ir.structured import DYNAMIC, captures, copy_permutation, dims_in, is_projected, reads, rename, walk
from tests.support.structured_text import generic, parsed, sum_of_products, view_of

_MATMUL = sum_of_products(
    "tensor<4x?xf32>", "tensor<?x8xf32>", "tensor<4x8xf32>", "m, n, k", ["m, k", "k, n", "m, n"], "ppr"
)


def test_loops_by_kind_and_extent() -> None:
    with view_of(_MATMUL) as view:
        assert view.loops == 3
        assert view.parallel_loops == (0, 1)
        assert view.reduction_loops == (2,)
        assert not view.is_parallel
        assert view.extents == (4, 8, DYNAMIC)


def test_plain_dimensions_are_integers() -> None:
    with view_of(_MATMUL) as view:
        assert view.input_maps == ((0, 2), (2, 1))
        assert view.init_maps == ((0, 1),)
        assert [value for value, _ in view.operands] == [*view.inputs, *view.inits]
        assert view.results == tuple(view.op.results)


def test_which_input_a_scalar_of_the_body_is() -> None:
    with view_of(_MATMUL) as view:
        assert [view.input_number(a) for a in view.body.arguments] == [0, 1, None]
        assert view.input_number(view.yielded()[0]) is None
        assert view.init_is_read()


def test_a_window_is_no_plain_dimension() -> None:
    text = sum_of_products("tensor<9xf32>", "tensor<3xf32>", "tensor<7xf32>", "i, w", ["i + w", "w", "i"], "pr")
    with view_of(text) as view:
        assert view.is_windowed
        assert dims_in(view.maps[0][0]) == {0, 1}
        assert not is_projected(view.maps[0])


def test_rename_substitutes_loops() -> None:
    text = sum_of_products("tensor<9xf32>", "tensor<3xf32>", "tensor<7xf32>", "i, w", ["i + w", "w", "i"], "pr")
    with view_of(text) as view:
        (expr,) = rename(view.maps[0], [2, 0], 3)
        assert dims_in(expr) == {0, 2}
        assert rename((0, 1), [1, 0]) == (1, 0)
        half = ir.AffineExpr.get_floor_div(ir.AffineExpr.get_dim(0), ir.AffineExpr.get_constant(2))
        assert rename((1, 0), [half, 1]) == (1, half)


def test_a_transposition_is_a_copy() -> None:
    copy = "    linalg.yield %x : f32"
    text = generic(["tensor<2x3xf32>"], ["i, j", "j, i"], "tensor<3x2xf32>", "i, j", "pp", copy, "%x: f32, %z: f32")
    with view_of(text) as view:
        assert copy_permutation(view.op) == (1, 0)
        assert view.is_elementwise and not view.init_is_read()


def test_captures_are_values_from_outside_once_and_in_order() -> None:
    text = """
    func.func @main(%a: tensor<4xf32>, %t: tensor<9xf32>, %f: f32, %init: tensor<4xf32>) -> tensor<4xf32> {
      %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
          iterator_types = ["parallel"]} ins(%a : tensor<4xf32>) outs(%init : tensor<4xf32>) {
      ^bb0(%x: f32, %z: f32):
        %i = linalg.index 0 : index
        %e = tensor.extract %t[%i] : tensor<9xf32>
        %s = arith.mulf %e, %f : f32
        %r = arith.addf %s, %f : f32
        linalg.yield %r : f32
      } -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }"""
    with parsed(text) as main:
        a, t, f, init = main.regions[0].blocks[0].arguments
        op = next(op for op in walk(main) if op.name == "linalg.generic")
        assert captures(op) == [t, f]
        assert reads(op) == [a, init, t, f]
