"""Element types: ONNX's numbering, numpy's name and MLIR's type. Signedness lives in the name, not in MLIR."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
from torch_mlir import ir

from rillet.errors import CompileError


@dataclass(frozen=True)
class ElementType:
    """An element type under its names in ONNX, numpy and MLIR."""

    code: int  # ONNX TensorProto.DataType
    name: str  # numpy or ml_dtypes name
    mlir: str  # MLIR type text
    bits: int  # bits of storage in a buffer (sub-byte types occupy one byte each)

    @property
    def numpy(self) -> np.dtype:
        """The numpy type; types that numpy lacks come from ml_dtypes."""
        return np.dtype(getattr(ml_dtypes, self.name, self.name))


_TABLE = (
    ElementType(1, "float32", "f32", 32),
    ElementType(2, "uint8", "i8", 8),
    ElementType(3, "int8", "i8", 8),
    ElementType(4, "uint16", "i16", 16),
    ElementType(5, "int16", "i16", 16),
    ElementType(6, "int32", "i32", 32),
    ElementType(7, "int64", "i64", 64),
    ElementType(9, "bool", "i1", 8),
    ElementType(10, "float16", "f16", 16),
    ElementType(11, "float64", "f64", 64),
    ElementType(12, "uint32", "i32", 32),
    ElementType(13, "uint64", "i64", 64),
    ElementType(14, "complex64", "complex<f32>", 64),
    ElementType(15, "complex128", "complex<f64>", 128),
    ElementType(16, "bfloat16", "bf16", 16),
    ElementType(17, "float8_e4m3fn", "f8E4M3FN", 8),
    ElementType(18, "float8_e4m3fnuz", "f8E4M3FNUZ", 8),
    ElementType(19, "float8_e5m2", "f8E5M2", 8),
    ElementType(20, "float8_e5m2fnuz", "f8E5M2FNUZ", 8),
    ElementType(21, "uint4", "i4", 8),
    ElementType(22, "int4", "i4", 8),
    ElementType(23, "float4_e2m1fn", "f4E2M1FN", 8),
    ElementType(24, "float8_e8m0fnu", "i8", 8),  # its ONNX code; MLIR's own type has no arithmetic
    ElementType(25, "uint2", "i2", 8),
    ElementType(26, "int2", "i2", 8),
)

by_code = {t.code: t for t in _TABLE}
by_name = {t.name: t for t in _TABLE}


def of_numpy(dtype: np.dtype) -> ElementType:
    """The element type of a numpy dtype. Raises ``KeyError`` for a dtype no tensor can have."""
    return by_name[np.dtype(dtype).name]


def mlir_type(name: str) -> ir.Type:
    """The MLIR element type for a numpy or ml_dtypes name, in the current context."""
    return ir.Type.parse(by_name[name].mlir)


def element_bytes(value: ir.Value) -> int:
    """Bytes one element of a ranked tensor takes in a buffer."""
    return storage_bytes(ir.RankedTensorType(value.type).element_type)


def storage_bytes(type_: ir.Type) -> int:
    """Bytes that one element of an MLIR type takes in a buffer: at least one, eight for ``index``. Raises
    ``CompileError`` for a type that no tensor may have."""
    if isinstance(type_, ir.IndexType):
        return 8
    if isinstance(type_, ir.ComplexType):
        return 2 * storage_bytes(type_.element_type)
    if isinstance(type_, ir.IntegerType | ir.FloatType):
        return max(8, type_.width) // 8
    raise CompileError(f"elements of type {type_} cannot be stored")
