"""What is known about host integers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch_mlir import ir

from rillet.ir.polynomials import (
    MOST_TERMS,
    Polynomials,
    added,
    common_factor,
    exact_quotient,
    multiplied,
    reduced,
    scaled,
    subtracted,
)
from rillet.ir.rewrite import int_constant
from tests.support.structured_text import parsed

_X, _Y = {(0,): 1}, {(1,): 1}
_ONE = {(): 1}


def test_arithmetic_keeps_no_zeros() -> None:
    assert subtracted(added(_X, _Y), _Y) == _X
    assert scaled(_X, 0) == {}
    assert multiplied(added(_X, _ONE), subtracted(_X, _ONE)) == {(0, 0): 1, (): -1}


def test_quotients_by_a_monomial() -> None:
    product = multiplied(scaled(_X, 6), added(_Y, _ONE))
    assert exact_quotient(product, scaled(_X, 3)) == {(1,): 2, (): 2}
    assert exact_quotient(product, _Y) is None
    assert exact_quotient(product, scaled(_X, 4)) is None


def test_quotients_by_a_sum() -> None:
    """``b * (h + 1) * (w + 1) / ((h + 1) * (w + 1))``, as where strided windows make the dimensions."""
    sums = multiplied(added({(2,): 1}, _ONE), added({(3,): 3}, _ONE))
    assert exact_quotient(multiplied(scaled(_X, 6), sums), scaled(sums, 2)) == {(0,): 3}
    assert exact_quotient(multiplied(added(_X, _Y), sums), added(_X, _Y)) == sums
    assert exact_quotient(added(multiplied(_X, sums), _ONE), sums) is None
    assert exact_quotient(sums, {}) is None


def test_common_factors() -> None:
    assert common_factor([multiplied(_X, _Y), multiplied(_X, _X)]) == (0,)
    assert reduced({(0,): -4, (1,): 6}) == {(0,): 2, (1,): -3}


@contextmanager
def _values(body: str) -> Iterator[tuple[Polynomials, dict[str, ir.Value]]]:
    """The values that @main computes, by the name of their op and its number; ``%m`` and ``%n`` are extents, ``%i`` is
    any number. What is emitted goes to the end.
    """
    text = f"""
    func.func @main(%a: tensor<?x?xf32>, %i: index) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %m = tensor.dim %a, %c0 : tensor<?x?xf32>
      %n = tensor.dim %a, %c1 : tensor<?x?xf32>
      {body}
      return
    }}"""
    with parsed(text) as main:
        *ops, end = main.regions[0].blocks[0].operations
        with ir.InsertionPoint(end):
            named = {op.operation.name + str(k): op.operation.results[0] for k, op in enumerate(ops)}
            yield Polynomials(), named


def _last(values: dict[str, ir.Value], count: int) -> list[ir.Value]:
    return list(values.values())[-count:]


def test_equal_computations_are_equal_polynomials() -> None:
    body = """%s = arith.addi %m, %n : index
      %t = arith.addi %n, %m : index"""
    with _values(body) as (known, values):
        s, t = _last(values, 2)
        assert known.of(s) == known.of(t)
        assert known.is_zero(subtracted(known.of(s), known.of(t)))


def test_extents_are_not_negative_and_arguments_may_be() -> None:
    with _values("%s = arith.addi %m, %i : index") as (known, values):
        m, s = next(v for k, v in values.items() if k.startswith("tensor.dim")), _last(values, 1)[0]
        assert known.is_never_negative(known.of(m))
        assert not known.is_never_negative(known.of(s))


def test_a_minimum_is_no_larger_than_its_parts() -> None:
    body = """%l = arith.minsi %m, %n : index
      %d = arith.subi %m, %l : index"""
    with _values(body) as (known, values):
        (d,) = _last(values, 1)
        assert known.is_never_negative(known.of(d))
        assert not known.is_never_negative(scaled(known.of(d), -1))


def test_twice_a_half_is_no_more_than_the_whole() -> None:
    body = """%h = arith.floordivsi %m, %c2 : index
      %t = arith.muli %h, %c2 : index
      %d = arith.subi %m, %t : index"""
    with _values(body) as (known, values):
        (d,) = _last(values, 1)
        assert known.is_never_negative(known.of(d))
        assert not known.is_zero(known.of(d))


def test_what_is_learned_counts_from_then_on() -> None:
    with _values("%d = arith.subi %m, %n : index") as (known, values):
        (d,) = _last(values, 1)
        assert not known.is_zero(known.of(d))
        known.learn_zero(known.of(d))
        assert known.is_zero(known.of(d))


def test_a_polynomial_is_emitted_as_a_value() -> None:
    with _values("") as (known, _):
        assert int_constant(known.emit({})) == 0
        assert int_constant(known.emit({(): 5})) == 5


def test_long_sums_are_bounded() -> None:
    """The polynomial of each partial sum would be as long as the sum."""
    terms = MOST_TERMS * 10
    body = (
        "\n".join(f"%d{i} = arith.floordivsi %m, %k{i} : index" for i in range(terms))
        + "\n%s0 = arith.addi %d0, %n : index\n"
        + "\n".join(f"%s{i} = arith.addi %s{i - 1}, %d{i} : index" for i in range(1, terms))
    )
    constants = "\n".join(f"%k{i} = arith.constant {i + 2} : index" for i in range(terms))
    with _values(constants + body) as (known, values):
        (total,) = _last(values, 1)
        form = known.of(total)
        assert len(form) <= MOST_TERMS
        assert known.is_never_negative(form)
        assert form == known.of(total)


def test_nested_quotients_are_emitted_once() -> None:
    """Each is a quotient of a sum of two of the one before: written out, the last would be 2^200 operations."""
    depth = 200
    body = "%q0 = arith.floordivsi %m, %n : index\n" + "\n".join(
        f"""%t{i} = arith.muli %q{i - 1}, %q{i - 1} : index
            %u{i} = arith.addi %q{i - 1}, %t{i} : index
            %q{i} = arith.floordivsi %u{i}, %n : index"""
        for i in range(1, depth + 1)
    )
    with _values(body) as (known, values):
        (last,) = _last(values, 1)
        block = last.owner.operation.block
        before = len(list(block.operations))
        form = known.of(last)
        emitted = known.emit(form)
        assert len(list(block.operations)) - before <= 4 * (depth + 1)
        again = len(list(block.operations))
        assert known.emit(form) == emitted
        assert len(list(block.operations)) == again
