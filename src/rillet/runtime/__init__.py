"""Running compiled models: needs numpy and the C runtime, never the compiler."""

from __future__ import annotations

from rillet.runtime.module import Module, load
from rillet.runtime.specs import TensorSpec

__all__ = ["Module", "TensorSpec", "load"]
