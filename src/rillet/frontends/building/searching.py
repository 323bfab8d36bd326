"""Searches of sorted tables."""

from __future__ import annotations

from torch_mlir import ir

from rillet.frontends.building.builder import Builder
from rillet.frontends.building.scalars import Scalar, constant, minimum, select


def last_not_above(b: Builder, table: ir.Value, dtype: str, count: int, wanted: Scalar) -> Scalar:
    """The last position of ``table`` (``count`` ascending elements of ``dtype``) whose element is not above ``wanted``.

    It is an index scalar; 0 where all are above. It is found by steps of falling powers of two, without branches.
    """
    at, last = constant(0, "index"), count - 1
    for step in reversed(range(last.bit_length())):
        ahead = minimum(at + (1 << step), last)
        at = select(b.element(table, dtype, [ahead]) <= wanted, ahead, at)
    return at
