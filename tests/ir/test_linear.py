"""Coordinates as linear functions of loops."""

from __future__ import annotations

import pytest
from torch_mlir import ir

from rillet.ir.linear import Linear, constant, identity, linear, substitute, substitute_all


@pytest.fixture(autouse=True)
def _context():
    with ir.Context():
        yield


def _d(n: int) -> ir.AffineExpr:
    return ir.AffineExpr.get_dim(n)


def test_a_plain_dimension() -> None:
    assert linear(1, 3) == Linear((0, 1, 0))
    assert linear(1, 3).only() == 1


def test_a_strided_window() -> None:
    form = linear(_d(0) * 2 + _d(2) * 3 + 5, 3)
    assert form == Linear((2, 0, 3), 5)
    assert form.terms == {0: 2, 2: 3}
    assert form.only() is None


def test_terms_that_cancel_are_gone() -> None:
    assert linear(_d(0) + _d(1) - _d(0), 2) == Linear((0, 1))


def test_quotients_and_remainders_are_not_linear() -> None:
    assert linear(ir.AffineExpr.get_floor_div(_d(0), 4), 1) is None
    assert linear(_d(0) + ir.AffineExpr.get_mod(_d(0), 4), 1) is None


def test_substitution_composes() -> None:
    outer = [Linear((1, 10)), constant(7, 2)]
    assert substitute(_d(0) * 3 + _d(1), outer) == Linear((3, 30), 7)
    assert substitute_all((1, 0), outer) == (constant(7, 2), Linear((1, 10)))
    assert substitute_all((0, ir.AffineExpr.get_mod(_d(0), 2)), outer) is None


def test_a_shifted_or_scaled_loop_is_not_only_that_loop() -> None:
    assert Linear((0, 1), 1).only() is None
    assert Linear((0, 2)).only() is None
    assert [form.only() for form in identity(2)] == [0, 1]


def test_which_loops_move_a_coordinate() -> None:
    form = linear(_d(0) * 2 + _d(2), 4)
    assert form is not None
    assert form.among((0, 1)) == [0]
    assert form.among((3, 2, 0)) == [0, 2]
