"""The strategies in the order in which they are asked, and the choice of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rillet.codegen.cpu.chain.strategy import ChainStrategy
from rillet.codegen.cpu.contraction.strategy import ContractionStrategy
from rillet.codegen.cpu.fallback import FallbackStrategy
from rillet.codegen.cpu.fourier.strategy import FourierStrategy
from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.cpu.pointwise.strategy import ElementwiseStrategy
from rillet.codegen.cpu.rowwise.strategy import RowwiseStrategy
from rillet.codegen.cpu.strategy import Strategy
from rillet.codegen.cpu.walk.strategy import WalkStrategy
from rillet.codegen.cpu.windowed.strategy import WindowedStrategy
from rillet.codegen.cpu.winograd.strategy import WinogradStrategy
from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.codegen.rewrites.collapse import collapse
from rillet.errors import CompileError

P = TypeVar("P")

# A strategy takes some of the kernels that those after it could take too, and makes them faster.
SPECIAL: tuple[Strategy[Any], ...] = (
    FourierStrategy(),  # a transform that is marked as such
    ChainStrategy(),  # several contractions; the others know one
    WinogradStrategy(),  # a contraction whose transformed weights are given as well
    ContractionStrategy(),  # one sum of products with an operand that is read along the last axis of the result
    WalkStrategy(),  # one reduction, of elements that a loop in its body finds
    WindowedStrategy(),  # one reduction, which leaves that axis alone
)
GENERAL: tuple[Strategy[Any], ...] = (
    RowwiseStrategy(),  # any reductions, row by row
    ElementwiseStrategy(),  # no reduction
    FallbackStrategy(),  # any kernel: upstream turns it into loops
)
STRATEGIES = (*SPECIAL, *GENERAL)


@dataclass(frozen=True)
class Planned(Generic[P]):
    """A kernel, the strategy that takes it and that strategy's plan."""

    function: KernelFunction
    strategy: Strategy[P]
    plan: P


def choose(function: KernelFunction, target: CpuTarget) -> Planned[Any]:
    """The first strategy that has a plan, and the plan; the plan is for the collapsed kernel where the strategy
    collapses. Raises ``CompileError`` when no strategy has one."""
    # The special strategies' cost models divide by the amount of work; without work these strategies have no advantage.
    is_empty = any(0 in generic.extents for generic in function.generics)
    for strategy in GENERAL if is_empty else STRATEGIES:
        plan = strategy.plan(function, target)
        if plan is None:
            continue
        if strategy.collapses and collapse(function):
            return choose(function.analysed_anew(), target)
        return Planned(function, strategy, plan)
    ops = ", ".join(sorted({op.name for op in function.ops}))
    raise CompileError(f"kernel @{function.name}: no code generation strategy takes this mix of ops: {ops}")
