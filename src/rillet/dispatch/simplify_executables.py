"""Cleans up inside executables: chains of elementwise operations become one, unused parts go away."""

from __future__ import annotations

from torch_mlir import ir

from rillet.dispatch.executables import functions
from rillet.ir import Program
from rillet.ir.rewrite import run_upstream

_PIPELINE = "builtin.module(builtin.module(builtin.module(func.func(linalg-fuse-elementwise-ops,canonicalize,cse))))"


def run(program: Program, options: None) -> None:
    """Simplify every executable. Signatures stay as they are."""
    with program.context, ir.Location.unknown():
        if functions(program):
            run_upstream(program.module.operation, _PIPELINE)
