"""Extents of dimensions, and arithmetic on them that folds.

An extent is an ``int`` or an ``index`` value. Every value made here is remembered with its normal form, a polynomial
with integer coefficients over *atoms* (extents of inputs, quotients, minima, ...). Equal polynomials are one value,
so two dimensions computed in different ways compare equal, ``batch * seq / seq`` is ``batch`` again, and no operation
is emitted twice.

Flags (results of comparisons) are ``bool`` or ``i1`` values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TypeAlias

from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.ir.builders import Extent, as_index
from rillet.ir.polynomials import (
    MOST_TERMS,
    Polynomial,
    added,
    common_factor,
    exact_quotient,
    frozen,
    multiplied,
    scaled,
    subtracted,
)

Flag: TypeAlias = bool | ir.Value

_PREDICATES: dict[str, tuple[arith.CmpIPredicate, Callable[[int, int], bool]]] = {
    "eq": (arith.CmpIPredicate.eq, lambda a, b: a == b),
    "ne": (arith.CmpIPredicate.ne, lambda a, b: a != b),
    "lt": (arith.CmpIPredicate.slt, lambda a, b: a < b),
    "le": (arith.CmpIPredicate.sle, lambda a, b: a <= b),
    "gt": (arith.CmpIPredicate.sgt, lambda a, b: a > b),
    "ge": (arith.CmpIPredicate.sge, lambda a, b: a >= b),
}


class Extents:
    """Arithmetic on extents at the current insertion point. ``scope()`` brackets a nested region."""

    def __init__(self) -> None:
        self._forms: dict[ir.Value, Polynomial] = {}
        self._memo: list[dict[object, ir.Value | None]] = [{}]
        self._atoms = 0
        self._values: dict[int, ir.Value] = {}  # of the atoms
        self._non_negative: set[int] = set()
        self._clamped: dict[ir.Value, list[Extent]] = {}  # min(x, c) with a constant c > 1 -> [x]

    # --- scopes: a value made inside a region must not be reused outside it ---

    def push(self) -> None:
        """Enter a nested region."""
        self._memo.append({})

    def pop(self) -> None:
        """Leave the region; values made in it are forgotten."""
        self._memo.pop()

    def first_time(self, key: object) -> bool:
        """Whether ``key`` was not asked for before in this region or one around it."""
        if any(key in memo for memo in self._memo):
            return False
        self._memo[-1][key] = None
        return True

    # --- normal forms ---

    def _atom(self, value: ir.Value, non_negative: bool = False) -> Polynomial:
        self._atoms += 1
        form: Polynomial = {(self._atoms,): 1}
        self._forms[value] = form
        self._values[self._atoms] = value
        # In the outermost scope: only forms of values of the same region can contain this atom.
        self._memo[0][frozen(form)] = value
        if non_negative:
            self._non_negative.add(self._atoms)
        return form

    def declare(self, value: ir.Value) -> ir.Value:
        """Make ``value`` known as the extent of some dimension, hence not negative."""
        if value not in self._forms:
            self._atom(value, non_negative=True)
        return value

    def _form(self, extent: Extent) -> Polynomial:
        if isinstance(extent, int):
            return {(): extent} if extent else {}
        known = self._forms.get(extent)
        return known if known is not None else self._atom(extent)

    def _lookup(self, key: object) -> ir.Value | None:
        for memo in reversed(self._memo):
            if key in memo:
                return memo[key]
        return None

    def _remember(self, key: object, value: ir.Value) -> None:
        self._memo[-1][key] = value

    def _from_form(self, form: Polynomial, emit: Callable[[], ir.Value]) -> Extent:
        if not set(form) - {()}:
            return form.get((), 0)
        key = frozen(form)
        found = self._lookup(key)
        if found is not None:
            return found
        value = emit()
        if len(form) <= MOST_TERMS:
            self._forms[value] = form
        else:
            self._atom(value, non_negative=self._is_non_negative(form))
        self._remember(key, value)
        return value

    def _value(self, form: Polynomial) -> Extent:
        """The extent of a form, computed from its atoms where it is not there yet."""
        found = self._lookup(frozen(form))
        if found is not None:
            return found
        terms = (
            functools.reduce(self.mul, (self._values[atom] for atom in monomial), coefficient)
            for monomial, coefficient in form.items()
        )
        return self.sum(terms)

    def _is_non_negative(self, form: Polynomial) -> bool:
        return all(c >= 0 and all(a in self._non_negative for a in m) for m, c in form.items())

    # --- arithmetic ---

    def add(self, a: Extent, b: Extent) -> Extent:
        """a + b"""
        form = added(self._form(a), self._form(b))
        return self._from_form(form, lambda: arith.addi(as_index(a), as_index(b)))

    def sub(self, a: Extent, b: Extent) -> Extent:
        """a - b"""
        form = subtracted(self._form(a), self._form(b))
        return self._from_form(form, lambda: arith.subi(as_index(a), as_index(b)))

    def mul(self, a: Extent, b: Extent) -> Extent:
        """a * b"""
        form = multiplied(self._form(a), self._form(b))
        return self._from_form(form, lambda: arith.muli(as_index(a), as_index(b)))

    def product(self, extents: Iterable[Extent]) -> Extent:
        """The product of all extents; 1 for none."""
        result: Extent = 1
        for extent in extents:
            result = self.mul(result, extent)
        return result

    def sum(self, extents: Iterable[Extent]) -> Extent:
        """The sum of all extents; 0 for none."""
        result: Extent = 0
        for extent in extents:
            result = self.add(result, extent)
        return result

    def floordiv(self, a: Extent, b: Extent) -> Extent:
        """a / b rounded down; exact quotients of polynomials are simplified. ``b`` must not be zero."""
        return self._divide("floordiv", a, b, lambda x, y: x // y, arith.floordivsi)

    def ceildiv(self, a: Extent, b: Extent) -> Extent:
        """a / b rounded up."""
        return self._divide("ceildiv", a, b, lambda x, y: -(-x // y), arith.ceildivsi)

    def truncdiv(self, a: Extent, b: Extent) -> Extent:
        """a / b rounded towards zero."""
        return self._divide("truncdiv", a, b, _truncdiv, arith.divsi)

    def _divide(
        self,
        name: str,
        a: Extent,
        b: Extent,
        fold: Callable[[int, int], int],
        emit: Callable[[ir.Value, ir.Value], ir.Value],
    ) -> Extent:
        if isinstance(a, int) and isinstance(b, int) and b != 0:
            return fold(a, b)
        quotient = exact_quotient(self._form(a), self._form(b))
        if quotient is not None:
            return self._value(quotient)
        upper, lower = self.reduced(a, b)
        if isinstance(upper, int) and isinstance(lower, int) and lower:
            return fold(upper, lower)
        return self._opaque(name, upper, lower, emit)

    def reduced(self, a: Extent, b: Extent) -> tuple[Extent, Extent]:
        """The fraction a / b after cancelling what divides both, which may be zero at run time: all of ``b``, or
        dimensions."""
        forms = [self._form(a), self._form(b)]
        quotient = exact_quotient(*forms)
        if quotient is not None:
            return self._value(quotient), 1
        common = common_factor(forms)
        upper, lower = (self._value(exact_quotient(form, {common: 1}) or {}) for form in forms)
        return upper, lower

    def mod(self, a: Extent, b: Extent) -> Extent:
        """The remainder of floordiv: it has the sign of ``b``."""
        if isinstance(a, int) and isinstance(b, int) and b != 0:
            return a % b
        return self.sub(a, self.mul(self.floordiv(a, b), b))

    def minimum(self, a: Extent, b: Extent) -> Extent:
        """The smaller of two extents."""
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        if self.provably_le(a, b):
            return a
        if self.provably_le(b, a):
            return b
        result = self._opaque("min", a, b, arith.minsi, commutes=True)
        if isinstance(result, ir.Value):
            self._clamped[result] = [x for x, y in ((a, b), (b, a)) if isinstance(y, int) and y > 1]
        return result

    def maximum(self, a: Extent, b: Extent) -> Extent:
        """The larger of two extents."""
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        if self.provably_le(a, b):
            return b
        return a if self.provably_le(b, a) else self._opaque("max", a, b, arith.maxsi, commutes=True)

    def _opaque(
        self,
        name: str,
        a: Extent,
        b: Extent,
        emit: Callable[[ir.Value, ir.Value], ir.Value],
        commutes: bool = False,
    ) -> Extent:
        keys = (frozen(self._form(a)), frozen(self._form(b)))
        key = (name, frozenset(keys) if commutes else keys)
        found = self._lookup(key)
        if found is not None:
            return found
        positive = self._is_non_negative(self._form(a)) and self._is_non_negative(self._form(b))
        value = emit(as_index(a), as_index(b))
        self._atom(value, non_negative=positive)
        self._remember(key, value)
        return value

    # --- comparisons ---

    def equal(self, a: Extent, b: Extent) -> bool:
        """Whether the two extents are known to be equal."""
        return self._form(a) == self._form(b)

    def divides(self, a: Extent, b: Extent) -> bool:
        """Whether ``b`` is known to be a multiple of ``a``."""
        return exact_quotient(self._form(b), self._form(a)) is not None

    def same_if_valid(self, a: Extent, b: Extent) -> bool:
        """Whether two extents that broadcast must be equal.

        That holds for extents known to be equal. It also holds for ``x`` and ``min(x, c)`` with c > 1, the extent of a
        slice of a table of c rows: if the minimum is not x it is c, and neither is 1.
        """
        if self.equal(a, b):
            return True
        return any(
            isinstance(x, ir.Value) and any(self.equal(part, y) for part in self._clamped.get(x, ()))
            for x, y in ((a, b), (b, a))
        )

    def unclamped(self, a: Extent, b: Extent) -> Extent:
        """The one of two ``same_if_valid`` extents that is not a minimum."""
        return b if isinstance(a, ir.Value) and a in self._clamped else a

    def provably_le(self, a: Extent, b: Extent) -> bool:
        """Whether a <= b is known, given that the extents of dimensions are not negative."""
        return self._is_non_negative(subtracted(self._form(b), self._form(a)))

    def compare(self, predicate: str, a: Extent, b: Extent) -> Flag:
        """``eq``, ``ne``, ``lt``, ``le``, ``gt`` or ``ge`` of two extents."""
        _, fold = _PREDICATES[predicate]
        if isinstance(a, int) and isinstance(b, int):
            return fold(a, b)
        difference = subtracted(self._form(a), self._form(b))
        if not difference:
            return fold(0, 0)
        # Extents are not negative, so a - b >= 0 or a - b <= 0 may be known, and decides some predicates.
        opposite = scaled(difference, -1)
        if self._is_non_negative(difference) and predicate in ("ge", "lt"):
            return predicate == "ge"
        if self._is_non_negative(opposite) and predicate in ("le", "gt"):
            return predicate == "le"
        # a - b >= c > 0 (or <= c < 0) for a constant c decides every predicate.
        if self._is_non_negative(subtracted(difference, {(): 1})):
            return fold(1, 0)
        if self._is_non_negative(subtracted(opposite, {(): 1})):
            return fold(0, 1)
        return self.test(predicate, a, b)

    def test(self, predicate: str, a: Extent, b: Extent) -> ir.Value:
        """``compare``, left to run time."""
        return arith.cmpi(_PREDICATES[predicate][0], as_index(a), as_index(b))

    def select(self, condition: Flag, a: Extent, b: Extent) -> Extent:
        """``a`` where the flag holds, else ``b``."""
        if isinstance(condition, bool):
            return a if condition else b
        if self.equal(a, b):
            return a
        value = arith.select(condition, as_index(a), as_index(b))
        positive = self._is_non_negative(self._form(a)) and self._is_non_negative(self._form(b))
        self._atom(value, non_negative=positive)
        return value


def _truncdiv(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient
