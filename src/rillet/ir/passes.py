"""A pass as data, which the pipeline lists, times, dumps after and stops at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rillet.ir.program import Program


@dataclass(frozen=True)
class Pass:
    """One step of the pipeline: ``run(program, options)`` mutates the program."""

    name: str
    stage: str
    run: Callable[[Program, Any], None]
    options: Any = None

    def __call__(self, program: Program) -> None:
        """Run the pass with its options."""
        self.run(program, self.options)
