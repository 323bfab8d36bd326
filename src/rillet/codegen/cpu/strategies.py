"""The strategies, most specialized first."""

from __future__ import annotations

from rillet.codegen.cpu import elementwise, fallback
from rillet.codegen.cpu.chain import strategy as chain
from rillet.codegen.cpu.contraction import strategy as contraction
from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.cpu.rowwise import strategy as rowwise
from rillet.codegen.cpu.strategy import Strategy
from rillet.codegen.cpu.windowed import strategy as windowed
from rillet.codegen.cpu.winograd import strategy as winograd
from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.errors import CompileError

_GENERAL: tuple[Strategy, ...] = (rowwise.STRATEGY, elementwise.STRATEGY, fallback.STRATEGY)
_ALL: tuple[Strategy, ...] = (chain.STRATEGY, winograd.STRATEGY, contraction.STRATEGY, windowed.STRATEGY, *_GENERAL)


def choose(function: KernelFunction, target: CpuTarget) -> Strategy:
    """The first strategy that matches. Raises ``CompileError`` when none does."""
    # The special strategies' cost models divide by the work there is; where there is none, they have no advantage.
    is_empty = any(0 in generic.extents for generic in function.generics)
    for strategy in _GENERAL if is_empty else _ALL:
        if strategy.matches(function, target):
            return strategy
    ops = ", ".join(sorted({op.name for op in function.ops}))
    raise CompileError(f"kernel @{function.name}: no code generation strategy takes this mix of ops: {ops}")
