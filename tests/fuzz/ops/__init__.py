"""What the fuzzer knows of each op, by family."""

from __future__ import annotations

from tests.fuzz.ops import (
    contractions,
    control,
    elementwise,
    indexing,
    quantized,
    recurrent,
    reductions,
    shapes,
    windows,
)
from tests.fuzz.ops.registry import grow

__all__ = [
    "contractions",
    "control",
    "elementwise",
    "grow",
    "indexing",
    "quantized",
    "recurrent",
    "reductions",
    "shapes",
    "windows",
]
