"""A module's declarations of its inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rillet.errors import LoadError

# numpy types that carry the bytes of types numpy does not have, by size in bytes.
_CARRIERS: dict[int, np.dtype] = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16)}


@dataclass(frozen=True)
class TensorSpec:
    """One input or output. ``shape``: a number, the name of a dynamic dimension, or -1 for one without a name.

    Tensors of strings have dtype ``object``. Calls may leave out an input that ``has_default``.
    """

    name: str
    dtype: np.dtype
    shape: tuple[int | str, ...]
    has_default: bool = field(default=False, kw_only=True)

    @property
    def carrier(self) -> np.dtype:
        """The numpy type in whose arrays the runtime takes the data: ``dtype``, or an integer of its size."""
        if self.dtype.isbuiltin == 1:
            return self.dtype
        return _CARRIERS[self.dtype.itemsize]

    @property
    def type_name(self) -> str:
        """The element type in words: numpy's name, or ``string``."""
        return "string" if self.dtype == object else str(self.dtype)

    def __str__(self) -> str:
        dims = ", ".join("?" if dim == -1 else str(dim) for dim in self.shape)
        return f"{self.name}: {self.type_name}[{dims}]{' (has a default)' if self.has_default else ''}"


@dataclass(frozen=True)
class MapsSpec(TensorSpec):
    """An output that is a list of dicts, of the shape [dicts]; ``dtype`` is the type of their values."""

    key_type: str  # "int64" or "string"

    @property
    def type_name(self) -> str:
        """The types of the maps' keys and values in words."""
        return f"map({self.key_type}, {self.dtype})"


def tensor_spec(name: str, dtype: str, dims: Sequence[int], dim_names: Sequence[str], has_default: bool) -> TensorSpec:
    """The spec for a declaration in a module file. Raises ``LoadError`` when ``dtype`` needs a package that is
    missing."""
    names = dim_names or [""] * len(dims)
    shape = tuple(dim if dim >= 0 else (text or -1) for dim, text in zip(dims, names, strict=True))
    return TensorSpec(name, _numpy_type(name, dtype), shape, has_default=has_default)


def _numpy_type(name: str, dtype: str) -> np.dtype:
    try:
        return np.dtype(dtype)
    except TypeError:
        pass
    try:
        import ml_dtypes
    except ImportError:
        raise LoadError(f"tensor '{name}' has type {dtype}: install the package ml_dtypes to use it") from None
    return np.dtype(getattr(ml_dtypes, dtype))
