"""Rewrites a kernel module so that only ops every target has instructions for remain."""

from __future__ import annotations

from torch_mlir import ir, passmanager

from rillet.targets import Target

_SMALL_FLOATS = "f16,bf16"


def run(module: ir.Module, target: Target) -> None:
    """Compute small floats in f32, then expand what the target lacks. Mutates ``module``."""
    passes = f"canonicalize,cse,arith-emulate-unsupported-floats{{source-types={_SMALL_FLOATS} target-type=f32}},math-extend-to-supported-types,arith-expand{{include-bf16=1}},canonicalize,cse"
    passmanager.PassManager.parse(f"builtin.module({passes})", module.context).run(module.operation)
