"""Folds and shares the host arithmetic that earlier passes made, and drops what nothing uses."""

from __future__ import annotations

from torch_mlir import ir

from rillet.ir import Program
from rillet.schedule import host


def run(program: Program, options: None) -> None:
    """Canonicalize ``@main``."""
    with program.context, ir.Location.unknown():
        host.simplify(program)
