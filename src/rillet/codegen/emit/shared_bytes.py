"""Integers of 4 bits or less that share bytes with their neighbours in memory, in vectors or one by one."""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, vector

from rillet.codegen import index
from rillet.codegen.emit.values import constant
from rillet.codegen.index import Index

_WORD = 32  # bits


def load(flat: ir.Value, offset: Index, lanes: int, bits: int, *, signed: bool) -> ir.Value:
    """``lanes`` integers from byte ``offset`` of a flat memref on, as ``vector<lanes x i32>``.

    All lanes get the word that holds them, and each shifts its own bits to the top and down again. That takes two
    instructions on targets whose lanes have shift counts of their own.
    """
    i8, i32 = ir.IntegerType.get_signless(8), ir.IntegerType.get_signless(_WORD)
    size = lanes * bits // 8
    loaded = vector.LoadOp(ir.VectorType.get([size], i8), flat, [index.value(offset)]).result
    each = min(lanes, _WORD // bits)  # integers in a word
    width = each * bits
    words = vector.BitCastOp(ir.VectorType.get([lanes // each], ir.IntegerType.get_signless(width)), loaded).result
    if width < _WORD:
        words = arith.ExtUIOp(ir.VectorType.get([lanes // each], i32), words).result
    spread = vector.ShuffleOp(words, words, [n // each for n in range(lanes)]).result
    type_ = ir.VectorType.get([lanes], i32)
    up = _constants([_WORD - bits * (n % each + 1) for n in range(lanes)], type_)
    down = _constants([_WORD - bits] * lanes, type_)
    shifted = arith.ShLIOp(spread, up).result
    return (arith.ShRSIOp if signed else arith.ShRUIOp)(shifted, down).result


def load_one(flat: ir.Value, offset: Index, place: Index, bits: int, *, signed: bool) -> ir.Value:
    """The integer at ``place`` in byte ``offset`` of a flat memref, as ``i32``."""
    i32 = ir.IntegerType.get_signless(_WORD)
    byte = arith.ExtUIOp(i32, memref.LoadOp(flat, [index.value(offset)]).result).result
    unused = index.value(index.sub(_WORD - bits, index.mul(place, bits)))  # above the integer
    top = arith.ShLIOp(byte, arith.IndexCastOp(i32, unused).result).result
    return (arith.ShRSIOp if signed else arith.ShRUIOp)(top, constant(_WORD - bits, i32)).result


def _constants(values: list[int], type_: ir.VectorType) -> ir.Value:
    element = type_.element_type
    attribute = ir.DenseElementsAttr.get([ir.IntegerAttr.get(element, v) for v in values], type_)
    return arith.ConstantOp(type_, attribute).result
