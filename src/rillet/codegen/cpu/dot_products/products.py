"""Sums of products of 8-bit integers by instructions that take several steps of the reduction at once.

The packed rhs holds a *group* of steps of a column together (docs/reference/flow-form.md). Left-hand
rows are read where they lie, if whole groups lie there and the instruction takes them as they are; else row tiles are
copied to scratch first. What instructions there are is part of the target's description.
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
    """How a target multiplies groups of two narrow factors. What multiplies one group may be several operands."""

    @property
    def steps(self) -> int:
        """Steps of the reduction in a group."""

    @property
    def run(self) -> int:
        """Groups of a row that are read together where there are as many."""

    @property
    def unroll(self) -> int:
        """Groups in one iteration of the innermost loop."""

    @property
    def sums_apart(self) -> bool:
        """Whether each sum of a vector is kept in a register of its own."""

    @property
    def sum_lanes(self) -> int:
        """In how many parts such a sum is kept, in lanes; 1: as a number."""

    @property
    def lhs_bits(self) -> int:
        """Of an lhs factor in scratch."""

    @property
    def in_place(self) -> bool:
        """Whether lhs elements are multiplied as they lie in memory."""

    @property
    def shift(self) -> int:
        """An lhs factor is what is multiplied plus this."""

    def ones(self) -> ir.Value:
        """What multiplies a group of ones."""

    def tile(self, target: CpuTarget, m: int, n: int, groups: int) -> Tile:
        """The register tile for ``m`` rows, ``n`` columns and as many groups."""

    def lhs(self, source: Buffer, offset: Index, groups: int) -> list[list[ir.Value]]:
        """A row's operands for each of the groups from ``offset`` on: ``run`` of them, or one."""

    def rhs(self, source: Buffer, offset: Index) -> list[ir.Value]:
        """A vector of columns' operands for the group at ``offset``."""

    def multiply_add(self, lhs: ir.Value, rhs: ir.Value, total: ir.Value) -> ir.Value:
        """A sum, or vector of sums, plus products."""

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
    """How the target multiplies these factors, the rhs being packed as ``rhs``; None if it cannot."""
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
