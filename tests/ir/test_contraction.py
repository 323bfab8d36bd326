"""Contractions recognized by structure: roles of loops, and what a body does to its factors and sums."""

from __future__ import annotations

import pytest

from rillet.ir.contraction import (
    POSITION,
    Contraction,
    contraction,
    is_extended_product,
    is_multiply_add,
    product_of,
    separate_product,
    weighted_contraction,
)
from tests.support.structured_text import generic, sum_of_products, view_of

_CASES = {
    "matmul": (
        sum_of_products(
            "tensor<4x5xf32>", "tensor<5x8xf32>", "tensor<4x8xf32>", "m, n, k", ["m, k", "k, n", "m, n"], "ppr"
        ),
        Contraction(0, 1, batch=(), m=(0,), n=(1,), k=(2,)),
    ),
    "batched matmul": (
        sum_of_products(
            "tensor<2x4x5xf32>", "tensor<2x5x8xf32>", "tensor<2x4x8xf32>", "b, m, n, k",
            ["b, m, k", "b, k, n", "b, m, n"], "pppr",
        ),
        Contraction(0, 1, batch=(0,), m=(1,), n=(2,), k=(3,)),
    ),
    "convolution": (
        sum_of_products(
            "tensor<9x4xf32>", "tensor<3x4x8xf32>", "tensor<7x8xf32>", "i, n, w, k", ["i + w, k", "w, k, n", "i, n"],
            "pprr",
        ),
        Contraction(0, 1, batch=(), m=(), n=(1,), k=(3,), image=(0,), window=(2,)),
    ),
    "the image is the lhs wherever it stands": (
        sum_of_products(
            "tensor<3x4x8xf32>", "tensor<9x4xf32>", "tensor<7x8xf32>", "i, n, w, k", ["w, k, n", "i + w, k", "i, n"],
            "pprr",
        ),
        Contraction(1, 0, batch=(), m=(), n=(1,), k=(3,), image=(0,), window=(2,)),
    ),
    "depthwise convolution": (
        sum_of_products(
            "tensor<9x8xf32>", "tensor<3x8xf32>", "tensor<7x8xf32>", "i, c, w", ["i + w, c", "w, c", "i, c"], "ppr"
        ),
        Contraction(0, 1, batch=(1,), m=(), n=(), k=(), image=(0,), window=(2,)),
    ),
    "packed in panels": (
        sum_of_products(
            "tensor<4x5xf32>", "tensor<2x5x16xf32>", "tensor<4x32xf32>", "m, n, k",
            ["m, k", "n floordiv 16, k, n mod 16", "m, n"], "ppr",
        ),
        Contraction(0, 1, batch=(), m=(0,), n=(1,), k=(2,)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", _CASES)
def test_roles(case: str) -> None:
    text, expected = _CASES[case]
    with view_of(text) as view:
        assert is_multiply_add(view)
        assert contraction(view) == expected


def test_a_square_is_no_contraction() -> None:
    body = """    %p = arith.mulf %x, %x : f32
    %s = arith.addf %z, %p : f32
    linalg.yield %s : f32"""
    text = generic(["tensor<4xf32>"], ["k", ""], "tensor<f32>", "k", "r", body, "%x: f32, %z: f32")
    with view_of(text) as view:
        assert is_multiply_add(view)
        assert contraction(view) is None
        assert separate_product(view) is None


def test_a_maximum_of_products_is_no_contraction() -> None:
    text = _CASES["matmul"][0].replace("arith.addf", "arith.maximumf")
    with view_of(text) as view:
        assert product_of(view) is None
        assert contraction(view) is None


def test_a_loop_that_sums_one_operand_alone_has_no_role() -> None:
    text = sum_of_products(
        "tensor<4x5x6xf32>", "tensor<5x8xf32>", "tensor<4x8xf32>", "m, n, k, j", ["m, k, j", "k, n", "m, n"], "pprr"
    )
    with view_of(text) as view:
        assert is_multiply_add(view)
        assert contraction(view) is None


def _quantized(subtracted: str) -> str:
    body = f"""    %c = arith.constant 7 : i32
    %xw = arith.extsi %x : i8 to i32
    %yw = arith.extsi %y : i8 to i32
    {subtracted}
    %s = arith.addi %z, %p : i32
    linalg.yield %s : i32"""
    return generic(
        ["tensor<4x5xi8>", "tensor<5x8xi8>"], ["m, k", "k, n", "m, n"], "tensor<4x8xi32>", "m, n, k", "ppr", body,
        "%x: i8, %y: i8, %z: i32",
    )  # fmt: skip


def test_zero_points_belong_to_their_factors() -> None:
    with view_of(_quantized("%l = arith.subi %xw, %c : i32\n    %p = arith.muli %l, %yw : i32")) as view:
        roles = contraction(view)
        assert roles == Contraction(0, 1, batch=(), m=(0,), n=(1,), k=(2,))
        assert is_extended_product(view, roles)


def test_a_zero_point_of_the_rhs_is_no_extended_product() -> None:
    with view_of(_quantized("%r = arith.subi %yw, %c : i32\n    %p = arith.muli %xw, %r : i32")) as view:
        roles = contraction(view)
        assert roles is not None
        assert not is_extended_product(view, roles)


def test_sums_in_a_wider_type_are_narrowed_at_the_end() -> None:
    body = """    %xw = arith.extf %x : f16 to f32
    %yw = arith.extf %y : f16 to f32
    %zw = arith.extf %z : f16 to f32
    %p = arith.mulf %xw, %yw : f32
    %s = arith.addf %p, %zw : f32
    %r = arith.truncf %s : f32 to f16
    linalg.yield %r : f16"""
    text = generic(
        ["tensor<4x5xf16>", "tensor<5x8xf16>"], ["m, k", "k, n", "m, n"], "tensor<4x8xf16>", "m, n, k", "ppr", body,
        "%x: f16, %y: f16, %z: f16",
    )  # fmt: skip
    with view_of(text) as view:
        product = product_of(view)
        assert product is not None
        assert (product.widen, product.narrow) == ("arith.extf", "arith.truncf")
        assert str(product.accumulator_type) == "f32"
        assert [factor.inputs for factor in product.factors] == [{0}, {1}]
        assert not is_multiply_add(view)  # more is done to the sum


def _scaled(factor: str, order: str = "%x, %f") -> str:
    body = f"""    %f = {factor}
    %p = arith.mulf {order} : f32
    %a = arith.addf %z, %p : f32
    linalg.yield %a : f32"""
    return generic(
        ["tensor<4x2x5xf32>", "tensor<2x5x8xf32>", "tensor<2x8xf32>"], ["m, b, k", "b, k, n", "b, n", "m, n"],
        "tensor<4x8xf32>", "m, n, b, k", "pprr", body, "%x: f32, %y: f32, %s: f32, %z: f32",
    )  # fmt: skip


def test_a_factor_of_several_inputs_names_the_one_with_most_loops() -> None:
    with view_of(_scaled("arith.mulf %y, %s : f32")) as view:
        roles, others = weighted_contraction(view)
        assert (roles.lhs, roles.rhs, others) == (0, 1, (2,))
        assert (roles.m, roles.n, roles.k) == ((0,), (1,), (2, 3))


def test_the_factor_of_input_0_is_the_lhs_of_a_separate_product() -> None:
    for order in ("%x, %f", "%f, %x"):
        with view_of(_scaled("arith.mulf %y, %s : f32", order)) as view:
            product = separate_product(view)
            assert product is not None
            assert (product.lhs.inputs, product.rhs.inputs) == ({0}, {1, 2})
            turned = product.turned()
            assert (turned.lhs, turned.rhs) == (product.rhs, product.lhs)


def test_factors_that_share_an_input_are_not_separate() -> None:
    text = _scaled("arith.mulf %y, %x : f32")
    with view_of(text) as view:
        assert product_of(view) is not None
        assert separate_product(view) is None


def test_a_factor_that_knows_its_position_cannot_be_computed_apart() -> None:
    text = _scaled("arith.mulf %y, %w : f32", "%x, %f").replace(
        "    %f =",
        "    %i = linalg.index 1 : index\n    %j = arith.index_cast %i : index to i32\n"
        "    %v = arith.sitofp %j : i32 to f32\n    %w = arith.mulf %s, %v : f32\n    %f =",
    )
    with view_of(text) as view:
        product = product_of(view)
        assert product is not None
        assert product.rhs.inputs == {1, 2, POSITION}
        assert separate_product(view) is None
