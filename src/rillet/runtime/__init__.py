"""Running compiled models: needs numpy and the C runtime, never the compiler."""

from __future__ import annotations

from rillet.runtime.facts import Facts, read_facts
from rillet.runtime.module import Module, load
from rillet.runtime.pending import Pending
from rillet.runtime.specs import TensorSpec

__all__ = ["Facts", "Module", "Pending", "TensorSpec", "load", "read_facts"]
