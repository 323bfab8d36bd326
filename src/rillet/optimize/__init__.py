"""Optimization of the tensor form: folding, layouts, cleanup (docs/architecture.md, section 2)."""

from __future__ import annotations

from rillet.ir.passes import Pass
from rillet.optimize import canonicalize, channels_last
from rillet.optimize.spec import check

PASSES = [
    Pass("canonicalize", "optimize", canonicalize.run),
    Pass("channels-last", "optimize", channels_last.run),
    Pass("cleanup", "optimize", canonicalize.run),
]

__all__ = ["PASSES", "check"]
