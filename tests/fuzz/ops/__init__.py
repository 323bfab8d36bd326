"""What the fuzzer knows of each op, by family."""

from __future__ import annotations

from tests.fuzz.ops import (
    attention,
    contractions,
    control,
    elementwise,
    indexing,
    loops,
    quantized,
    recurrent,
    reductions,
    resizing,
    sequences,
    shapes,
    transposed,
    windows,
)
from tests.fuzz.ops.registry import grow

__all__ = [
    "attention",
    "contractions",
    "control",
    "elementwise",
    "grow",
    "indexing",
    "loops",
    "quantized",
    "recurrent",
    "reductions",
    "resizing",
    "sequences",
    "shapes",
    "transposed",
    "windows",
]
