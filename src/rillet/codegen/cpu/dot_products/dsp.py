"""Sums of products of 8-bit integers on Cortex-M processors with the DSP extension.

``smlad`` adds both products of two pairs of 16-bit integers to a sum. ``sxtb16`` widens the first and third of a
register's four bytes or, rotated by a byte, the second and fourth. So the packed rhs holds every four steps in the
order 0, 2, 1, 3: widened, they are the pairs (0, 1) and (2, 3). Lhs rows are copied to scratch as 16-bit factors minus
their zero point, where neighbours form a pair. Nothing rounds or wraps.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, vector

from rillet.codegen import index
from rillet.codegen.cpu import intrinsics
from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.emit import blocks, memory
from rillet.codegen.emit.blocks import Tile
from rillet.codegen.emit.factors import widen
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.memory import Buffer
from rillet.codegen.emit.values import constant
from rillet.codegen.index import Index
from rillet.codegen.recognize.narrow_factors import NarrowFactor

_WORD = 4  # bytes


@dataclass(frozen=True)
class DspProducts:
    """See the module's docstring, and ``dot_products.DotProducts``."""

    lhs_factor: NarrowFactor
    rhs_factor: NarrowFactor
    steps = 4
    run = 1
    unroll = 2
    sums_apart = False
    sum_lanes = 1
    lhs_bits = 16
    in_place = False
    shift = 0

    def tile(self, target: CpuTarget, m: int, n: int, groups: int) -> Tile:
        """A tile of two rows by two columns: four sums, four registers of widened rhs pairs, one lhs pair and the
        addresses fit the 14 registers. With one row no rhs pair is used twice, and four columns share each lhs pair."""
        return Tile(1, min(n, 4), 1) if m == 1 else Tile(2, min(n, 2), 1)

    def ones(self) -> ir.Value:
        """A pair of ones."""
        return constant(0x10001, _i32())

    def lhs(self, source: Buffer, offset: Index, groups: int) -> list[list[ir.Value]]:
        """The two pairs of a group, from scratch."""
        intrinsics.keep_order()
        return [[_load_word(source.memref, index.add(offset, n), 16, _WORD) for n in (0, 2)]]

    def rhs(self, source: Buffer, offset: Index) -> list[ir.Value]:
        """The two pairs of a group of one column."""
        word = _load_word(source.memref, offset, 8, _WORD)
        return _widened(word, self.rhs_factor.signed)

    def multiply_add(self, lhs: ir.Value, rhs: ir.Value, total: ir.Value) -> ir.Value:
        """``total`` plus the products of both pairs."""
        return intrinsics.call("llvm.arm.smlad", total.type, lhs, rhs, total)

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
        """Copy ``length`` elements of a row, ``stride`` apart, to ``panel`` as 16-bit factors."""

        def copy_group(at: Index) -> None:
            pairs = _widened(_load_word(source.memref, index.add(offset, at), 8, 1), self.lhs_factor.signed)
            if self.lhs_factor.zero_point:
                half = self.lhs_factor.zero_point & 0xFFFF
                zero = constant(half << 16 | half, _i32())
                pairs = [intrinsics.call("llvm.arm.ssub16", _i32(), pair, zero) for pair in pairs]
            for number, pair in enumerate(_transposed(*pairs)):
                _store_word(panel.memref, index.add(index.add(target, at), 2 * number), pair)

        def copy_element(at: Index) -> None:
            element = memory.load(source, [index.add(offset, index.mul(at, stride))])
            memory.store(panel, [index.add(target, at)], widen(self.lhs_factor, element))

        whole = length - length % self.steps if stride == 1 else 0
        blocks.each(kernel, (0, whole), self.steps, copy_group)
        if length - whole < self.steps:
            for at in range(whole, length):
                copy_element(at)
        else:
            blocks.each(kernel, (0, length), 1, copy_element)


def _widened(word: ir.Value, signed: bool) -> list[ir.Value]:
    """The bytes 0 and 2 of a register, and the bytes 1 and 3, as pairs of 16-bit integers."""
    extend = "llvm.arm.sxtb16" if signed else "llvm.arm.uxtb16"
    turned = intrinsics.call("llvm.fshr.i32", _i32(), word, word, constant(8, _i32()))
    return [intrinsics.call(extend, _i32(), value) for value in (word, turned)]


def _transposed(even: ir.Value, odd: ir.Value) -> list[ir.Value]:
    """The pairs (0, 2) and (1, 3) as (0, 1) and (2, 3); LLVM packs halfwords by one instruction each."""
    half = constant(16, _i32())
    low, high = constant(0xFFFF, _i32()), constant(-0x10000, _i32())
    first = arith.OrIOp(arith.AndIOp(even, low).result, arith.ShLIOp(odd, half).result).result
    second = arith.OrIOp(arith.AndIOp(odd, high).result, arith.ShRUIOp(even, half).result).result
    return [first, second]


def _load_word(source: ir.Value, offset: Index, bits: int, alignment: int) -> ir.Value:
    """Elements of ``bits`` bits that fill a register."""
    type_ = ir.VectorType.get([32 // bits], ir.IntegerType.get_signless(bits))
    loaded = vector.LoadOp(type_, source, [index.value(offset)], alignment=alignment).result
    return vector.ExtractOp(vector.BitCastOp(ir.VectorType.get([1], _i32()), loaded).result, [], [0]).result


def _store_word(target: ir.Value, offset: Index, word: ir.Value) -> None:
    whole = vector.BroadcastOp(ir.VectorType.get([1], _i32()), word).result
    pair = vector.BitCastOp(ir.VectorType.get([2], ir.IntegerType.get_signless(16)), whole).result
    vector.StoreOp(pair, target, [index.value(offset)], alignment=_WORD)


def _i32() -> ir.Type:
    return ir.IntegerType.get_signless(32)
