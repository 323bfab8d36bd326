"""What formulas must know of a processor."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Arithmetic:
    """Which instructions there are, as far as formulas depend on it."""

    fma: bool  # a multiply-add rounds once
    f64: bool  # 64-bit floats are computed with
    f16_conversions: bool  # between 16-bit and 32-bit floats
    rounding: bool  # a float becomes the nearest integral float
