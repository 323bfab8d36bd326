"""Rewrites of a kernel before a strategy is chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rillet.codegen.cpu.machine import Cpu
from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.codegen.rewrites.float_sums import sum_in_floats
from rillet.codegen.rewrites.group_columns import merge_group_columns
from rillet.codegen.rewrites.unshare_empties import unshare_empties


@dataclass(frozen=True)
class Rewrite:
    """One rewrite. ``run`` changes a kernel's function in place, after which its analysis is stale; it returns False
    where it changes nothing."""

    name: str
    run: Callable[[KernelFunction, Cpu], bool]


def _sum_in_floats(function: KernelFunction, machine: Cpu) -> bool:
    return machine.float_products and sum_in_floats(function, in_vectors=machine.vector_bits > 0)


# Merging dimensions is not among them: a strategy asks for it (``strategies.choose``).
REWRITES = (
    Rewrite("unshare-empties", lambda function, _: unshare_empties(function)),  # first: the others assume it
    Rewrite("merge-group-columns", lambda function, machine: merge_group_columns(function, machine.vector_bits)),
    Rewrite("sum-in-floats", _sum_in_floats),  # behind the merge, after which operands vary along the columns
)


def rewritten(function: KernelFunction, machine: Cpu) -> KernelFunction:
    """The kernel after all rewrites, analysed."""
    for rewrite in REWRITES:
        if rewrite.run(function, machine):
            function = function.analysed_anew()
    return function
