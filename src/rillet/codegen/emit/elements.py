"""Computing elements of any tensor of the kernel at given coordinates, in registers.

This is how producers and epilogues are fused: ``Evaluator.at(value, coordinates)`` inlines, through indexing maps,
every point-wise op between ``value`` and the tensors in memory or already in registers.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, vector

from rillet.codegen import coordinates as coords
from rillet.codegen import index
from rillet.codegen.coordinates import Coordinate, Lane, is_vector
from rillet.codegen.emit import memory
from rillet.codegen.emit.body import inline_body
from rillet.codegen.emit.element_ops import METHODS, undefined
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.memory import Buffer
from rillet.codegen.emit.transpose import transpose
from rillet.codegen.emit.values import broadcast, constant
from rillet.codegen.index import Index
from rillet.errors import CompileError
from rillet.ir.rewrite import defining
from rillet.ir.structured import Structured


class Evaluator:
    """Evaluates tensor elements at the current insertion point.

    It remembers the values it has computed, which are valid only where they were computed. So make a new evaluator
    (``fork``) for each loop body.
    """

    def __init__(self, kernel: KernelBuilder, lanes: int = 1, mask: ir.Value | None = None):
        """``lanes``: vector length; ``mask``: ``vector<lanes x i1>`` of the lanes that exist (a tail), or None."""
        self.kernel = kernel
        self.lanes = lanes
        self.mask = mask
        self.buffers: dict[ir.Value, Buffer] = {}
        self._registers: dict[ir.Value, ir.Value] = {}
        self._memo: dict[tuple[ir.Value, tuple[Coordinate, ...]], ir.Value] = {}
        # The coordinate of each row of a square tile, as (the first row's coordinate, row number). See ``tile_rows``.
        self._rows: dict[ir.Value, tuple[Index, int]] = {}
        self._tiles: dict[tuple[ir.Value, tuple[Coordinate, ...]], list[ir.Value]] = {}
        self.parts: dict[ir.Operation, tuple[int, int]] = {}  # the part that is read, and the axis of the parts
        for port in kernel.function.arguments:
            self.buffers[port.value] = kernel.buffer(port)

    def fork(self, lanes: int | None = None, mask: ir.Value | None = None) -> Evaluator:
        """An evaluator with the same buffers and registers that remembers nothing, for code at another place."""
        other = Evaluator(self.kernel, self.lanes if lanes is None else lanes, mask)
        other.buffers.update(self.buffers)
        other._registers.update(self._registers)
        other.parts.update(self.parts)
        return other

    def bind(self, value: ir.Value, register: ir.Value) -> None:
        """Says that tensor ``value`` is ``register`` (a scalar, or ``vector<lanes>``) at whatever coordinates it is
        read.

        Epilogues use it: they bind the root's result to an accumulator, then evaluate the function's result.
        """
        self._registers[value] = register

    def keep(self, value: ir.Value, buffer: Buffer) -> None:
        """Say that tensor ``value`` has been written to ``buffer``."""
        self.buffers[value] = buffer

    def within(self, op: ir.Operation, part: int, axis: int) -> None:
        """Say that a pad or concatenation is read only within part ``part`` along ``axis``, the axis of the lanes. See
        ``views.parts``."""
        self.parts[op] = (part, axis)

    def tile_rows(self, base: Index) -> list[ir.Value]:
        """Coordinates ``base + 0 .. base + lanes - 1``, one for each row of a square tile.

        Memory that is contiguous along these (and strided along the lanes) is then read by contiguous loads, one for
        each lane, and transposed in registers, once for the whole tile.
        """
        rows = [index.value(index.add(base, j)) if j else index.value(base) for j in range(self.lanes)]
        self._rows.update({row: (base, j) for j, row in enumerate(rows)})
        return rows

    def result(self, number: int) -> Buffer:
        """The buffer of result ``number``, to store into with ``store``."""
        return self.kernel.buffer(self.kernel.function.results[number])

    def store(self, buffer: Buffer, coordinates: Sequence[Coordinate], value: ir.Value) -> None:
        """Write ``value`` at ``coordinates`` under this evaluator's lanes and mask."""
        memory.store(buffer, coordinates, value, self.lanes, self.mask)

    def at(self, value: ir.Value, coordinates: Sequence[Coordinate]) -> ir.Value:
        """The element of tensor ``value`` at ``coordinates`` (one for each axis).

        A scalar when nothing varies over the lanes, else ``vector<lanes>``; use ``vector_at`` to always get a vector.
        Raises ``CompileError`` when the value needs a loop (a reduction) and is neither bound nor kept.
        """
        if value in self._registers:
            return self._registers[value]
        key = (value, tuple(coordinates))
        if key not in self._memo:
            self._memo[key] = self._compute(value, list(coordinates))
        return self._memo[key]

    def vector_at(self, value: ir.Value, coordinates: Sequence[Coordinate]) -> ir.Value:
        """``at``, broadcast to ``vector<lanes>`` when it is uniform."""
        return broadcast(self.at(value, coordinates), self.lanes)

    # --- generics, and tiles of memory -------------------------------------------------------------------------------

    def _compute(self, value: ir.Value, c: list[Coordinate]) -> ir.Value:
        if value in self.buffers:
            tile = self._tile_row(self.buffers[value], c) if self._rows else None
            return tile if tile is not None else memory.load(self.buffers[value], c, self.lanes, self.mask)
        generic = self.kernel.function.generic_of(value)
        if generic is not None:
            return self._generic(generic, value, c)
        op = defining(value)
        if op is None:
            raise CompileError(f"kernel @{self.kernel.function.name}: a loop-carried tensor is read outside its loop")
        method = METHODS.get(op.name)
        if method is None:
            raise CompileError(f"kernel @{self.kernel.function.name}: {op.name} cannot be computed point by point")
        return method(self, op, c)

    def _tile_row(self, buffer: Buffer, c: list[Coordinate]) -> ir.Value | None:
        """The elements at ``c`` out of a transposed tile, or None when the access is not of that kind."""
        if not c or c[-1] not in self._rows or sum(isinstance(x, Lane) for x in c) != 1 or any(map(is_vector, c)):
            return None
        base, row = self._rows[c[-1]]
        *outer, _ = c
        key = (buffer.memref, (*outer, base))
        if key not in self._tiles:
            columns = [
                memory.load_raw(buffer, [*(coords.lane(x, n) for x in outer), Lane(base)], self.lanes)
                for n in range(self.lanes)
            ]
            self._tiles[key] = transpose(columns)
        return memory.from_storage(self._tiles[key][row], buffer.element)

    def _generic(self, generic: Structured, value: ir.Value, c: list[Coordinate]) -> ir.Value:
        if not generic.is_parallel:
            raise CompileError(f"kernel @{self.kernel.function.name}: a reduction is read before it is computed")
        number = generic.results.index(value)
        loops = loops_from_result(generic, number, c)
        results = self.generic_results(generic, loops)
        for n, (result, map_) in enumerate(zip(generic.results, generic.init_maps, strict=True)):
            self._memo.setdefault((result, tuple(coords.apply(map_, loops, self.lanes))), results[n])
        return results[number]

    def generic_results(self, generic: Structured, loops: Sequence[Coordinate]) -> list[ir.Value]:
        """Evaluate a generic's body once at these loop coordinates, inits read through their producers."""
        operands = [self.operand(generic, n, loops) for n in range(len(generic.maps))]
        return self.inline(generic, operands, loops)

    def operand(self, generic: Structured, number: int, loops: Sequence[Coordinate]) -> ir.Value:
        """Operand ``number`` (inputs, then inits) of a generic at these loop coordinates; undefined when the body
        ignores it."""
        operand = (*generic.inputs, *generic.inits)[number]
        argument = generic.body.arguments[number]
        if not list(argument.uses):
            return undefined(argument.type)
        return self.at(operand, coords.apply(generic.maps[number], loops, self.lanes))

    def inline(self, generic: Structured, operands: Sequence[ir.Value], loops: Sequence[Coordinate]) -> list[ir.Value]:
        """Inline a generic's body on these operands, reading captured tensors through this evaluator."""
        return inline_body(generic, operands, self.kernel, coordinates=loops, lanes=self.lanes, read=self.extract)

    def extract(self, source: ir.Value, indices: list[Coordinate], checked: bool) -> ir.Value:
        """``tensor.extract`` at data-dependent indices. Where they are ``checked``, one out of range makes the kernel
        fail, and element 0 is read."""
        if not checked:
            return self.at(source, indices)
        extents = self.kernel.extents(source)
        safe = [self._check(i, extent) for i, extent in zip(indices, extents, strict=True)]
        return self.at(source, safe)

    def _check(self, position: Coordinate, extent: Index) -> Coordinate:
        if isinstance(position, int) and isinstance(extent, int) and position < extent:
            return position
        if is_vector(position):
            limit = broadcast(index.value(extent), self.lanes)
            inside = arith.CmpIOp(arith.CmpIPredicate.ult, position, limit).result
            outside = arith.CmpIOp(arith.CmpIPredicate.uge, position, limit).result
            if self.mask is not None:
                outside = arith.AndIOp(outside, self.mask).result
            any_outside = vector.reduction(ir.IntegerType.get_signless(1), _or_kind(), outside)
            self.kernel.fail_if(any_outside)
            return arith.SelectOp(inside, position, broadcast(index.value(0), self.lanes)).result
        p = index.value(position)
        inside = arith.CmpIOp(arith.CmpIPredicate.ult, p, index.value(extent)).result
        true = constant(1, ir.IntegerType.get_signless(1))
        self.kernel.fail_if(arith.XOrIOp(inside, true).result)
        return arith.SelectOp(inside, p, index.value(0)).result


def loops_from_result(generic: Structured, number: int, c: Sequence[Coordinate]) -> list[Coordinate]:
    """The loop coordinates at which a parallel generic computes element ``c`` of result ``number``.

    Raises ``CompileError`` when the result's map is not a permutation of the loops.
    """
    loops: list[Coordinate | None] = [None] * generic.loops
    for expr, x in zip(generic.init_maps[number], c, strict=True):
        if isinstance(expr, int):
            loops[expr] = x
    missing = [n for n, x in enumerate(loops) if x is None and generic.extents[n] != 1]
    if missing:
        raise CompileError(f"a result's indexing map leaves loops {missing} open: {generic.init_maps[number]}")
    return [0 if x is None else x for x in loops]


def _or_kind() -> ir.Attribute:
    return ir.Attribute.parse("#vector.kind<or>")
