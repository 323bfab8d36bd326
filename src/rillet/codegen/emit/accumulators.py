"""Reductions whose body combines the accumulator with a value by one associative op, so that lanes can accumulate
apart."""

from __future__ import annotations

import math as pymath
from collections.abc import Callable
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, vector

from rillet.codegen import index
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.values import constant
from rillet.codegen.index import Index
from rillet.codegen.recognize.accumulation import QUIET, combinations_of
from rillet.ir.rewrite import defining
from rillet.ir.structured import Structured

_LONGEST_SUM = 64


@dataclass(frozen=True)
class Combiner:
    """An associative, commutative op: its name and the value that leaves every accumulator unchanged."""

    op: str
    attributes: tuple[tuple[str, ir.Attribute], ...]
    identity: Callable[[ir.Type], int | float]

    def apply(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """``a op b``"""
        return ir.Operation.create(
            self.op, results=[a.type], operands=[a, b], attributes=dict(self.attributes)
        ).results[0]

    def identity_of(self, type_: ir.Type) -> ir.Value:
        """The identity as a scalar or splat."""
        element = type_.element_type if isinstance(type_, ir.VectorType) else type_
        return constant(self.identity(element), type_)

    def _fold(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """``a op b``; extrema take fewer instructions than ``apply``'s."""
        combined = self.apply(a, b)
        return fast_extremum(combined, a)

    def narrow(self, value: ir.Value, lanes: int) -> ir.Value:
        """Combine the halves of a vector (a power of two of lanes) until it has ``lanes``."""
        width = ir.VectorType(value.type).shape[0]
        while width > lanes:
            width //= 2
            low = vector.shuffle(value, value, list(range(width)))
            high = vector.shuffle(value, value, list(range(width, 2 * width)))
            value = self._fold(low, high)
        return value

    def across_lanes(self, value: ir.Value) -> ir.Value:
        """Combine all lanes of a vector into a scalar."""
        if self.op not in _PREDICATES:
            return vector.extract(self.narrow(value, 1), [], [0])
        if any(name == QUIET for name, _ in self.attributes):
            return vector.extract(self.narrow(value, 1), [], [0])
        # NaN is looked for once, after which each step is one instruction.
        kind = ir.Attribute.parse("#vector.kind<or>")
        unordered = arith.CmpFOp(arith.CmpFPredicate.UNO, value, value).result
        has_nan = vector.reduction(ir.IntegerType.get_signless(1), kind, unordered)
        width = ir.VectorType(value.type).shape[0]
        while width > 1:
            width //= 2
            low = vector.shuffle(value, value, list(range(width)))
            high = vector.shuffle(value, value, list(range(width, 2 * width)))
            value = arith.SelectOp(arith.CmpFOp(_PREDICATES[self.op], low, high).result, low, high).result
        best = vector.extract(value, [], [0])
        return arith.SelectOp(has_nan, constant(pymath.nan, best.type), best).result


def sum_in_parts(
    kernel: KernelBuilder,
    generic: Structured,
    size: Index,
    accumulators: list[ir.Value],
    span: Callable[[Index, Index, list[ir.Value]], list[ir.Value]],
) -> list[ir.Value]:
    """Reduces over ``size`` steps; ``span(start, end, accumulators)`` does those from ``start`` to ``end``.

    The error of a running sum of floats grows with its length (Higham, Accuracy and Stability of Numerical Algorithms,
    chapter 4), so a long sum is made of sums of at most ``_LONGEST_SUM`` terms. ``accumulators`` holds the generic's
    accumulators, once or several times over.
    """
    combiners = combiners_of(generic)
    sums = combiners and all(c.op == "arith.addf" for c in combiners)
    if not combiners or not sums or (isinstance(size, int) and size <= _LONGEST_SUM):
        return span(0, size, accumulators)
    return add_parts(kernel, size, _LONGEST_SUM, accumulators, span)


def add_parts(
    kernel: KernelBuilder,
    size: Index,
    part: int,
    accumulators: list[ir.Value],
    span: Callable[[Index, Index, list[ir.Value]], list[ir.Value]],
) -> list[ir.Value]:
    """Adds the sums of each ``part`` of ``size`` steps to ``accumulators``, which are floats. ``span(start, end,
    accumulators)`` sums one part, starting from zero."""
    exact = isinstance(size, int) and size % part == 0
    with kernel.loop(0, size, part, accumulators) as outer:
        nothing = [_FLOAT_SUM.identity_of(a.type) for a in accumulators]
        end = index.add(outer.iv, part)
        sums = span(outer.iv, end if exact else index.minimum(end, size), nothing)
        outer.yield_(*(_FLOAT_SUM.apply(a, s) for a, s in zip(outer.carried, sums, strict=True)))
    return outer.results


def sum_of(type_: ir.Type) -> Combiner:
    """The addition of floats or integers of this type."""
    return _FLOAT_SUM if isinstance(type_, ir.FloatType) else _INTEGER_SUM


def combiners_of(generic: Structured) -> list[Combiner] | None:
    """One combiner for each result, or None when a result's body is anything but ``acc op f(inputs)``."""
    found = combinations_of(generic)
    return None if found is None else [Combiner(c.op, c.attributes, _IDENTITIES[c.op]) for c in found]


def fast_extremum(value: ir.Value, accumulator: ir.Value) -> ir.Value:
    """``maximumf`` or ``minimumf`` of an accumulator in fewer instructions; NaN still wins.

    Only the sign of zero may differ: among zeros of both signs the last one read counts, as in numpy. A value made by
    any other op is returned unchanged.
    """
    op = defining(value, *_PREDICATES)
    if op is None:
        return value
    a, b = op.operands
    if accumulator not in (a, b):
        return value
    other = b if a == accumulator else a
    # The select is one instruction, and takes ``other`` when that is NaN.
    best = arith.SelectOp(arith.CmpFOp(_PREDICATES[op.name], accumulator, other).result, accumulator, other).result
    if QUIET in op.attributes:
        return best
    was_nan = arith.CmpFOp(arith.CmpFPredicate.UNO, accumulator, accumulator).result
    return arith.SelectOp(was_nan, accumulator, best).result


_FLOAT_SUM = Combiner("arith.addf", (), lambda t: -0.0)
_INTEGER_SUM = Combiner("arith.addi", (), lambda t: 0)


def _lowest(type_: ir.Type) -> int:
    return -(1 << (_width(type_) - 1))


def _highest(type_: ir.Type) -> int:
    return (1 << (_width(type_) - 1)) - 1


def _width(type_: ir.Type) -> int:
    return 64 if isinstance(type_, ir.IndexType) else type_.width


_PREDICATES = {"arith.maximumf": arith.CmpFPredicate.OGT, "arith.minimumf": arith.CmpFPredicate.OLT}

_IDENTITIES: dict[str, Callable[[ir.Type], int | float]] = {
    "arith.addf": _FLOAT_SUM.identity,
    "arith.mulf": lambda t: 1.0,
    "arith.maximumf": lambda t: -pymath.inf,
    "arith.minimumf": lambda t: pymath.inf,
    "arith.maxnumf": lambda t: pymath.nan,
    "arith.minnumf": lambda t: pymath.nan,
    "arith.addi": _INTEGER_SUM.identity,
    "arith.muli": lambda t: 1,
    "arith.maxsi": _lowest,
    "arith.minsi": _highest,
    "arith.maxui": lambda t: 0,
    "arith.minui": lambda t: -1,
    "arith.andi": lambda t: -1,
    "arith.ori": lambda t: 0,
    "arith.xori": lambda t: 0,
}
