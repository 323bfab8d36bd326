"""Facts about host integers: each is a polynomial over *atoms*, and some inequalities follow from that.

An atom is a value that is not a sum or product of others: an extent of an input, a minimum, a quotient. Equal
polynomials are equal numbers. Overflow is ignored: extents are far from it.
"""

from __future__ import annotations

import functools
import math
import operator
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.ir import builders
from rillet.ir.builders import Extent
from rillet.ir.extents import before_loop, extent
from rillet.ir.rewrite import defining, int_constant

Monomial: TypeAlias = tuple[int, ...]  # sorted atom numbers
Polynomial: TypeAlias = dict[Monomial, int]  # to its coefficient; no zeros

_DIVISIONS = {"arith.floordivsi": arith.floordivsi, "arith.ceildivsi": arith.ceildivsi, "arith.divsi": arith.divsi}

# The most cases that a proof looks at.
_EFFORT = 64

# The terms of the longest polynomial that is kept, so that long sums and products of sums take linear time.
MOST_TERMS = 128


@dataclass(frozen=True)
class Atom:
    """``kind``: ``min``, ``max``, ``select`` of ``parts``, ``floordiv`` of ``parts[0]`` by the number ``divisor``,
    ``counter`` of a loop from ``parts[0]`` to below ``parts[1]``, or ``""``.

    ``parts`` are all that it is computed from. ``emit`` computes it at the insertion point.
    """

    kind: str
    parts: tuple[Polynomial, ...]
    divisor: int
    is_natural: bool  # not negative
    emit: Callable[[], ir.Value]


