"""Windows of 8-bit integers two positions at a time, on Cortex-M processors with the DSP extension.

``smlad`` adds both products of two pairs of 16-bit integers to a sum; one instruction makes a pair of two loaded bytes.
Positions are paired across lines of the window, so that neighbouring results share pairs.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.codegen.cpu import intrinsics
from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.emit.values import constant
from rillet.codegen.recognize.linear_access import Access
from rillet.codegen.recognize.narrow_factors import NarrowFactor, factors_of
from rillet.ir.contraction import Product
from rillet.ir.structured import Structured

Position = tuple[int, ...]  # of the window, along its unrolled loops


def factors(root: Structured, product: Product | None, lanes: int, target: CpuTarget) -> tuple[NarrowFactor, ...]:
    """The factors, when their products go two by two; else none."""
    if product is None or target.machine.dot_products != "dsp" or lanes != 1:
        return ()
    found = factors_of(root, product)
    return () if found is None or any(f.zero_point for f in found) else found


def groups(extents: Sequence[int], along: int | None) -> list[tuple[Position, ...]]:
    """The positions of a window of these extents: two by two along one of its loops, or one by one."""
    positions = itertools.product(*map(range, extents))
    if along is None:
        return [(position,) for position in positions]
    found: list[tuple[Position, ...]] = []
    for position in positions:
        step = position[along]
        if step % 2 == 0:
            second = (*position[:along], step + 1, *position[along + 1 :])
            found.append((position, second) if step + 1 < extents[along] else (position,))
    return found


def loop_across(accesses: Sequence[Access | None], unrolled: Sequence[int], row: int | None) -> int | None:
    """The unrolled window loop that goes from line to line, or None. A loop along lines would give each result pairs of
    its own."""
    for number, loop in enumerate(unrolled):
        forms = [form for which in accesses if which is not None for form in which.axes if form.coefficients[loop]]
        if row is not None and not any(form.coefficients[row] for form in forms):
            return number
    return None


def pair(first: ir.Value, second: ir.Value, factor: NarrowFactor) -> ir.Value:
    """Two loaded bytes as a pair of 16-bit integers in a register."""
    i32 = ir.IntegerType.get_signless(32)
    extend = arith.ExtSIOp if factor.signed else arith.ExtUIOp
    low, high = (extend(i32, byte).result for byte in (first, second))
    low = arith.AndIOp(low, constant(0xFFFF, i32)).result
    return arith.OrIOp(low, arith.ShLIOp(high, constant(16, i32)).result).result


def multiply_add(lhs: ir.Value, rhs: ir.Value, total: ir.Value) -> ir.Value:
    """``total`` plus the products of two pairs."""
    return intrinsics.call("llvm.arm.smlad", total.type, lhs, rhs, total)
