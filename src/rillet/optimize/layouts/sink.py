"""Moves reshapes and transpositions out of the way of fusion, until nothing moves any more.

Both only move downwards, so this ends; each may uncover work for the other.
"""

from __future__ import annotations

from dataclasses import dataclass

from rillet.ir import Program
from rillet.ir.rewrite import CLEANUP, erase_dead, run_upstream
from rillet.optimize.layouts import sink_reshapes, sink_transposes


@dataclass(frozen=True)
class Options:
    """``rounds``: a bound on the repetitions."""

    rounds: int = 8


def run(program: Program, options: Options) -> None:
    """Sink in ``@main`` and its control flow."""
    for _ in range(options.rounds):
        moved = sink_transposes.sink(program)
        moved |= sink_reshapes.sink(program)
        if not moved:
            return
        with program.context:
            erase_dead(program.main())
            run_upstream(program.module.operation, CLEANUP)
