"""The strategies in the order in which they are asked, and the choice of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rillet.codegen.cpu import fallback
from rillet.codegen.cpu.chain import strategy as chain
from rillet.codegen.cpu.contraction import strategy as contraction
from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.cpu.pointwise import strategy as pointwise
from rillet.codegen.cpu.rowwise import strategy as rowwise
from rillet.codegen.cpu.strategy import Strategy
from rillet.codegen.cpu.windowed import strategy as windowed
from rillet.codegen.cpu.winograd import strategy as winograd
from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.codegen.rewrites.collapse import collapse
from rillet.errors import CompileError

P = TypeVar("P")

# A strategy takes some of the kernels that those after it could take too, and does them faster.
SPECIAL: tuple[Strategy[Any], ...] = (
    chain.STRATEGY,  # several contractions; the others know one
    winograd.STRATEGY,  # a contraction whose weights are there transformed as well
    contraction.STRATEGY,  # one sum of products, of which one operand is read along the last axis of the result
    windowed.STRATEGY,  # one reduction, which leaves that axis alone
)
GENERAL: tuple[Strategy[Any], ...] = (
    rowwise.STRATEGY,  # any reductions, row by row
    pointwise.STRATEGY,  # no reduction
    fallback.STRATEGY,  # whatever upstream turns into loops
)
STRATEGIES = (*SPECIAL, *GENERAL)


@dataclass(frozen=True)
class Planned(Generic[P]):
    """A kernel, the strategy that takes it and what that decided."""

    function: KernelFunction
    strategy: Strategy[P]
    plan: P


def choose(function: KernelFunction, target: CpuTarget) -> Planned[Any]:
    """The first strategy that has a plan, and the plan; where the strategy collapses, of the collapsed kernel. Raises
    ``CompileError`` when none has one."""
    # The special strategies' cost models divide by the work there is; where there is none, they have no advantage.
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
