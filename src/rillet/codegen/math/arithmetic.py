"""The properties of a processor that formulas depend on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Arithmetic:
    """The instructions that formulas depend on."""

    fma: bool  # a multiply-add rounds once
    f64: bool  # the target computes in 64-bit floats
    f16_conversions: bool  # the target converts between 16-bit and 32-bit floats
    rounding: bool  # the target rounds a float to the nearest integral float
