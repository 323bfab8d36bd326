"""How far two arrays are apart: absolute, relative and ULP error, and whether that is within what a type allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import ml_dtypes
import numpy as np

# Relative (to the largest expected magnitude) and absolute tolerance by element type. Those of float32 allow for sums
# of a few thousand terms in another order; smaller types add one rounding of each intermediate result.
TOLERANCES: Mapping[str, tuple[float, float]] = {
    "float64": (1e-9, 1e-11),
    "complex128": (1e-9, 1e-11),
    "float32": (1e-4, 1e-5),
    "complex64": (1e-4, 1e-5),
    "float16": (1e-2, 1e-3),
    "bfloat16": (4e-2, 1e-2),
}
_SMALL_FLOAT = (0.25, 0.05)  # float8 and float4: one step of the type
_TEXT = "OUST"  # the kinds of numpy types that hold strings


@dataclass(frozen=True)
class Difference:
    """Error of one array against another. ``reason`` is empty when they agree within the tolerance."""

    reason: str
    max_abs: float
    max_rel: float  # of max|a - b| / |b| where b is not zero
    max_ulp: float  # in units in the last place of the expected value's type; nan for integers

    @property
    def agrees(self) -> bool:
        """Whether the arrays agree within the tolerance."""
        return not self.reason

    def as_dict(self) -> dict[str, Any]:
        """The fields and ``agrees`` as JSON-ready data."""
        return {**asdict(self), "agrees": self.agrees}

    def __str__(self) -> str:
        numbers = f"max abs error {self.max_abs:.3g}, rel {self.max_rel:.3g}"
        if np.isfinite(self.max_ulp):
            numbers += f", {self.max_ulp:.3g} ULP"
        return f"{self.reason} ({numbers})" if self.reason else numbers


def difference(actual: Any, expected: Any, factor: float = 1.0) -> Difference:
    """Compare two arrays; both are converted with ``np.asarray``, lists of dicts with one key set to their values.

    Floats agree when ``max|a - b| <= factor (rtol max|b| + atol)`` over the finite elements and the places and signs of
    infinities and NaN are the same; anything else must be equal. Strings are compared by value, however numpy holds
    them.
    """
    a, b = _array(actual), _array(expected)
    nan = float("nan")
    if a.shape != b.shape:
        return Difference(f"shape {list(a.shape)}, expected {list(b.shape)}", nan, nan, nan)
    if a.dtype.kind in _TEXT and b.dtype.kind in _TEXT:
        same = list(map(_text, a.flat)) == list(map(_text, b.flat))
        return Difference("", 0.0, 0.0, nan) if same else Difference("other values", nan, nan, nan)
    if a.dtype != b.dtype:
        return Difference(f"type {a.dtype}, expected {b.dtype}", nan, nan, nan)
    if not _is_float(a.dtype):
        return _exact(a, b)
    return _approximate(a, b, factor)


def _array(value: Any) -> np.ndarray:
    """The value as an array; of maps from the same keys to floats, a row for each map."""
    is_maps = isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)
    if not is_maps or any(item.keys() != value[0].keys() for item in value):
        return np.asarray(value)
    return np.array([[item[key] for key in sorted(item)] for item in value], np.float32)


def _text(element: Any) -> Any:
    return element.decode(errors="surrogateescape") if isinstance(element, bytes) else element


def _exact(a: np.ndarray, b: np.ndarray) -> Difference:
    wrong = a != b
    if not wrong.any():
        return Difference("", 0.0, 0.0, float("nan"))
    wide_a, wide_b = a[wrong].astype(np.float64), b[wrong].astype(np.float64)
    apart = np.abs(wide_a - wide_b)
    relative = apart / np.maximum(np.abs(wide_b), 1)
    reason = f"{int(wrong.sum())} of {a.size} elements differ"
    return Difference(reason, float(apart.max()), float(relative.max()), float("nan"))


def _approximate(a: np.ndarray, b: np.ndarray, factor: float) -> Difference:
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    rtol, atol = TOLERANCES.get(a.dtype.name, _SMALL_FLOAT)
    ulp = _ulp(b)
    a, b = a.astype(wide), b.astype(wide)
    with np.errstate(all="ignore"):
        finite = np.isfinite(a) & np.isfinite(b)
        special = (a == b) | (np.isnan(a) & np.isnan(b)) | finite
        apart = np.abs(a[finite] - b[finite])
        scale = np.abs(b[finite])
        relative = apart[scale > 0] / scale[scale > 0]
        ulps = apart / ulp[finite]
    worst = float(apart.max(initial=0.0))
    reason = ""
    if not special.all():
        reason = f"{int((~special).sum())} of {a.size} elements are infinite or NaN in one only"
    elif worst > factor * (rtol * float(scale.max(initial=0.0)) + atol):
        reason = "values differ"
    return Difference(reason, worst, float(relative.max(initial=0.0)), float(ulps.max(initial=0.0)))


def _ulp(b: np.ndarray) -> np.ndarray:
    """The spacing of ``b``'s type at each element of ``b``."""
    magnitude = np.abs(b).astype(np.float64)
    kind = np.dtype(f"f{b.dtype.itemsize // 2}") if b.dtype.kind == "c" else b.dtype
    info = ml_dtypes.finfo(kind)
    with np.errstate(all="ignore"):
        exponent = np.floor(np.log2(np.maximum(magnitude, float(info.smallest_normal))))
        return np.exp2(exponent) * float(info.eps)


def _is_float(dtype: np.dtype) -> bool:
    return dtype.kind in "fc" or dtype.name.startswith(("bfloat", "float"))
