"""Rewrites a kernel module so that only ops the target has instructions for remain."""

from __future__ import annotations

from torch_mlir import ir, passmanager

from rillet.codegen import math
from rillet.codegen.cpu.legalize import clamps, masks, nearest_integers, quantize, to_integers
from rillet.codegen.cpu.machine import Cpu, CpuTarget
from rillet.codegen.math.arithmetic import Arithmetic

_STORAGE_FLOATS = ("f16", "bf16", "f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ", "f4E2M1FN")
_WIDEN_SMALL_FLOATS = (
    "canonicalize",
    "cse",
    f"arith-emulate-unsupported-floats{{source-types={','.join(_STORAGE_FLOATS)} target-type=f32}}",
    "math-extend-to-supported-types",
)


def legalize(module: ir.Module, target: CpuTarget) -> None:
    """Compute small floats in f32, define conversions to integers, simplify clamps, then expand what the target lacks.

    Mutates ``module``.
    """
    manager = passmanager.PassManager.parse(f"builtin.module({','.join(_WIDEN_SMALL_FLOATS)})", module.context)
    manager.run(module.operation)
    nearest_integers.run(module, target)
    quantize.run(module, target)
    to_integers.run(module)
    clamps.run(module, target)
    math.expand(module, _arithmetic(target.machine))
    if target.machine.pointer_bits != 64:
        masks.run(module)


def _arithmetic(machine: Cpu) -> Arithmetic:
    rounds = machine.arch in ("aarch64", "wasm32") or bool({"sse4.1", "fp-armv8"} & set(machine.features))
    return Arithmetic(
        fma=machine.fma,
        f64=machine.arch in ("x86_64", "aarch64", "riscv64", "wasm32"),
        f16_conversions=machine.converts_f16,
        rounding=rounds,
    )
