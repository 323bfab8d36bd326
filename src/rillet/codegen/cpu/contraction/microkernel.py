"""The inner loops of a contraction: a register tile of accumulators, updated by broadcasts times vectors.

The reduction is a nest of loops over flat memory. The innermost one is unrolled a little; accumulators are loop-carried
vectors and never leave registers.
"""

from __future__ import annotations

import math as pymath
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, math, vector

from rillet.codegen import index
from rillet.codegen.cpu.cost_model import SUM_STEPS, choose_sum_part, choose_unroll
from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.emit.accumulators import add_parts, sum_of
from rillet.codegen.emit.blocks import Tile
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.padding import Condition
from rillet.codegen.emit.values import broadcast
from rillet.codegen.index import Index


@dataclass(frozen=True)
class ReductionAxis:
    """One loop of the reduction: its iterations, and how far each moves in the memory of the lhs and of the rhs."""

    extent: Index
    lhs_stride: Index
    rhs_stride: Index


@dataclass(frozen=True)
class Pairs:
    """Reads the factors of two steps: ``lhs(offset, row number)``, ``rhs(offset, offset of the second step, column
    vector number)``; ``multiply_add(lhs, rhs, total)`` adds both products."""

    lhs: Callable[[Index, int], ir.Value]
    rhs: Callable[[Index, Index, int], ir.Value]
    multiply_add: Callable[[ir.Value, ir.Value, ir.Value], ir.Value]


@dataclass(frozen=True)
class Operands:
    """Reads factors: ``lhs(offset, row number)`` gives a scalar or a vector with the factor in all lanes, ``rhs(offset,
    column vector number)`` a vector.

    - ``lhs_run(offset, row number)`` gives ``run`` scalars; it is set where neighbours along the innermost loop are
      read together.
    - ``ahead(offset, steps)`` fetches later operands. Each iteration of the innermost loop calls it with the rhs's
      offset and the iteration's steps.
    - ``enter`` is called where the innermost loop begins, with the positions of the loops around it and the rows'
      offsets there.
    - ``pairs``, if set, replaces ``lhs`` and ``rhs``: steps go two by two. A last single step is paired with itself,
      since the second half of its lhs factor is zero.
    - ``extends``: whether ``rhs`` also extends what it loads.
    - ``sum_steps``: about how many steps a part of a long sum of floats has.
    """

    lhs: Callable[[Index, int], ir.Value]
    rhs: Callable[[Index, int], ir.Value]
    enter: Callable[[list[Index], list[Index]], Run] | None = None
    run: int = 0
    lhs_run: Callable[[Index, int], list[ir.Value]] | None = None
    ahead: Callable[[Index, int], None] | None = None
    pairs: Pairs | None = None
    extends: bool = False
    sum_steps: int = SUM_STEPS


@dataclass(frozen=True)
class Run:
    """The innermost loop at one place: its operands, each row's offset, and whether it adds anything.

    ``finish(sums, accumulators)``, if set, adds the sums of this loop to the accumulators. Steps then take turns with
    ``chains`` sums for each accumulator, so that a step need not wait for the one before.
    """

    operands: Operands
    rows: list[Index]
    counts: Condition
    finish: Callable[[list[ir.Value], list[ir.Value]], list[ir.Value]] | None = None
    chains: int = 1


def reduce_tile(
    kernel: KernelBuilder,
    tile: Tile,
    axes: Sequence[ReductionAxis],
    operands: Operands,
    rows: Sequence[Index],
    columns: Sequence[Index],
    accumulators: Sequence[ir.Value],
) -> list[ir.Value]:
    """Add the whole reduction to ``accumulators`` (row by row) and return them. Long sums of floats are made of parts.

    ``rows`` and ``columns``: the offset of each row in the lhs and of each vector of columns in the rhs.
    """
    return _nest(kernel, tile, list(axes), operands, rows, columns, 0, 0, list(accumulators), [])


