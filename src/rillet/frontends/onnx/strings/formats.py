"""Floating-point formats as their bits, for conversions from and to decimal."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Format:
    """A value is ``c * 2^q`` with ``c < 2^(fraction + 1)``; ``bits`` in all."""

    bits: int
    fraction: int

    @property
    def exponents(self) -> int:
        """The largest exponent field, which infinities and NaN have."""
        return (1 << (self.bits - 1 - self.fraction)) - 1

    @property
    def least(self) -> int:
        """The smallest ``q``."""
        return 2 - (self.exponents >> 1) - 1 - self.fraction

    @property
    def largest(self) -> int:
        """The largest ``q``."""
        return self.least + self.exponents - 2


FORMATS = {
    "float64": Format(64, 52),
    "float32": Format(32, 23),
    "float16": Format(16, 10),
    "bfloat16": Format(16, 7),
}
