"""Arithmetic on extents: what folds, what is one value, what is known."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from torch_mlir import ir
from torch_mlir.dialects import func

from rillet.frontends.building.extent_arithmetic import Extents
from rillet.ir import make_context


@pytest.fixture
def dims() -> Iterator[tuple[Extents, ir.Value, ir.Value]]:
    """An arithmetic and two dimensions."""
    with make_context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("f", ir.FunctionType.get([ir.IndexType.get()] * 2, []))
        block = function.add_entry_block()
        with ir.InsertionPoint(block):
            extents = Extents()
            yield extents, extents.declare(block.arguments[0]), extents.declare(block.arguments[1])
            func.ReturnOp([])


def test_constants_fold(dims: tuple[Extents, ir.Value, ir.Value]) -> None:
    e, n, _ = dims
    assert e.add(2, 3) == 5
    assert e.sub(n, n) == 0
    assert e.mul(n, 0) == 0
    assert e.truncdiv(-7, 2) == -3
    assert e.floordiv(-7, 2) == -4
    assert e.ceildiv(7, 2) == 4
    assert e.mod(-7, 3) == 2


def test_equal_polynomials_are_one_value(dims: tuple[Extents, ir.Value, ir.Value]) -> None:
    e, n, m = dims
    assert e.mul(e.add(n, 1), m) == e.add(e.mul(m, n), m)
    assert e.add(e.sub(n, 3), 3) == n
    assert e.mul(e.mul(n, 4), m) == e.mul(4, e.mul(m, n))


def test_exact_quotients_fold(dims: tuple[Extents, ir.Value, ir.Value]) -> None:
    e, n, m = dims
    assert e.floordiv(e.mul(e.mul(n, m), 384), e.mul(e.mul(n, m), 32)) == 12
    assert e.ceildiv(e.mul(n, m), m) == n
    assert isinstance(e.floordiv(n, 2), ir.Value)


def test_opaque_results_are_remembered(dims: tuple[Extents, ir.Value, ir.Value]) -> None:
    e, n, m = dims
    assert e.floordiv(n, 2) == e.floordiv(n, 2)
    assert e.maximum(n, m) == e.maximum(m, n)


def test_dimensions_are_not_negative(dims: tuple[Extents, ir.Value, ir.Value]) -> None:
    e, n, m = dims
    assert e.compare("lt", n, 0) is False
    assert e.compare("ge", e.mul(n, m), 0) is True
    assert e.compare("gt", e.add(n, 1), 0) is True
    assert e.maximum(n, 0) == n
    assert e.minimum(n, e.add(n, m)) == n
    assert isinstance(e.compare("eq", n, 1), ir.Value)


def test_a_clamped_extent_broadcasts_as_the_extent(dims: tuple[Extents, ir.Value, ir.Value]) -> None:
    e, n, m = dims
    assert e.same_if_valid(n, e.minimum(n, 512))
    assert not e.same_if_valid(n, e.minimum(n, 1))
    assert not e.same_if_valid(n, m)


def test_values_of_a_region_are_forgotten(dims: tuple[Extents, ir.Value, ir.Value]) -> None:
    e, n, _ = dims
    e.push()
    inside = e.add(n, 1)
    e.pop()
    assert e.add(n, 1) != inside


def test_what_divisor_and_dividend_have_in_common_is_not_divided_by(dims: tuple[Extents, ir.Value, ir.Value]) -> None:
    """It may be zero at run time: a batch of no elements."""
    e, n, m = dims
    quotient = e.floordiv(e.mul(e.mul(n, m), 6), e.mul(n, 4))
    assert e.equal(quotient, e.floordiv(e.mul(m, 6), 4))
    assert e.equal(e.floordiv(e.mul(e.mul(n, m), m), n), e.mul(m, m))
    divisions = [op.operation for op in n.owner.operations if op.operation.name == "arith.floordivsi"]
    assert [str(op.operands[1].owner.attributes["value"]) for op in divisions] == ["4 : index"]
