"""Coordinates as linear functions of loops: a loop moves such a coordinate by a constant step."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rillet.ir.structured import Expr


@dataclass(frozen=True)
class Linear:
    """``constant + sum(coefficients[l] * loop_l)``, with a coefficient for each loop of a nest."""

    coefficients: tuple[int, ...]
    constant: int = 0

    @property
    def terms(self) -> dict[int, int]:
        """The coefficients that are not zero, by loop."""
        return {loop: c for loop, c in enumerate(self.coefficients) if c}

    def among(self, loops: Collection[int]) -> list[int]:
        """The ``loops`` that move it, ascending."""
        return [loop for loop in self.terms if loop in loops]

    def only(self) -> int | None:
        """The loop that it equals, or None when it is anything else."""
        terms = self.terms
        return next(iter(terms)) if not self.constant and list(terms.values()) == [1] else None


def constant(value: int, loops: int) -> Linear:
    """The function that is ``value`` everywhere in a nest of ``loops``."""
    return Linear((0,) * loops, value)


def identity(loops: int) -> tuple[Linear, ...]:
    """Each loop of a nest as a function of them all."""
    return tuple(Linear(tuple(int(i == n) for i in range(loops))) for n in range(loops))


def linear(expr: Expr, loops: int) -> Linear | None:
    """``expr`` as a function of ``loops`` loops; None when it is not linear."""
    return substitute(expr, identity(loops))


def substitute(expr: Expr, at: Sequence[Linear]) -> Linear | None:
    """``expr`` where its dimensions have these values; None when it is not linear."""
    if isinstance(expr, int):
        return at[expr]
    if isinstance(expr, ir.AffineDimExpr):
        return at[expr.position]
    if isinstance(expr, ir.AffineConstantExpr):
        return constant(expr.value, len(at[0].coefficients) if at else 0)
    if not isinstance(expr, ir.AffineAddExpr | ir.AffineMulExpr):
        return None
    a, b = substitute(expr.lhs, at), substitute(expr.rhs, at)
    if a is None or b is None:
        return None
    if isinstance(expr, ir.AffineAddExpr):
        total = tuple(x + y for x, y in zip(a.coefficients, b.coefficients, strict=True))
        return Linear(total, a.constant + b.constant)
    for factor, other in ((a, b), (b, a)):
        if not factor.terms:
            return Linear(tuple(factor.constant * c for c in other.coefficients), factor.constant * other.constant)
    return None


def substitute_all(map_: Sequence[Expr], at: Sequence[Linear]) -> tuple[Linear, ...] | None:
    """``substitute`` for every result of a map."""
    found = [substitute(e, at) for e in map_]
    return None if None in found else tuple(found)  # type: ignore[arg-type]
