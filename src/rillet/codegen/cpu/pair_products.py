"""Sums of products of narrow integers, two steps of the reduction at a time.

SSE2, AVX2 and AVX-512 multiply vectors of 16-bit integers and add neighbouring products to 32-bit ones (``pmaddwd``),
twice as many products an instruction as in 32 bits, and none of them rounds or wraps: a factor made of an 8-bit integer
and its zero point has 10 bits at most. Left-hand rows are copied to scratch first, widened and less their zero point,
so that a pair of neighbours reaches all lanes by one load; right-hand vectors of two steps are interleaved in
registers.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, vector

from rillet.codegen.cpu import blocks, index, memory
from rillet.codegen.cpu.body import constant
from rillet.codegen.cpu.contraction_form import Contraction
from rillet.codegen.cpu.coordinates import Lane
from rillet.codegen.cpu.dispatch import Generic
from rillet.codegen.cpu.index import Index
from rillet.codegen.cpu.kernel import Kernel
from rillet.codegen.cpu.memory import Buffer

_MOST_ZERO_POINT = 255
_LINE_ELEMENTS = 32  # factors in a cache line
_COPY_LANES = (16, 8, 4, 1)  # elements that are copied together, as long as there are as many


@dataclass(frozen=True)
class NarrowFactor:
    """A factor ``extend(x) - zero_point`` of an 8-bit element ``x``."""

    signed: bool
    zero_point: int

    def widened(self, stored: ir.Value) -> ir.Value:
        """The factor of 8-bit elements (``vector<n x i8>``, or a scalar), in 16 bits."""
        i16 = ir.IntegerType.get_signless(16)
        is_vector = isinstance(stored.type, ir.VectorType)
        type_ = ir.VectorType.get(ir.VectorType(stored.type).shape, i16) if is_vector else i16
        extend = arith.ExtSIOp if self.signed else arith.ExtUIOp
        wide = extend(type_, stored).result
        return arith.SubIOp(wide, constant(self.zero_point, type_)).result if self.zero_point else wide


def factors_of(contraction: Contraction) -> tuple[NarrowFactor, NarrowFactor] | None:
    """The left and the right factor, when both are narrow and their products are summed in 32 bits."""
    product = contraction.product
    accumulator = product.accumulator_type
    if not isinstance(accumulator, ir.IntegerType) or accumulator.width != 32 or product.widen is not None:
        return None
    left, right = (_factor(contraction.root, value) for value in (product.left, product.right))
    return None if left is None or right is None else (left, right)


def _factor(root: Generic, value: ir.Value) -> NarrowFactor | None:
    zero_point = 0
    owner = _owner(value)
    if owner is not None and owner.name == "arith.subi":
        value, subtracted = owner.operands
        known = _constant(subtracted)
        if known is None or abs(known) > _MOST_ZERO_POINT:
            return None
        zero_point, owner = known, _owner(value)
    if owner is None or owner.name not in ("arith.extsi", "arith.extui"):
        return None
    (narrow,) = owner.operands
    is_element = narrow in list(root.body.arguments) and ir.IntegerType(narrow.type).width == 8
    return NarrowFactor(owner.name == "arith.extsi", zero_point) if is_element else None


def _owner(value: ir.Value) -> ir.Operation | None:
    return None if isinstance(value.owner, ir.Block) else value.owner.operation


def _constant(value: ir.Value) -> int | None:
    owner = _owner(value)
    if owner is None or owner.name != "arith.constant":
        return None
    return ir.IntegerAttr(owner.attributes["value"]).value


def pitch(steps: int) -> int:
    """Elements from one row to the next in scratch: an odd number of cache lines, so that rows do not share their sets
    or banks, and at least one element more where the last pair is to be filled."""
    lines = -(-(steps + steps % 2) // _LINE_ELEMENTS)
    return _LINE_ELEMENTS * (lines + 1 - lines % 2)


def copy_run(
    kernel: Kernel,
    source: Buffer,
    offset: Index,
    stride: Index,
    factor: NarrowFactor,
    panel: Buffer,
    target: Index,
    length: int,
) -> None:
    """Copy ``length`` elements of a row, ``stride`` apart, to ``panel`` as 16-bit factors."""

    def copy(at: Index, lanes: int) -> None:
        here, there = index.add(offset, index.mul(at, stride)), index.add(target, at)
        loaded = memory.load(source, [Lane(here) if lanes > 1 else here], lanes)
        memory.store(panel, [Lane(there) if lanes > 1 else there], factor.widened(loaded), lanes)

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


def load_left(panel: Buffer, offset: Index, lanes: int) -> ir.Value:
    """The pair of factors at ``offset`` in all lanes: ``vector<2 * lanes x i16>``."""
    pair = memory.load(panel, [Lane(offset)], 2)
    return vector.ShuffleOp(pair, pair, [0, 1] * lanes).result


def interleave(first: ir.Value, second: ir.Value, factor: NarrowFactor) -> ir.Value:
    """Two steps' right-hand elements (``vector<lanes x i8>`` each) as ``vector<2 * lanes x i16>`` of pairs."""
    (lanes,) = ir.VectorType(first.type).shape
    order = [n + lanes * step for n in range(lanes) for step in (0, 1)]
    return factor.widened(vector.ShuffleOp(first, second, order).result)


def multiply_add(left: ir.Value, right: ir.Value, total: ir.Value) -> ir.Value:
    """``total`` (``vector<lanes x i32>``) plus both products of each lane's pairs."""
    (lanes,) = ir.VectorType(total.type).shape
    wide = ir.VectorType.get([2 * lanes], ir.VectorType(total.type).element_type)
    product = arith.MulIOp(arith.ExtSIOp(wide, left).result, arith.ExtSIOp(wide, right).result).result
    first, second = (vector.ShuffleOp(product, product, list(range(n, 2 * lanes, 2))).result for n in (0, 1))
    return arith.AddIOp(total, arith.AddIOp(first, second).result).result
