"""Structured control flow becomes branches, and host arithmetic is folded and shared; both are upstream's passes."""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir.passmanager import PassManager

from rillet.ir import Program


@dataclass(frozen=True)
class Options:
    """Has none."""


def run(program: Program, options: Options) -> None:
    """Run upstream's conversion and clean-up over the whole module."""
    pipeline = "builtin.module(convert-scf-to-cf,canonicalize,cse)"
    PassManager.parse(pipeline, program.context).run(program.module.operation)
