"""Conversions of scalars between all element types."""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.frontends.building import e8m0
from rillet.frontends.building.element_types import (
    bits,
    compute_dtype,
    element_type,
    is_float,
    is_integer,
    is_signed,
    is_unsigned,
)
from rillet.frontends.building.scalars import Scalar


def convert(a: Scalar, dtype: str) -> Scalar:
    """Converts between element types: numbers keep their value as far as the target can hold it.

    Floats become integers by truncation (out-of-range values are undefined), integers wrap, anything becomes a bool
    by ``!= 0``, and floats round to nearest even. Saturation is the caller's business.
    """
    if a.dtype == dtype:
        return a
    if dtype == e8m0.DTYPE:
        return e8m0.from_float32(convert(a, "float32"))
    if a.dtype == e8m0.DTYPE:
        return convert(e8m0.to_float32(a), dtype)
    target = element_type(dtype)
    if dtype == "bool":
        return a != 0
    if dtype == "index" or a.dtype == "index":
        return _convert_index(a, dtype)
    if is_float(a.dtype):
        if is_float(dtype):
            return Scalar(_convert_float(a.value, a.dtype, dtype, target), dtype)
        return _float_to_integer(a, dtype)
    if is_float(dtype):
        emit = arith.sitofp if is_signed(a.dtype) else arith.uitofp
        if bits(dtype) < 32:  # integers have no direct conversion to the narrow storage types
            return convert(Scalar(emit(ir.F32Type.get(), a.value), "float32"), dtype)
        return Scalar(emit(target, a.value), dtype)
    if bits(a.dtype) == bits(dtype):
        return Scalar(a.value, dtype)
    if bits(a.dtype) > bits(dtype):
        return Scalar(arith.trunci(target, a.value), dtype)
    emit = arith.extsi if is_signed(a.dtype) else arith.extui
    return Scalar(emit(target, a.value), dtype)


def _convert_index(a: Scalar, dtype: str) -> Scalar:
    if dtype == "index":
        whole = a if is_integer(a.dtype) else convert(a, "int64")
        emit = arith.index_castui if is_unsigned(whole.dtype) else arith.index_cast
        return Scalar(emit(ir.IndexType.get(), whole.value), dtype)
    whole = Scalar(arith.index_cast(ir.IntegerType.get_signless(64), a.value), "int64")
    return convert(whole, dtype)


def _convert_float(value: ir.Value, source: str, dtype: str, target: ir.Type) -> ir.Value:
    if bits(source) < bits(dtype):
        return arith.extf(target, value)
    if bits(source) > bits(dtype):
        return arith.truncf(target, value)
    return arith.truncf(target, arith.extf(ir.F32Type.get(), value))


def _float_to_integer(a: Scalar, dtype: str) -> Scalar:
    if bits(a.dtype) < 32:
        a = convert(a, "float32")
    # Go through a wide signed integer, so that a negative value wraps into a narrow type as C compilers do.
    if bits(dtype) < 32:
        return convert(Scalar(arith.fptosi(ir.IntegerType.get_signless(32), a.value), "int32"), dtype)
    if dtype == "uint32":
        return convert(Scalar(arith.fptosi(ir.IntegerType.get_signless(64), a.value), "int64"), dtype)
    emit = arith.fptoui if is_unsigned(dtype) else arith.fptosi
    return Scalar(emit(element_type(dtype), a.value), dtype)


def load(value: ir.Value, dtype: str) -> Scalar:
    """A tensor's element as a Scalar in the type in which it computes: narrow floats become float32."""
    return convert(Scalar(value, dtype), compute_dtype(dtype))
