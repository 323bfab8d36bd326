"""The stages of a kernel with reductions, and which costly values are worth keeping from one stage to the next.

A stage is one reduction with the point-wise ops it reads; the last stage stores the results.
"""

from __future__ import annotations

from functools import cached_property
from typing import TypeVar

from torch_mlir import ir

from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.codegen.recognize.lanes import is_costly
from rillet.codegen.recognize.shared_dimensions import Dimension, Dimensions
from rillet.ir.rewrite import defining
from rillet.ir.structured import Structured, captures, reads

Coordinate = TypeVar("Coordinate")


class Stages:
    """Stage ``n`` is ``function.reductions[n]``; stage ``len(function.reductions)`` stores the results."""

    def __init__(self, function: KernelFunction, dimensions: Dimensions, fixed: set[Dimension]):
        self._function = function
        self._dimensions = dimensions
        self._fixed = fixed

    @cached_property
    def kept(self) -> tuple[ir.Value, ...]:
        """Costly point-wise values that at least two stages read, in program order."""
        return tuple(self._first)

    def kept_by(self, stage: int) -> tuple[ir.Value, ...]:
        """The kept values that this stage computes first, and so stores."""
        return tuple(v for v, first in self._first.items() if first == stage)

    def place(self, value: ir.Value, generic: Structured, loops: list[Coordinate]) -> list[Coordinate]:
        """The coordinates of ``value`` that a reduction at these loop coordinates computes."""
        by_dimension = {self._dimensions.loop(generic, n): c for n, c in enumerate(loops)}
        return [by_dimension[d] for d in self._dimensions.axes(value)]

    @cached_property
    def _first(self) -> dict[ir.Value, int]:
        candidates = [
            r
            for g in self._function.generics
            if g.is_parallel and self._is_costly(g)
            for r in g.results
            if self._has_row(r)
        ]
        chosen: dict[ir.Value, int] = {}
        for value in reversed(candidates):
            readers = [n for n, roots in enumerate(self._roots()) if self._reads(roots, value, set(chosen))]
            if len(readers) >= 2 and self._covers(readers[0], value):
                chosen[value] = readers[0]
        return dict(reversed(chosen.items()))

    @property
    def are_costly(self) -> bool:
        """Whether computing along a row takes longer than reading it from memory."""
        return any(map(self._is_costly, self._function.generics))

    def _is_costly(self, generic: Structured) -> bool:
        return is_costly(generic, {v for v in generic.inputs if not self._has_row(v)})

    def _has_row(self, value: ir.Value) -> bool:
        return any(d not in self._fixed for d in self._dimensions.axes(value))

    def _roots(self) -> list[list[ir.Value]]:
        """For each stage, the tensors it reads directly."""
        roots = []
        for generic in self._function.reductions:
            captured = [v for v in captures(generic.op) if isinstance(v.type, ir.RankedTensorType)]
            roots.append([*generic.inputs, *generic.inits, *captured])
        reduced = {r for g in self._function.reductions for r in g.results}
        roots.append([p.value for p in self._function.results if p.value not in reduced])
        return roots

    def _reads(self, roots: list[ir.Value], value: ir.Value, stop: set[ir.Value]) -> bool:
        """True when ``value`` is reachable from ``roots`` through point-wise ops, not through values in ``stop``."""
        seen: set[ir.Value] = set()
        pending = list(roots)
        while pending:
            v = pending.pop()
            if v == value:
                return True
            op = defining(v)
            if v in seen or v in stop or op is None:
                continue
            seen.add(v)
            generic = self._function.generic_of(v)
            if generic is not None and not generic.is_parallel:
                continue
            pending += [o for o in reads(op) if isinstance(o.type, ir.RankedTensorType)]
        return False

    def _covers(self, stage: int, value: ir.Value) -> bool:
        """True when the stage's loops, or the fixed dimensions, run over every axis of ``value`` exactly once."""
        if stage >= len(self._function.reductions):
            return False
        generic = self._function.reductions[stage]
        loops = [self._dimensions.loop(generic, n) for n in range(generic.loops)]
        axes = self._dimensions.axes(value)
        return sorted(loops) == sorted(axes) and len(set(axes)) == len(axes)
