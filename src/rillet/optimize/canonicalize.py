"""Upstream's cleanups: named operations become ``linalg.generic``, shape arithmetic folds, duplicates and dead code go
away.
"""

from __future__ import annotations

from torch_mlir import ir

from rillet.ir import Program
from rillet.ir.rewrite import CLEANUP, erase_dead, run_upstream, sweep_constants
from rillet.ir.strided_insertions import insert_unpadded


def run(program: Program, options: None) -> None:
    """Clean up ``@main``; external constants that nothing reads any more are dropped."""
    with program.context, ir.Location.unknown():
        insert_unpadded(program.main())
        run_upstream(program.module.operation, CLEANUP)
        erase_dead(program.main())
        sweep_constants(program)
