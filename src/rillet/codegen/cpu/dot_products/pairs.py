"""Sums of products of narrow integers, two steps of the reduction at a time.

SSE2, AVX2 and AVX-512 multiply vectors of 16-bit integers and add neighbouring products to 32-bit ones (``pmaddwd``):
twice the products that an instruction gives in 32 bits. None of them rounds or wraps, since an 8-bit integer minus its
zero point has 10 bits at most. Lhs rows are first copied to scratch, widened and minus their zero point, so that one
load brings a pair of neighbours to all lanes. The rhs vectors of two steps are interleaved in registers.
"""

from __future__ import annotations

from collections.abc import Callable

from torch_mlir import ir
from torch_mlir.dialects import arith, vector

from rillet.codegen import index
from rillet.codegen.coordinates import Lane
from rillet.codegen.emit import blocks, memory
from rillet.codegen.emit.factors import widen
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.memory import Buffer
from rillet.codegen.index import Index
from rillet.codegen.recognize.narrow_factors import NarrowFactor

_LINE_ELEMENTS = 32  # factors in a cache line
_COPY_LANES = (16, 8, 4, 1)  # elements that are copied together, the most that remain first


def pitch(steps: int) -> int:
    """Elements from one row to the next in scratch: an odd number of cache lines, so that rows do not share sets or
    banks. At least one element is spare where the last pair must be filled."""
    lines = -(-(steps + steps % 2) // _LINE_ELEMENTS)
    return _LINE_ELEMENTS * (lines + 1 - lines % 2)


def copy_run(
    kernel: KernelBuilder,
    source: Buffer,
    offset: Index,
    stride: Index,
    convert: Callable[[ir.Value], ir.Value],
    panel: Buffer,
    target: Index,
    length: int,
) -> None:
    """Copy ``length`` elements of a row, ``stride`` apart, to ``panel``, converted."""

    def copy(at: Index, lanes: int) -> None:
        here, there = index.add(offset, index.mul(at, stride)), index.add(target, at)
        loaded = memory.load(source, [Lane(here) if lanes > 1 else here], lanes)
        memory.store(panel, [Lane(there) if lanes > 1 else there], convert(loaded), lanes)

    if stride != 1:
        blocks.each(kernel, (0, length), 1, lambda at: copy(at, 1))
        return

    widest, *narrower = _COPY_LANES
    whole = length - length % widest
    blocks.each(kernel, (0, whole), widest, lambda at: copy(at, widest))
    for lanes in narrower:
        while length - whole >= lanes:
            copy(whole, lanes)
            whole += lanes


def load_lhs(panel: Buffer, offset: Index, lanes: int) -> ir.Value:
    """The pair of factors at ``offset`` in all lanes: ``vector<2 * lanes x i16>``."""
    pair = memory.load(panel, [Lane(offset)], 2)
    return vector.ShuffleOp(pair, pair, [0, 1] * lanes).result


def interleave(first: ir.Value, second: ir.Value, factor: NarrowFactor) -> ir.Value:
    """Two steps' rhs elements (``vector<lanes x i8>`` each) as ``vector<2 * lanes x i16>`` of pairs."""
    (lanes,) = ir.VectorType(first.type).shape
    order = [n + lanes * step for n in range(lanes) for step in (0, 1)]
    return widen(factor, vector.ShuffleOp(first, second, order).result)


def multiply_add(lhs: ir.Value, rhs: ir.Value, total: ir.Value) -> ir.Value:
    """``total`` (``vector<lanes x i32>``) plus both products of each lane's pairs."""
    (lanes,) = ir.VectorType(total.type).shape
    wide = ir.VectorType.get([2 * lanes], ir.VectorType(total.type).element_type)
    product = arith.MulIOp(arith.ExtSIOp(wide, lhs).result, arith.ExtSIOp(wide, rhs).result).result
    first, second = (vector.ShuffleOp(product, product, list(range(n, 2 * lanes, 2))).result for n in (0, 1))
    return arith.AddIOp(total, arith.AddIOp(first, second).result).result
