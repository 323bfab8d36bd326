"""Discrete Fourier transforms in the tensor form.

A transform is a ``linalg.generic`` that sums products of samples with sines and cosines, which its body computes from
the loops ``linalg.index``; so it means what it says, and any backend can run it. It carries the attribute ``MARK``,
with which code generation need not recognize the formula: a fast algorithm gives the same sums.

Its loops are those over rows, then one parallel loop over the ``2 k + j`` numbers of a row's result (part ``j`` of
frequency ``k``), then one reduction over the ``2 t + c`` numbers of a row's source; rows and results are plain
dimensions of the result. Where a side is real it has one number for each point instead of two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from torch_mlir import ir

from rillet.ir.builders import i64_attr

MARK = "rillet.fourier"

Source: TypeAlias = Literal["real", "complex", "half"]
Result: TypeAlias = Literal["complex", "real"]


@dataclass(frozen=True)
class Fourier:
    """A transform of ``length`` points. An inverse one divides by the length.

    ``source``: real or complex samples; "half": the first ``length // 2 + 1`` of complex samples of which the others
    are the conjugates, so that the result is real.
    """

    length: int
    source: Source
    result: Result
    inverse: bool

    @property
    def numbers(self) -> int:
        """The real numbers of a row's source."""
        if self.source == "half":
            return 2 * (self.length // 2 + 1)
        return self.length * (2 if self.source == "complex" else 1)

    @property
    def macs(self) -> int:
        """The multiply-accumulates of a row: half of the 5 n log2 n operations that fast complex transforms are said
        to have, and half of that again where a side is real."""
        return round(1.25 * self.numbers * math.log2(max(self.length, 2)))


def mark(op: ir.Operation, of: Fourier) -> None:
    """Say that ``op`` is this transform."""
    texts = {"source": ir.StringAttr.get(of.source), "result": ir.StringAttr.get(of.result)}
    op.attributes[MARK] = ir.DictAttr.get(
        {"length": i64_attr(of.length), "inverse": ir.BoolAttr.get(of.inverse), **texts}
    )


def marked(op: ir.Operation) -> Fourier | None:
    """The transform that ``op`` is said to be, or None."""
    if MARK not in op.attributes:
        return None
    facts = ir.DictAttr(op.attributes[MARK])
    return Fourier(
        ir.IntegerAttr(facts["length"]).value,
        ir.StringAttr(facts["source"]).value,  # type: ignore[arg-type]
        ir.StringAttr(facts["result"]).value,  # type: ignore[arg-type]
        bool(ir.BoolAttr(facts["inverse"]).value),
    )
