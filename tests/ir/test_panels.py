"""Maps of packed operands, and elements that share bytes."""

from __future__ import annotations

import pytest

from rillet.ir.panels import is_interleaved, is_packed, is_window, packed_axes, turned, unshared
from rillet.ir.shared_bytes import is_signed, shared_byte
from tests.support.structured_text import generic, sum_of_products, view_of


def _rhs(map_: str, shape: str) -> str:
    return sum_of_products("tensor<4x8xf32>", shape, "tensor<4x32xf32>", "m, n, k", ["m, k", map_, "m, n"], "ppr")


@pytest.mark.parametrize(
    ("map_", "shape", "axes"),
    [
        ("k, n", "tensor<8x32xf32>", []),
        ("n floordiv 16, k, n mod 16", "tensor<2x8x16xf32>", [(0, 1, 16)]),
        ("n floordiv 16, k floordiv 4, n mod 16, k mod 4", "tensor<2x2x16x4xf32>", [(0, 1, 16), (1, 2, 4)]),
        ("n floordiv 16, k, n mod 8", "tensor<2x8x8xf32>", None),
        ("n floordiv 16, k, (n + 1) mod 16", "tensor<2x8x16xf32>", None),
    ],
)
def test_panels(map_: str, shape: str, axes: list[tuple[int, int, int]] | None) -> None:
    with view_of(_rhs(map_, shape)) as view:
        assert packed_axes(view.maps[1]) == axes


def test_steps_in_turns() -> None:
    order = "(k mod 2) * 2 + (k floordiv 2) mod 2"
    with view_of(_rhs(f"n floordiv 16, k floordiv 4, n mod 16, {order}", "tensor<2x2x16x4xf32>")) as view:
        map_ = view.maps[1]
        assert packed_axes(map_) == [(0, 1, 16), (1, 2, 4)]
        found = turned(map_[-1])
        assert found is not None and found[1] == 2
        assert is_interleaved(map_)


def test_a_window_is_not_packed() -> None:
    text = sum_of_products("tensor<9xf32>", "tensor<3xf32>", "tensor<7xf32>", "i, w", ["i + w", "w", "i"], "pr")
    with view_of(text) as view:
        (expr,) = view.maps[0]
        assert is_window(expr) and not is_packed(expr)
        assert not is_window(view.maps[1][0])


def _nibbles(place: int, widen: str = "arith.sitofp") -> str:
    body = f"""    %c2 = arith.constant 2 : index
    %c4 = arith.constant {place} : index
    %i = linalg.index 1 : index
    %r = arith.remui %i, %c2 : index
    %b = arith.muli %r, %c4 : index
    %h = arith.index_cast %b : index to i8
    %v = arith.shrui %y, %h : i8
    %q = arith.trunci %v : i8 to i4
    %f = {widen} %q : i4 to f32
    %p = arith.mulf %x, %f : f32
    %s = arith.addf %z, %p : f32
    linalg.yield %s : f32"""
    return generic(
        ["tensor<4x8xf32>", "tensor<2x8x8xi8>"], ["m, k", "n floordiv 16, k, (n mod 16) floordiv 2", "m, n"],
        "tensor<4x32xf32>", "m, n, k", "ppr", body, "%x: f32, %y: i8, %z: f32",
    )  # fmt: skip


@pytest.mark.parametrize(("widen", "signed"), [("arith.sitofp", True), ("arith.uitofp", False)])
def test_nibbles_share_the_bytes_of_an_input(widen: str, signed: bool) -> None:
    with view_of(_nibbles(4, widen)) as view:
        element = next(op for op in view.body_ops() if op.name == "arith.trunci").results[0]
        assert shared_byte(view, element) == 1
        assert is_signed(view, 1) is signed
        assert is_signed(view, 0) is None
        map_, shared = unshared(view.maps[1])
        assert shared == 2 and packed_axes(map_) == [(0, 1, 16)]


def test_another_shift_shares_nothing() -> None:
    with view_of(_nibbles(2)) as view:
        assert is_signed(view, 1) is None
