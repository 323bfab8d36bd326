"""The strategies, most specialized first."""

from __future__ import annotations

import importlib
import importlib.util

from rillet.codegen.cpu.dispatch import Dispatch
from rillet.codegen.cpu.strategy import Strategy
from rillet.errors import CompileError
from rillet.targets import Target

# Each module defines STRATEGY.
_MODULES = ("contraction", "convolution", "windowed", "rowwise", "elementwise", "fallback")
_GENERAL = ("rowwise", "elementwise", "fallback")


def choose(dispatch: Dispatch, target: Target) -> Strategy:
    """The first strategy that matches. Raises ``CompileError`` when none does."""
    # The special strategies' cost models divide by the work there is; where there is none, they have no advantage.
    is_empty = any(0 in generic.loop_extents for generic in dispatch.generics)
    for name in _GENERAL if is_empty else _MODULES:
        if importlib.util.find_spec(f"rillet.codegen.cpu.{name}") is None:
            continue
        strategy: Strategy = importlib.import_module(f"rillet.codegen.cpu.{name}").STRATEGY
        if strategy.matches(dispatch, target):
            return strategy
    ops = ", ".join(sorted({op.name for op in dispatch.ops}))
    raise CompileError(f"executable @{dispatch.name}: no code generation strategy takes this mix of ops: {ops}")