def _nest(
    kernel: KernelBuilder,
    tile: Tile,
    axes: list[ReductionAxis],
    operands: Operands,
    rows: Sequence[Index],
    columns: Sequence[Index],
    lhs: Index,
    rhs: Index,
    accumulators: list[ir.Value],
    positions: list[Index],
) -> list[ir.Value]:
    if operands.enter is not None and len(axes) <= 1:
        run = operands.enter(positions, [index.add(row, lhs) for row in rows])
        return kernel.select(
            run.counts,
            lambda: _run(kernel, tile, axes, run, columns, rhs, accumulators, positions),
            accumulators,
        )
    if not axes:
        (scalars,) = _scalars(operands, rows, lhs, 1)
        return _step(kernel, operands, scalars, columns, rhs, accumulators)
    axis, *inner = axes
    rounds = isinstance(element_type(accumulators[0]), ir.FloatType)
    extents = [a.extent if isinstance(a.extent, int) else None for a in axes]
    part = choose_sum_part(extents, operands.sum_steps) if rounds else 0
    if inner:

        def around(start: Index, end: Index, sums: list[ir.Value]) -> list[ir.Value]:
            with kernel.loop(start, end, 1, sums) as loop:
                further = _advance(axis, loop.iv, lhs, rhs)
                place = [*positions, loop.iv]
                loop.yield_(*_nest(kernel, tile, inner, operands, rows, columns, *further, loop.carried, place))
            return loop.results

        return _in_parts(kernel, axis.extent, part, accumulators, around)
    trip = axis.extent if isinstance(axis.extent, int) else None
    unroll = kernel.function.knobs.unroll or choose_unroll(
        trip, tile, operands.run, operands.extends or few_registers(kernel.target, accumulators[0].type)
    )
    if operands.pairs is not None:
        unroll = 2
    whole = index.mul(index.floordiv(axis.extent, unroll), unroll)
    if whole == unroll:
        accumulators = _steps(kernel, axis, unroll, 0, operands, rows, columns, lhs, rhs, accumulators)
    elif whole != 0:

        def along(start: Index, end: Index, sums: list[ir.Value]) -> list[ir.Value]:
            here = _advance(axis, start, lhs, rhs)
            with kernel.loop(0, index.sub(end, start), unroll, sums) as loop:
                if operands.ahead is not None:
                    operands.ahead(_advance(axis, loop.iv, *here)[1], unroll)
                loop.yield_(*_steps(kernel, axis, unroll, loop.iv, operands, rows, columns, *here, loop.carried))
            return loop.results

        accumulators = _in_parts(kernel, whole, unroll * pymath.ceil(part / unroll), accumulators, along)
    if trip is not None:
        return _steps(kernel, axis, trip % unroll, whole, operands, rows, columns, lhs, rhs, accumulators)
    if unroll == 1:
        return accumulators
    with kernel.loop(whole, axis.extent, 1, accumulators) as loop:
        loop.yield_(*_steps(kernel, axis, 1, loop.iv, operands, rows, columns, lhs, rhs, loop.carried))
    return loop.results


def _run(
    kernel: KernelBuilder,
    tile: Tile,
    axes: list[ReductionAxis],
    run: Run,
    columns: Sequence[Index],
    rhs: Index,
    accumulators: list[ir.Value],
    positions: list[Index],
) -> list[ir.Value]:
    def summed(sums: list[ir.Value]) -> list[ir.Value]:
        return _nest(kernel, tile, axes, run.operands, run.rows, columns, 0, rhs, sums, positions)

    if run.finish is None:
        return summed(accumulators)
    addition = sum_of(element_type(accumulators[0]))
    count, chains = len(accumulators), run.chains if axes else 1
    sums = summed([addition.identity_of(a.type) for a in accumulators] * chains)
    total = sums[:count]
    for start in range(count, len(sums), count):
        total = [addition.apply(a, b) for a, b in zip(total, sums[start : start + count], strict=True)]
    return run.finish(total, accumulators)


def _in_parts(
    kernel: KernelBuilder,
    size: Index,
    part: int,
    accumulators: list[ir.Value],
    span: Callable[[Index, Index, list[ir.Value]], list[ir.Value]],
) -> list[ir.Value]:
    """``span(start, end, accumulators)`` over ``size`` steps: all at once where ``part`` is 0."""
    return add_parts(kernel, size, part, accumulators, span) if part else span(0, size, accumulators)


