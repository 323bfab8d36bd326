"""The loop over a contiguous run of elements: wide vectors, then the remainder under a mask or one element at a
time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import vector

from rillet.codegen import index
from rillet.codegen.coordinates import Coordinate, Lane
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.index import Index
from rillet.codegen.knobs import Choice, Knobs
from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.codegen.recognize.lanes import lanes_for
from rillet.ir.dtypes import storage_bytes

# Vectors of an iteration: enough independent work to hide the latency of a chain of multiply-adds. Formulas with many
# constants and steps overlap from one iteration to the next, and need all registers where there are few.
_IN_FLIGHT = 4
_COSTLY_IN_FLIGHT = 2
_MANY_REGISTERS = 32


@dataclass(frozen=True)
class Shape:
    """How runs are vectorized. ``wide``: lanes of the main loop, several registers, so that independent work overlaps
    and constants are loaded once. ``lanes``: lanes of the remainder. ``masked``: whether the remainder runs under a
    mask; otherwise it runs element by element."""

    wide: int
    lanes: int
    masked: bool

    def limited(self, extent: int) -> Shape:
        """For runs of a known length: no wider than needed."""
        wide, lanes = self.wide, self.lanes
        while wide > lanes and wide > extent:
            wide //= 2
        while lanes > 1 and lanes >= 2 * extent:
            lanes //= 2
        return Shape(max(wide if wide > lanes else lanes, lanes), lanes, self.masked)

    @property
    def choice(self) -> Choice:
        """The vectors in flight that were decided, a power of two."""
        return Choice({"lanes": self.lanes}, Knobs(tile_vectors=self.wide // self.lanes))


def shape_for(function: KernelFunction, vector_bits: int, vector_registers: int, *, costly: bool) -> Shape:
    """The vectorization of a kernel's runs on ``vector_registers`` registers of ``vector_bits`` bits. ``costly``:
    whether each element takes much computation. Masked accesses exist for elements of 32 and 64 bits."""
    lanes = lanes_for(function, vector_bits)
    if lanes == 1:
        return Shape(1, 1, False)
    sizes = [storage_bytes(p.type.element_type) for p in (*function.arguments, *function.results)]
    few = costly and vector_registers < _MANY_REGISTERS
    vectors = function.knobs.tile_vectors or (_COSTLY_IN_FLIGHT if few else _IN_FLIGHT)
    return Shape(lanes << (vectors.bit_length() - 1), lanes, min(sizes) >= 4)


Emit = Callable[[Coordinate, int, ir.Value | None], None]


def vector_loop(kernel: KernelBuilder, start: Index, end: Index, shape: Shape, emit: Emit) -> None:
    """Calls ``emit(coordinate, lanes, mask)``, which emits code for the elements, over ``start`` to ``end``.

    ``coordinate`` is a ``Lane``, or an index when lanes is 1.
    """
    if shape.lanes == 1:
        with kernel.loop(start, end) as loop:
            emit(loop.iv, 1, None)
        return
    length = index.sub(end, start)
    whole = index.mul(index.floordiv(length, shape.wide), shape.wide)
    middle = index.add(start, whole)
    if whole != 0:
        with kernel.loop(start, middle, shape.wide) as loop:
            emit(Lane(loop.iv), shape.wide, None)
    if isinstance(length, int) and length == whole:
        return
    if isinstance(length, int) and isinstance(whole, int) and (length - whole) % shape.lanes == 0:
        with kernel.loop(middle, end, shape.lanes) as loop:
            emit(Lane(loop.iv), shape.lanes, None)
    elif shape.masked:
        with kernel.loop(middle, end, shape.lanes) as loop:
            emit(Lane(loop.iv), shape.lanes, tail_mask(shape.lanes, index.sub(end, loop.iv)))
    else:
        with kernel.loop(middle, end) as loop:
            emit(loop.iv, 1, None)


def reduction_loop(
    kernel: KernelBuilder,
    extent: Index,
    shape: Shape,
    accumulators: Sequence[ir.Value],
    fold: Callable[[list[ir.Value]], list[ir.Value]],
    emit: Callable[[Coordinate, int, ir.Value | None, list[ir.Value]], list[ir.Value]],
) -> list[ir.Value]:
    """As ``vector_loop`` from 0 to ``extent``, with carried accumulators of ``wide`` lanes, which ``fold`` narrows to
    ``lanes``.

    Returns accumulators of ``lanes``. ``emit`` gives the new accumulators and must leave masked-off lanes unchanged.
    """
    whole = index.mul(index.floordiv(extent, shape.wide), shape.wide)
    carried = list(accumulators)
    if whole != 0:
        with kernel.loop(0, whole, shape.wide, carried) as loop:
            loop.yield_(*emit(Lane(loop.iv), shape.wide, None, loop.carried))
        carried = loop.results
    carried = fold(carried)
    if isinstance(extent, int) and extent == whole:
        return carried
    exact = isinstance(extent, int) and isinstance(whole, int) and (extent - whole) % shape.lanes == 0
    with kernel.loop(whole, extent, shape.lanes, carried) as loop:
        mask = None if exact else tail_mask(shape.lanes, index.sub(extent, loop.iv))
        loop.yield_(*emit(Lane(loop.iv), shape.lanes, mask, loop.carried))
    return loop.results


def tail_mask(lanes: int, remaining: Index) -> ir.Value:
    """``vector<lanes x i1>`` that holds in the first ``remaining`` lanes."""
    type_ = ir.VectorType.get([lanes], ir.IntegerType.get_signless(1))
    return vector.CreateMaskOp(type_, [index.value(remaining)]).result