class Polynomials:
    """The polynomials of the values of one program, and the facts learned about its atoms."""

    def __init__(self) -> None:
        self._atoms: list[Atom] = []
        self._of: dict[ir.Value, Polynomial] = {}
        self._numbers: dict[object, int] = {}
        self._names: dict[tuple[ir.Value, int], object] = {}
        self._equal: dict[int, Polynomial] = {}  # an atom that is known to be another polynomial
        self._values: dict[tuple[ir.Block, int], ir.Value] = {}  # of the atoms that were emitted
        self._makers: dict[str, Callable[[ir.Operation], Polynomial]] = {
            "arith.addi": lambda op: added(*self._operands(op)),
            "arith.subi": lambda op: subtracted(*self._operands(op)),
            "arith.muli": lambda op: multiplied(*self._operands(op)),
            "arith.minsi": lambda op: self._choice("min", op),
            "arith.maxsi": lambda op: self._choice("max", op),
            "arith.select": self._select,
            "arith.floordivsi": self._quotient,
            "arith.ceildivsi": self._quotient,
            "arith.divsi": self._quotient,
            "arith.index_cast": self._cast,
            "tensor.dim": self._dim,
        }

    # --- from values --------------------------------------------------------------------------------------------------

    def of(self, number: Extent) -> Polynomial:
        """The polynomial of an integer or of an ``index`` value."""
        if isinstance(number, int):
            return {(): number} if number else {}
        # What it is computed from comes first, without recursion: a sum may have any number of terms.
        pending = [number]
        while pending:
            value = pending[-1]
            op = defining(value, *self._makers)
            unknown = [v for v in op.operands if _is_number(v) and v not in self._of] if op is not None else []
            if unknown:
                pending += unknown
                continue
            pending.pop()
            if value not in self._of:
                self._of[value] = self._bounded(value, self._make(value))
        return self._resolved(self._of[number])

    def name_dim(self, source: ir.Value, axis: int, name: str) -> None:
        """Record that extents of one name are equal."""
        self._names[source, axis] = name

    def _bounded(self, value: ir.Value, form: Polynomial) -> Polynomial:
        """``form``, or an atom of its own for one of many terms."""
        if len(form) <= MOST_TERMS:
            return form
        return self._atom(value, Atom("", (), 0, self._is_natural(form), lambda: _as_index(value)))

    def _make(self, value: ir.Value) -> Polynomial:
        constant = int_constant(value)
        if constant is not None:
            return self.of(constant)
        op = defining(value)
        if op is None:
            return self._argument(value)
        return self._makers.get(op.name, lambda _: self._leaf(value))(op)

    def _argument(self, value: ir.Value) -> Polynomial:
        loop = value.owner.owner.operation
        if loop.name != "scf.for" or ir.BlockArgument(value).arg_number != 0:
            return self._leaf(value)
        bounds = tuple(self.of(v) for v in list(loop.operands)[:2])
        return self._atom(value, Atom("counter", bounds, 0, self._is_natural(bounds[0]), lambda: value))

    def _leaf(self, value: ir.Value) -> Polynomial:
        return self._atom(value, Atom("", (), 0, False, lambda: _as_index(value)))

    def _operands(self, op: ir.Operation) -> list[Polynomial]:
        return [self.of(v) for v in op.operands]

    def _atom(self, key: object, atom: Atom) -> Polynomial:
        if key not in self._numbers:
            self._numbers[key] = len(self._atoms)
            self._atoms.append(atom)
        return {(self._numbers[key],): 1}

    def _choice(self, kind: str, op: ir.Operation) -> Polynomial:
        parts = tuple(self._operands(op))
        natural = (all if kind == "min" else any)(self._is_natural(p) for p in parts)
        key = (kind, frozenset(frozen(p) for p in parts))
        make = arith.minsi if kind == "min" else arith.maxsi
        return self._atom(key, Atom(kind, parts, 0, natural, lambda: make(*map(self.emit, parts))))

    def _select(self, op: ir.Operation) -> Polynomial:
        parts = tuple(self.of(v) for v in list(op.operands)[1:])
        if parts[0] == parts[1]:
            return parts[0]
        condition = op.operands[0]
        key = ("select", condition, *(frozen(p) for p in parts))
        natural = all(map(self._is_natural, parts))
        emit = lambda: arith.select(condition, *map(self.emit, parts))  # noqa: E731
        return self._atom(key, Atom("select", parts, 0, natural, emit))

    def _quotient(self, op: ir.Operation) -> Polynomial:
        a, b = self._operands(op)
        exact = exact_quotient(a, b)
        if exact is not None:
            return exact
        divisor = b.get((), 0) if set(b) == {()} else 0
        if op.name == "arith.divsi" and not self._is_natural(a):
            divisor = 0
        if divisor > 0:
            if op.name == "arith.ceildivsi":
                a = added(a, {(): divisor - 1})
            return self.floordiv(a, divisor)
        natural = self._is_natural(a) and self._is_natural(b)
        make = _DIVISIONS[op.name]
        atom = Atom("", (a, b), 0, natural, lambda: make(self.emit(a), self.emit(b)))
        return self._atom((op.name, frozen(a), frozen(b)), atom)

    def floordiv(self, a: Polynomial, divisor: int) -> Polynomial:
        """``a / divisor`` rounded down, for a positive divisor."""
        if not set(a) - {()}:
            return self.of(a.get((), 0) // divisor)
        emit = lambda: arith.floordivsi(self.emit(a), builders.index(divisor))  # noqa: E731
        atom = Atom("floordiv", (a,), divisor, self._is_natural(a), emit)
        return self._atom(("floordiv", frozen(a), divisor), atom)

    def _cast(self, op: ir.Operation) -> Polynomial:
        wide = all(str(v.type) in ("index", "i64") for v in (op.operands[0], op.results[0]))
        return self.of(op.operands[0]) if wide else self._leaf(op.results[0])

    def _dim(self, op: ir.Operation) -> Polynomial:
        source, axis = op.operands[0], int_constant(op.operands[1])
        if axis is None:
            return self._leaf(op.results[0])
        with ir.InsertionPoint(op), op.location:
            derived = extent(source, axis)
        inner = defining(derived) if isinstance(derived, ir.Value) else None
        if inner is None or inner.name != "tensor.dim":
            return self.of(derived)
        source, axis = inner.operands[0], int_constant(inner.operands[1])
        assert axis is not None  # ``extent`` asks for a number
        before = before_loop(source)
        if before is not None:
            with ir.InsertionPoint(op), op.location:
                return self.of(extent(before, axis))
        emit = lambda: builders.as_index(builders.dim(source, axis))  # noqa: E731
        return self._atom(self._names.get((source, axis), (source, axis)), Atom("", (), 0, True, emit))

    # --- knowledge ----------------------------------------------------------------------------------------------------

    def learn_zero(self, form: Polynomial) -> None:
        """``form`` is zero from here on."""
        for monomial, coefficient in form.items():
            if len(monomial) != 1 or abs(coefficient) != 1 or any(monomial[0] in m for m in form if m != monomial):
                continue
            rest = {m: -c * coefficient for m, c in form.items() if m != monomial}
            self._equal[monomial[0]] = rest
            return

    def _resolved(self, form: Polynomial) -> Polynomial:
        while True:
            known = next((a for m in form for a in m if a in self._equal), None)
            if known is None:
                return form
            form = self._substituted(form, known, self._equal[known])

    def _substituted(self, form: Polynomial, atom: int, by: Polynomial) -> Polynomial:
        result: Polynomial = {}
        for monomial, coefficient in form.items():
            part: Polynomial = {tuple(a for a in monomial if a != atom): coefficient}
            for _ in range(monomial.count(atom)):
                part = multiplied(part, by)
            result = added(result, part)
        return result

    def _is_natural(self, form: Polynomial) -> bool:
        return all(c >= 0 and all(self._atoms[a].is_natural for a in m) for m, c in form.items())

    # --- proofs -------------------------------------------------------------------------------------------------------

    def is_zero(self, form: Polynomial) -> bool:
        """Whether ``form`` is known to be zero."""
        if not form:
            return True
        return self.is_never_negative(form) and self.is_never_negative(scaled(form, -1))

    def is_never_negative(self, form: Polynomial) -> bool:
        """Whether ``form >= 0`` follows from the atoms' definitions."""
        return self._proves(form, [_EFFORT])

    def _proves(self, form: Polynomial, effort: list[int]) -> bool:
        if self._is_natural(form):
            return True
        effort[0] -= 1
        if effort[0] < 0:
            return False
        for number in sorted({a for m in form for a in m}, reverse=True):
            atom = self._atoms[number]
            if not atom.kind or any(m.count(number) > 1 for m in form):
                continue
            # form = slope * atom + rest
            slope = {tuple(a for a in m if a != number): c for m, c in form.items() if number in m}
            rest = {m: c for m, c in form.items() if number not in m}
            rises = self._is_natural(slope)
            if not rises and not self._is_natural(scaled(slope, -1)):
                continue
            if self._proves_cases(atom, slope, rest, rises, effort):
                return True
        return False

    def _proves_cases(self, atom: Atom, slope: Polynomial, rest: Polynomial, rises: bool, effort: list[int]) -> bool:
        if atom.kind == "floordiv":
            # An integer p with divisor * p > -divisor is not negative.
            lowest = subtracted(atom.parts[0], {(): atom.divisor - 1}) if rises else atom.parts[0]
            bound = added(multiplied(slope, lowest), scaled(rest, atom.divisor))
            return self._proves(added(bound, {(): atom.divisor - 1}), effort)
        if atom.kind == "counter":
            low, high = atom.parts
            end = low if rises else subtracted(high, {(): 1})
            return self._proves(added(multiplied(slope, end), rest), effort)
        either = (atom.kind == "max" and rises) or (atom.kind == "min" and not rises)
        cases = (self._proves(added(multiplied(slope, part), rest), effort) for part in atom.parts)
        return any(cases) if either else all(cases)

    # --- to values ----------------------------------------------------------------------------------------------------

    def emit(self, form: Polynomial) -> ir.Value:
        """Compute ``form`` at the insertion point, which moves forward only: an atom that was emitted before in the
        same block or one around it is used again."""
        total: ir.Value | None = None
        for monomial, coefficient in form.items():
            factors = [self._emitted(atom) for atom in monomial]
            if coefficient != 1 or not factors:
                factors.append(builders.index(coefficient))
            term = functools.reduce(arith.muli, factors)
            total = term if total is None else arith.addi(total, term)
        return builders.index(0) if total is None else total

    def _emitted(self, number: int) -> ir.Value:
        """An atom's value. The atoms that it is made of come first, without recursion: quotients nest deeply."""
        block = ir.InsertionPoint.current.block
        pending = [number]
        while pending:
            atom = self._atoms[pending[-1]]
            unknown = [a for part in atom.parts for m in part for a in m if self._value_in(block, a) is None]
            if unknown:
                pending += unknown
                continue
            done = pending.pop()
            if self._value_in(block, done) is None:
                self._values[block, done] = atom.emit()
        found = self._value_in(block, number)
        assert found is not None
        return found

    def _value_in(self, block: ir.Block, number: int) -> ir.Value | None:
        """The value of an atom that was emitted in ``block`` or in one around it."""
        while (block, number) not in self._values:
            owner = block.owner.operation
            if owner.name == "func.func":
                return None
            block = owner.block
        return self._values[block, number]


def _is_number(value: ir.Value) -> bool:
    return isinstance(value.type, ir.IndexType) or str(value.type) == "i64"


def _as_index(value: ir.Value) -> ir.Value:
    return value if isinstance(value.type, ir.IndexType) else arith.index_cast(ir.IndexType.get(), value)


def added(a: Polynomial, b: Polynomial) -> Polynomial:
    """a + b"""
    result = dict(a)
    for monomial, coefficient in b.items():
        result[monomial] = result.get(monomial, 0) + coefficient
    return {m: c for m, c in result.items() if c}


def scaled(a: Polynomial, factor: int) -> Polynomial:
    """a * factor"""
    return {m: c * factor for m, c in a.items()} if factor else {}


def subtracted(a: Polynomial, b: Polynomial) -> Polynomial:
    """a - b"""
    return added(a, scaled(b, -1))


def multiplied(a: Polynomial, b: Polynomial) -> Polynomial:
    """a * b"""
    result: Polynomial = {}
    for m1, c1 in a.items():
        for m2, c2 in b.items():
            monomial = tuple(sorted(m1 + m2))
            result[monomial] = result.get(monomial, 0) + c1 * c2
    return {m: c for m, c in result.items() if c}


def exact_quotient(a: Polynomial, b: Polynomial) -> Polynomial | None:
    """The polynomial whose product with ``b`` is ``a``, else None. ``b`` is no sum of very many terms or zero."""
    if not b:
        return None
    divisor = max(b, key=_degree_first)
    quotient: Polynomial = {}
    rest = a
    while rest:
        # If the quotient exists, its leading term times that of ``b`` is the leading term of what is left.
        leading = max(rest, key=_degree_first)
        factor = _without(leading, divisor)
        if factor is None or rest[leading] % b[divisor]:
            return None
        quotient[factor] = rest[leading] // b[divisor]
        rest = subtracted(rest, multiplied(b, {factor: quotient[factor]}))
    return quotient


def _degree_first(monomial: Monomial) -> tuple[int, Monomial]:
    """Orders monomials such that factors keep the order: graded lexicographic."""
    return len(monomial), monomial


def _without(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """``monomial / divisor``, or None."""
    rest = list(monomial)
    for atom in divisor:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def common_factor(forms: Sequence[Polynomial]) -> Monomial:
    """The atoms that every term of every form has."""
    terms = [Counter(monomial) for form in forms for monomial in form]
    return tuple(sorted(functools.reduce(operator.and_, terms).elements())) if terms else ()


def frozen(a: Polynomial) -> frozenset[tuple[Monomial, int]]:
    """A key: equal for equal polynomials."""
    return frozenset(a.items())


def reduced(a: Polynomial) -> Polynomial:
    """``a`` without a common factor of its coefficients and with its first term positive: zero where ``a`` is."""
    if not a:
        return a
    divisor = math.gcd(*a.values())
    sign = 1 if a[min(a)] > 0 else -1
    return {m: sign * c // divisor for m, c in a.items()}
