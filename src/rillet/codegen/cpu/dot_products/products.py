"""Sums of products of 8-bit integers by instructions that take several steps of the reduction at once.

The packed rhs holds a *group* of a column's steps together (docs/reference/flow-form.md). Lhs rows are read where they
lie, if they hold whole groups in the form in which the instruction takes them; otherwise row tiles are copied to
scratch first. The target's description says which instructions it has.
"""

from __future__ import annotations

from typing import Protocol

from torch_mlir import ir

from rillet.codegen.cpu.dot_products.bytes import MveProducts, NeonProducts, WideningProducts
from rillet.codegen.cpu.dot_products.dsp import DspProducts
from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.emit.blocks import Tile
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.memory import Buffer
from rillet.codegen.index import Index
from rillet.codegen.recognize.linear_access import Access
from rillet.codegen.recognize.narrow_factors import NarrowFactor


class DotProducts(Protocol):
    """How a target multiplies groups of two narrow factors. A group may take several operands."""

    @property
    def steps(self) -> int:
        """Steps of the reduction in a group."""

    @property
    def run(self) -> int:
        """The number of a row's groups that are read together, when that many remain."""

    @property
    def unroll(self) -> int:
        """Groups in one iteration of the innermost loop."""

    @property
    def sums_apart(self) -> bool:
        """Whether each sum of a vector is kept in a register of its own."""

    @property
    def sum_lanes(self) -> int:
        """The number of lanes over which each sum is kept; 1: it is a scalar."""

    @property
    def lhs_bits(self) -> int:
        """Bits of an lhs factor in scratch."""

    @property
    def in_place(self) -> bool:
        """Whether lhs elements are multiplied as they lie in memory."""

    @property
    def shift(self) -> int:
        """The constant to add to the multiplied byte to get the lhs factor."""

    def ones(self) -> ir.Value:
        """The operand that stands for a group of ones."""

    def tile(self, target: CpuTarget, m: int, n: int, groups: int) -> Tile:
        """The register tile for ``m`` rows, ``n`` columns and ``groups`` groups."""

    def lhs(self, source: Buffer, offset: Index, groups: int) -> list[list[ir.Value]]:
        """A row's operands for each of the groups from ``offset`` on: ``run`` of them, or one."""

    def rhs(self, source: Buffer, offset: Index) -> list[ir.Value]:
        """A vector of columns' operands for the group at ``offset``."""

    def multiply_add(self, lhs: ir.Value, rhs: ir.Value, total: ir.Value) -> ir.Value:
        """``total`` (a sum, or a vector of sums) plus the products of one operand of each side."""

    def copy_run(
        self,
        kernel: KernelBuilder,
        source: Buffer,
        offset: Index,
        stride: Index,
        panel: Buffer,
        target: Index,
        length: int,
    ) -> None:
        """Copy ``length`` elements of a row, ``stride`` apart, to scratch, as ``lhs`` reads them."""


def products_of(target: CpuTarget, rhs: Access, factors: tuple[NarrowFactor, NarrowFactor]) -> DotProducts | None:
    """How the target multiplies these factors with the rhs packed as ``rhs``; None if it cannot."""
    packed = (rhs.together, rhs.ways) == (target.packing.steps, target.packing.ways)
    if not packed or factors[1].zero_point:
        return None
    if target.machine.dot_products == "dsp":
        return DspProducts(*factors)
    if target.machine.dot_products == "mve":
        return MveProducts(*factors)
    if target.machine.dot_products == "neon":
        return NeonProducts(*factors, mixed="i8mm" in target.machine.features)
    if target.machine.dot_products == "neon-widening":
        return WideningProducts(*factors)
    return None
