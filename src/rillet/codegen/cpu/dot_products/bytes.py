"""Sums of products of bytes, with instructions that multiply bytes as they lie in memory: both signed, or both
unsigned.

Lhs bytes whose sign differs from the rhs bytes' are copied to scratch with their highest bit flipped. That makes them
128 less (or more) and gives them the rhs's sign. Each sum then lacks 128 times the sum of its column's rhs factors. A
zero point adds the same kind of term: see ``shift``.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, vector

from rillet.codegen.coordinates import Lane
from rillet.codegen.cpu import cost_model, intrinsics
from rillet.codegen.cpu.dot_products import pairs as pair_products
from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.emit import memory
from rillet.codegen.emit.blocks import Tile
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.memory import Buffer
from rillet.codegen.emit.values import constant
from rillet.codegen.index import Index
from rillet.codegen.recognize.narrow_factors import NarrowFactor

_BYTES = 16  # of a vector register
_HALF = 128  # the change of a byte's value when its highest bit is flipped


@dataclass(frozen=True)
class ByteProducts:
    """The parts that the instructions below have in common; see ``dot_products.DotProducts``."""

    lhs_factor: NarrowFactor
    rhs_factor: NarrowFactor
    mixed: bool = False  # whether the target has an instruction for bytes of both signs
    lhs_bits: int = 8
    sum_lanes = 1

    @property
    def turns(self) -> bool:
        """Whether lhs bytes are multiplied with their highest bit flipped."""
        return self.lhs_factor.signed != self.rhs_factor.signed and not self.mixed

    @property
    def in_place(self) -> bool:
        """Whether the lhs is read where it lies, with no bit flipped."""
        return not self.turns

    @property
    def shift(self) -> int:
        """The constant to add to the multiplied byte to get the lhs factor."""
        turned = (-_HALF if self.lhs_factor.signed else _HALF) if self.turns else 0
        return turned - self.lhs_factor.zero_point

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
        """Copy ``length`` elements of a row, ``stride`` apart, to ``panel``."""

        def convert(stored: ir.Value) -> ir.Value:
            return arith.XOrIOp(stored, constant(-_HALF, stored.type)).result if self.turns else stored

        pair_products.copy_run(kernel, source, offset, stride, convert, panel, target, length)

    def ones(self) -> ir.Value:
        """The operand that stands for a group of ones."""
        return constant(1, _bytes())


class MveProducts(ByteProducts):
    """Cortex-M processors with vectors: ``vmladava`` adds 16 products to a sum in a general register."""

    steps = 16
    run = 1
    unroll = 1
    sums_apart = True

    def tile(self, target: CpuTarget, m: int, n: int, groups: int) -> Tile:
        """Eight registers can hold sums, and a vector of the epilogue has four columns."""
        return Tile(min(m, 2), 1, 4)

    def lhs(self, source: Buffer, offset: Index, groups: int) -> list[list[ir.Value]]:
        """16 bytes of a row."""
        return [[_load(source, offset)]]

    def rhs(self, source: Buffer, offset: Index) -> list[ir.Value]:
        """16 bytes of a column."""
        return [_load(source, offset)]

    def multiply_add(self, lhs: ir.Value, rhs: ir.Value, total: ir.Value) -> ir.Value:
        """``total`` plus 16 products."""
        no = constant(0, total.type)
        unsigned = constant(0 if self.rhs_factor.signed else 1, total.type)
        return intrinsics.call("llvm.arm.mve.vmldava.v16i8", total.type, unsigned, no, no, total, lhs, rhs)


class WideningProducts(ByteProducts):
    """AArch64 processors without dot products: ``smull`` and ``umull`` multiply eight bytes to 16 bits, exactly, and
    ``sadalp`` and ``uadalp`` add neighbours to the four parts of a sum."""

    steps = 16
    run = 1
    unroll = 1
    sums_apart = True
    sum_lanes = 4

    def tile(self, target: CpuTarget, m: int, n: int, groups: int) -> Tile:
        """A tile with a register for each sum, and registers for the operands that all rows or columns multiply."""
        return Tile(min(m, 4), 1, 4)

    def lhs(self, source: Buffer, offset: Index, groups: int) -> list[list[ir.Value]]:
        """16 bytes."""
        return [[_load(source, offset)]]

    def rhs(self, source: Buffer, offset: Index) -> list[ir.Value]:
        """16 bytes of a column."""
        return [_load(source, offset)]

    def multiply_add(self, lhs: ir.Value, rhs: ir.Value, total: ir.Value) -> ir.Value:
        """``total`` plus 16 products."""
        sign = "s" if self.rhs_factor.signed else "u"
        products = ir.VectorType.get([_BYTES // 2], ir.IntegerType.get_signless(16))
        for half in (0, _BYTES // 2):
            lanes = list(range(half, half + _BYTES // 2))
            parts = [vector.ShuffleOp(value, value, lanes).result for value in (lhs, rhs)]
            product = intrinsics.call(f"llvm.aarch64.neon.{sign}mull.v8i16", products, *parts)
            pairs = intrinsics.call(f"llvm.aarch64.neon.{sign}addlp.v4i32.v8i16", total.type, product)
            total = arith.AddIOp(total, pairs).result
        return total


class NeonProducts(ByteProducts):
    """AArch64 processors with dot products: ``sdot`` and ``udot`` add four products to each of four sums, and take the
    lhs bytes from a quarter of a register; ``usdot`` does so for bytes of both signs."""

    steps = 4
    run = 4
    unroll = 4
    sums_apart = False

    def tile(self, target: CpuTarget, m: int, n: int, groups: int) -> Tile:
        """A tile as for floats: a group of a column takes four bytes, as a sum does."""
        return cost_model.choose_tile(target, m, n, groups)

    def lhs(self, source: Buffer, offset: Index, groups: int) -> list[list[ir.Value]]:
        """Four bytes of a row for each group, in all quarters of a register."""
        loaded = memory.load(source, [Lane(offset)], groups * self.steps)
        return [[_quarter(loaded, n)] for n in range(groups)]

    def rhs(self, source: Buffer, offset: Index) -> list[ir.Value]:
        """Four bytes of each of four columns."""
        return [_load(source, offset)]

    def multiply_add(self, lhs: ir.Value, rhs: ir.Value, total: ir.Value) -> ir.Value:
        """``total`` plus the products of four steps in each lane."""
        if self.lhs_factor.signed != self.rhs_factor.signed and self.mixed:
            operands = (rhs, lhs) if self.lhs_factor.signed else (lhs, rhs)
            return intrinsics.call("llvm.aarch64.neon.usdot.v4i32.v16i8", total.type, total, *operands)
        name = "sdot" if self.rhs_factor.signed else "udot"
        return intrinsics.call(f"llvm.aarch64.neon.{name}.v4i32.v16i8", total.type, total, rhs, lhs)


def _load(source: Buffer, offset: Index) -> ir.Value:
    return memory.load(source, [Lane(offset)], _BYTES)


def _quarter(bytes_: ir.Value, number: int) -> ir.Value:
    count = ir.VectorType(bytes_.type).shape[0] // 4
    words = vector.BitCastOp(ir.VectorType.get([count], ir.IntegerType.get_signless(32)), bytes_).result
    return vector.BitCastOp(_bytes(), vector.ShuffleOp(words, words, [number] * 4).result).result


def _bytes() -> ir.Type:
    return ir.VectorType.get([_BYTES], ir.IntegerType.get_signless(8))
