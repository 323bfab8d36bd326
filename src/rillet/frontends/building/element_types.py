"""Element types by name: numpy's, ml_dtypes', "bool", and "index" for positions and extents."""

from __future__ import annotations

from torch_mlir import ir

from rillet.ir import dtypes

_FLOATS = {"float64", "float32", "float16", "bfloat16"}
_SIGNED = {"int2", "int4", "int8", "int16", "int32", "int64", "index"}
_UNSIGNED = {"uint2", "uint4", "uint8", "uint16", "uint32", "uint64"}


def is_float(dtype: str) -> bool:
    """Whether ``dtype`` is a floating-point type of any width."""
    return dtype in _FLOATS or dtype.startswith("float")


def is_signed(dtype: str) -> bool:
    """Whether ``dtype`` is a signed integer (or ``index``)."""
    return dtype in _SIGNED


def is_unsigned(dtype: str) -> bool:
    """Whether ``dtype`` is an unsigned integer."""
    return dtype in _UNSIGNED


def is_integer(dtype: str) -> bool:
    """Whether ``dtype`` is an integer; bool is not."""
    return dtype in _SIGNED or dtype in _UNSIGNED


def is_complex(dtype: str) -> bool:
    """Whether ``dtype`` is complex."""
    return dtype.startswith("complex")


def element_type(dtype: str) -> ir.Type:
    """The MLIR type of a scalar of ``dtype``."""
    return ir.IndexType.get() if dtype == "index" else dtypes.mlir_type(dtype)


def compute_dtype(dtype: str) -> str:
    """The type in which arithmetic on ``dtype`` happens: narrow floats are storage types and compute in float32."""
    return "float32" if is_float(dtype) and dtype not in ("float32", "float64") else dtype


def bits(dtype: str) -> int:
    """Width of an integer or floating-point type; bool is 1 and index 64."""
    if dtype == "index":
        return 64
    type_ = dtypes.mlir_type(dtype)
    return type_.width  # type: ignore[attr-defined]
