"""Conditions on all elements of a tensor, checked at run time."""

from __future__ import annotations

from torch_mlir.dialects import arith, cf

from rillet.frontends.building.builder import Builder
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.tensor import Tensor
from rillet.ir import builders


def require(b: Builder, flags: Tensor, message: str) -> None:
    """Assert that all elements of a bool tensor are true."""
    wrong = b.map(lambda v: convert(~v, "int64"), flags, dtype="int64")
    total = b.reduce(wrong, list(range(flags.rank)), 0, lambda v, acc: acc + v, dtype="int64")
    number = convert(b.scalar(total), "index").value
    cf.assert_(arith.cmpi(arith.CmpIPredicate.eq, number, builders.index(0)), message)
