"""Reductions whose body combines an accumulator with a value by one associative, commutative op."""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rillet.ir.rewrite import defining
from rillet.ir.structured import Structured

QUIET = "rillet.quiet"  # on a maximum that may return a number where an element is NaN
ASSOCIATIVE = frozenset(
    {
        "arith.addf",
        "arith.mulf",
        "arith.maximumf",
        "arith.minimumf",
        "arith.maxnumf",
        "arith.minnumf",
        "arith.addi",
        "arith.muli",
        "arith.maxsi",
        "arith.minsi",
        "arith.maxui",
        "arith.minui",
        "arith.andi",
        "arith.ori",
        "arith.xori",
    }
)


@dataclass(frozen=True)
class Combination:
    """How a reduction combines its accumulator with each value: an op's name and attributes."""

    op: str
    attributes: tuple[tuple[str, ir.Attribute], ...]


def combinations_of(generic: Structured) -> list[Combination] | None:
    """One combination for each result, or None when a result's body is anything but ``acc op f(inputs)``."""
    accumulators = list(generic.body.arguments)[len(generic.inputs) :]
    found: list[Combination] = []
    for accumulator, yielded in zip(accumulators, generic.yielded(), strict=True):
        op = defining(yielded)
        if op is None or len(list(accumulator.uses)) != 1:
            return None
        if op.name not in ASSOCIATIVE or accumulator not in list(op.operands):
            return None
        # The accumulator's only use is this op, so f cannot depend on it; nor may another result use this one.
        if len(list(yielded.uses)) != 1:
            return None
        found.append(Combination(op.name, tuple(op.attributes.items())))
    return found