def _steps(
    kernel: KernelBuilder,
    axis: ReductionAxis,
    count: int,
    start: Index,
    operands: Operands,
    rows: Sequence[Index],
    columns: Sequence[Index],
    lhs: Index,
    rhs: Index,
    accumulators: list[ir.Value],
) -> list[ir.Value]:
    """``count`` steps from ``start`` on. Offsets grow by constants from the first step's, so that they become
    displacements.
    """
    lhs, rhs = _advance(axis, start, lhs, rhs)
    if operands.pairs is not None:
        return _pair_steps(axis, count, operands.pairs, rows, columns, lhs, rhs, accumulators)
    sums, width = list(accumulators), len(rows) * len(columns)
    steps: list[list[ir.Value]] = []  # the scalars that were read for the next steps
    for n in range(count):
        if not steps:
            lhs_here = index.add(lhs, index.mul(axis.lhs_stride, n))
            steps = _scalars(operands, rows, lhs_here, count - n)
        rhs_here = index.add(rhs, index.mul(axis.rhs_stride, n))
        chain = slice(n * width % len(sums), n * width % len(sums) + width)
        sums[chain] = _step(kernel, operands, steps.pop(0), columns, rhs_here, sums[chain])
    return sums


def _pair_steps(
    axis: ReductionAxis,
    count: int,
    pairs: Pairs,
    rows: Sequence[Index],
    columns: Sequence[Index],
    lhs: Index,
    rhs: Index,
    accumulators: list[ir.Value],
) -> list[ir.Value]:
    for n in range(0, count, 2):
        here, there = (index.add(rhs, index.mul(axis.rhs_stride, step)) for step in (n, min(n + 1, count - 1)))
        vectors = [pairs.rhs(index.add(c, here), index.add(c, there), m) for m, c in enumerate(columns)]
        lhs_here = index.add(lhs, index.mul(axis.lhs_stride, n))
        for r, row in enumerate(rows):
            factor = pairs.lhs(index.add(row, lhs_here), r)
            spots = range(r * len(vectors), (r + 1) * len(vectors))
            for spot, vector_ in zip(spots, vectors, strict=True):
                accumulators[spot] = pairs.multiply_add(factor, vector_, accumulators[spot])
    return accumulators


def _scalars(operands: Operands, rows: Sequence[Index], lhs: Index, count: int) -> list[list[ir.Value]]:
    """The lhs factor of each row for each of the next steps: a run of them, or one. ``count`` steps remain."""
    offsets = [index.add(row, lhs) for row in rows]
    if operands.lhs_run is None or count < operands.run:
        return [[operands.lhs(offset, n) for n, offset in enumerate(offsets)]]
    runs = [operands.lhs_run(offset, n) for n, offset in enumerate(offsets)]
    return [list(step) for step in zip(*runs, strict=True)]


def _advance(axis: ReductionAxis, position: Index, lhs: Index, rhs: Index) -> tuple[Index, Index]:
    return (
        index.add(lhs, index.mul(position, axis.lhs_stride)),
        index.add(rhs, index.mul(position, axis.rhs_stride)),
    )


def _step(
    kernel: KernelBuilder,
    operands: Operands,
    scalars: Sequence[ir.Value],
    columns: Sequence[Index],
    rhs: Index,
    accumulators: list[ir.Value],
) -> list[ir.Value]:
    vectors = [operands.rhs(index.add(column, rhs), n) for n, column in enumerate(columns)]
    result = []
    for n, scalar in enumerate(scalars):
        for m, vector_ in enumerate(vectors):
            result.append(multiply_add(kernel, scalar, vector_, accumulators[n * len(vectors) + m]))
    return result


def multiply_add(kernel: KernelBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """``a * b + c``; ``a`` is broadcast when ``b`` is a vector. Fused where the target has fused multiply-add."""
    is_vector = isinstance(c.type, ir.VectorType)
    if is_vector:
        lanes = ir.VectorType(c.type).shape[0]
        a, b = (broadcast(v, lanes) if not isinstance(v.type, ir.VectorType) else v for v in (a, b))
    element = element_type(c)
    if isinstance(element, ir.IntegerType):
        return arith.AddIOp(c, arith.MulIOp(a, b).result).result
    if not kernel.target.machine.fma:
        return arith.AddFOp(c, arith.MulFOp(a, b).result).result
    return vector.FMAOp(a, b, c).result if is_vector else math.FmaOp(a, b, c).result


def few_registers(target: CpuTarget, sums: ir.Type) -> bool:
    """Whether sums of this type share their registers with addresses and with their own products. Scalar integers do
    where no instruction multiplies and adds them."""
    return isinstance(sums, ir.IntegerType) and target.machine.arch == "riscv32"


def element_type(value: ir.Value) -> ir.Type:
    """The type of a scalar, or of a vector's elements."""
    return ir.VectorType(value.type).element_type if isinstance(value.type, ir.VectorType) else value.type
