"""Computing elements of any tensor of the kernel at given coordinates, in registers.

This is how producers and epilogues are fused: ``Evaluator.at(value, coordinates)`` inlines, through indexing maps,
every point-wise op between ``value`` and what is in memory or already in registers.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, scf, vector

from rillet.codegen import coordinates as coords
from rillet.codegen import index
from rillet.codegen.coordinates import Coordinate, Lane, is_uniform, is_vector
from rillet.codegen.emit import memory, views
from rillet.codegen.emit.body import inline_body
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.memory import Buffer
from rillet.codegen.emit.transpose import transpose
from rillet.codegen.emit.values import broadcast, constant
from rillet.codegen.index import Index
from rillet.errors import CompileError
from rillet.ir.extents import reassociation
from rillet.ir.rewrite import defining
from rillet.ir.structured import Structured


class Evaluator:
    """Evaluates tensor elements at the current insertion point.

    It remembers what it has computed, so make a new one (``fork``) for each loop body: remembered values are only valid
    where they were computed.
    """

    def __init__(self, kernel: KernelBuilder, lanes: int = 1, mask: ir.Value | None = None):
        """``lanes``: vector length; ``mask``: ``vector<lanes x i1>`` of the lanes that exist (a tail), or None."""
        self.kernel = kernel
        self.lanes = lanes
        self.mask = mask
        self.buffers: dict[ir.Value, Buffer] = {}
        self._registers: dict[ir.Value, ir.Value] = {}
        self._memo: dict[tuple[ir.Value, tuple[Coordinate, ...]], ir.Value] = {}
        # In a square tile: the coordinate of each row, as (the first row's, row number). See ``tile_rows``.
        self._rows: dict[ir.Value, tuple[Index, int]] = {}
        self._tiles: dict[tuple[ir.Value, tuple[Coordinate, ...]], list[ir.Value]] = {}
        self._parts: dict[ir.Operation, tuple[int, int]] = {}  # the number of the part, and along which axis
        for port in kernel.function.arguments:
            self.buffers[port.value] = kernel.buffer(port)

    def fork(self, lanes: int | None = None, mask: ir.Value | None = None) -> Evaluator:
        """An evaluator with the same buffers and registers that remembers nothing, for code at another place."""
        other = Evaluator(self.kernel, self.lanes if lanes is None else lanes, mask)
        other.buffers.update(self.buffers)
        other._registers.update(self._registers)
        other._parts.update(self._parts)
        return other

    def bind(self, value: ir.Value, register: ir.Value) -> None:
        """Say that tensor ``value``, at whatever coordinates it is read, is ``register`` (scalar, or
        ``vector<lanes>``).

        For epilogues: bind the root's result to an accumulator, then evaluate the function's result at its coordinates.
        """
        self._registers[value] = register

    def keep(self, value: ir.Value, buffer: Buffer) -> None:
        """Say that tensor ``value`` has been written to ``buffer``."""
        self.buffers[value] = buffer

    def within(self, op: ir.Operation, part: int, axis: int) -> None:
        """Say that a pad or concatenation is only read, along ``axis`` (that of the lanes), within one of its
        ``parts``."""
        self._parts[op] = (part, axis)

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

    # --- one method for each kind of op
    # ---------------------------------------------------------------------------------

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
        method = _METHODS.get(op.name)
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
        return inline_body(generic, operands, self.kernel, coordinates=loops, lanes=self.lanes, read=self._extract)

    def _extract(self, source: ir.Value, indices: list[Coordinate]) -> ir.Value:
        """``tensor.extract`` at data-dependent indices: out of range makes the kernel fail, and reads element 0."""
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

    def _fill(self, op: ir.Operation, c: list[Coordinate]) -> ir.Value:
        return self.kernel.scalar(op.operands[0])

    def _constant(self, op: ir.Operation, c: list[Coordinate]) -> ir.Value:
        attribute = op.attributes["value"]
        if not isinstance(attribute, ir.DenseElementsAttr) or not attribute.is_splat:
            raise CompileError(f"kernel @{self.kernel.function.name}: a constant that is no splat must be an argument")
        return arith.ConstantOp(
            ir.RankedTensorType(op.results[0].type).element_type, attribute.get_splat_value()
        ).result

    def _empty(self, op: ir.Operation, c: list[Coordinate]) -> ir.Value:
        return undefined(ir.RankedTensorType(op.results[0].type).element_type)

    def _splat(self, op: ir.Operation, c: list[Coordinate]) -> ir.Value:
        return self.kernel.scalar(op.operands[0])

    def _cast(self, op: ir.Operation, c: list[Coordinate]) -> ir.Value:
        return self.at(op.operands[0], c)

    def _from_elements(self, op: ir.Operation, c: list[Coordinate]) -> ir.Value:
        shape = list(ir.RankedTensorType(op.results[0].type).shape)
        if not all(is_uniform(x) for x in c):
            return self._by_lane(op.results[0], c)
        position = index.linearize(c, shape)
        values = [self.kernel.scalar(o) for o in op.operands]
        chosen = values[0]
        for n, candidate in enumerate(values[1:], 1):
            here = arith.CmpIOp(arith.CmpIPredicate.eq, index.value(position), index.value(n)).result
            chosen = arith.SelectOp(here, candidate, chosen).result
        return chosen

    def _extract_slice(self, op: ir.Operation, c: list[Coordinate]) -> ir.Value:
        offsets, sizes, strides = views.slice_parameters(self.kernel, op)
        kept = views.kept_axes(ir.RankedTensorType(op.operands[0].type).rank, sizes, c, op.results[0].type)
        source: list[Coordinate] = []
        position = iter(c)
        for axis, (offset, stride) in enumerate(zip(offsets, strides, strict=True)):
            x = next(position) if axis in kept else 0
            source.append(coords.add(offset, coords.mul(x, stride, self.lanes), self.lanes))
        return self.at(op.operands[0], source)

    def _insert_slice(self, op: ir.Operation, c: list[Coordinate]) -> ir.Value:
        offsets, sizes, strides = views.slice_parameters(self.kernel, op)
        source_type = ir.RankedTensorType(op.operands[0].type)
        kept = views.kept_axes(len(c), sizes, range(source_type.rank), source_type)
        moving = [a for a in range(len(c)) if not is_uniform(c[a])]
        moving_extents = zip(moving, self._extents(op, moving), strict=True)
        if any(not _is_full(offsets[a], sizes[a], strides[a], e) for a, e in moving_extents):
            return self._by_lane(op.results[0], c)
        inside: ir.Value | None = None
        where: list[Coordinate] = []
        for a, x in enumerate(c):
            if a in moving or _is_full(offsets[a], sizes[a], strides[a], self._extents(op, [a])[0]):
                where.append(x)
                continue
            relative = index.sub(x, offsets[a])
            inside = _and(inside, _below(relative, index.mul(sizes[a], strides[a])))
            if strides[a] != 1:
                exact = arith.CmpIOp(
                    arith.CmpIPredicate.eq, index.value(index.mod(relative, strides[a])), index.value(0)
                ).result
                inside = _and(inside, exact)
            where.append(index.floordiv(relative, strides[a]))
        source = [where[a] for a in range(len(c)) if a in kept]
        if inside is None:
            return self.at(op.operands[0], source)
        return self._choose(inside, lambda e: e.at(op.operands[0], source), lambda e: e.at(op.operands[1], c), op)

    def _pad(self, op: ir.Operation, c: list[Coordinate]) -> ir.Value:
        fill = views.pad_value(self.kernel, op)
        low, _ = views.pad_amounts(self.kernel, op)
        extents = self.kernel.extents(op.operands[0])
        padded = self.kernel.extents(op.results[0])
        part, along = self._parts.get(op, (None, None))
        if part is not None and part != views.PAD_INTERIOR:
            return fill
        if along is not None:
            c = [coords.subtract(x, low[along]) if axis == along else x for axis, x in enumerate(c)]
            low = [0 if axis == along else lo for axis, lo in enumerate(low)]
        unpadded = [
            _is_zero(lo) and (e == x or axis == along)
            for axis, (lo, e, x) in enumerate(zip(low, extents, padded, strict=True))
        ]
        if any(not is_uniform(x) and not unpadded[a] for a, x in enumerate(c)):
            return self._by_lane(op.results[0], c)
        inside: ir.Value | None = None
        source: list[Coordinate] = []
        for a, x in enumerate(c):
            if unpadded[a]:
                source.append(x)
                continue
            relative = index.sub(x, low[a])
            inside = _and(inside, _below(relative, extents[a]))
            source.append(relative)
        if inside is None:
            return self.at(op.operands[0], source)
        return self._choose(inside, lambda e: e.at(op.operands[0], source), lambda e: fill, op)

    def _concat(self, op: ir.Operation, c: list[Coordinate]) -> ir.Value:
        axis = ir.IntegerAttr(op.attributes["dim"]).value
        starts = views.concat_starts(self.kernel, op)
        if op in self._parts:
            number, _ = self._parts[op]
            where = [coords.subtract(x, starts[number]) if a == axis else x for a, x in enumerate(c)]
            return self.at(op.operands[number], where)
        if not is_uniform(c[axis]):
            return self._by_lane(op.results[0], c)

        def part(e: Evaluator, number: int) -> ir.Value:
            where = list(c)
            where[axis] = index.sub(c[axis], starts[number])
            if number == len(op.operands) - 1:
                return e.at(op.operands[number], where)
            here = _below(c[axis], starts[number + 1])
            return e._choose(here, lambda f: f.at(op.operands[number], where), lambda f: part(f, number + 1), op)

        return part(self, 0)

    def _expand_shape(self, op: ir.Operation, c: list[Coordinate]) -> ir.Value:
        extents = self.kernel.extents(op.results[0])
        source = [self._merge([c[a] for a in group], [extents[a] for a in group]) for group in reassociation(op)]
        return self.at(op.operands[0], source)

    def _collapse_shape(self, op: ir.Operation, c: list[Coordinate]) -> ir.Value:
        extents = self.kernel.extents(op.operands[0])
        source: list[Coordinate] = []
        for x, group in zip(c, reassociation(op), strict=True):
            source += self._split(x, [extents[a] for a in group])
        return self.at(op.operands[0], source)

    def _reshape(self, op: ir.Operation, c: list[Coordinate]) -> ir.Value:
        linear = self._merge(c, self.kernel.extents(op.results[0]))
        return self.at(op.operands[0], self._split(linear, self.kernel.extents(op.operands[0])))

    # --- helpers
    # ----------------------------------------------------------------------------------------------------------

    def _extents(self, op: ir.Operation, axes: Sequence[int]) -> list[Index]:
        extents = self.kernel.extents(op.results[0])
        return [extents[a] for a in axes]

    def _merge(self, c: Sequence[Coordinate], extents: Sequence[Index]) -> Coordinate:
        linear: Coordinate = 0
        for x, extent in zip(c, extents, strict=True):
            linear = coords.add(coords.mul(linear, extent, self.lanes), x, self.lanes)
        return linear

    def _split(self, linear: Coordinate, extents: Sequence[Index]) -> list[Coordinate]:
        real = [n for n, e in enumerate(extents) if not (isinstance(e, int) and e == 1)]
        split: list[Coordinate] = [0] * len(extents)
        for n in reversed(real[1:]):
            split[n] = coords.mod(linear, extents[n], self.lanes)
            linear = coords.floordiv(linear, extents[n], self.lanes)
        if real:
            split[real[0]] = linear
        return split

    def _by_lane(self, value: ir.Value, c: list[Coordinate]) -> ir.Value:
        """Evaluate each lane as a scalar and put the scalars together. Lanes that a mask rules out take lane 0's
        coordinates."""
        elements = []
        for n in range(self.lanes):
            where = [coords.lane(x, n) for x in c]
            if self.mask is not None and n:
                active = vector.extract(self.mask, [], [n])
                where = [
                    w
                    if is_uniform(x)
                    else arith.SelectOp(active, index.value(w), index.value(coords.lane(x, 0))).result
                    for w, x in zip(where, c, strict=True)
                ]
            elements.append(self.fork(lanes=1).at(value, where))
        return vector.FromElementsOp(ir.VectorType.get([self.lanes], elements[0].type), elements).result

    def _choose(self, condition: ir.Value, then, otherwise, op: ir.Operation) -> ir.Value:  # type: ignore[no-untyped-def]
        """``then`` or ``otherwise`` (functions of an evaluator) by a uniform condition, without evaluating the
        other."""
        element = ir.RankedTensorType(op.results[0].type).element_type
        type_ = ir.VectorType.get([self.lanes], element) if self.lanes > 1 else element
        branch = scf.IfOp(condition, [type_], has_else=True)
        for block, make in ((branch.then_block, then), (branch.else_block, otherwise)):
            with ir.InsertionPoint(block):
                scf.YieldOp([broadcast(make(self.fork(mask=self.mask)), self.lanes)])
        return branch.results[0]


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


def undefined(type_: ir.Type) -> ir.Value:
    """A value that nobody looks at: zero, so that compilation stays deterministic."""
    if isinstance(type_, ir.ComplexType):
        from torch_mlir.dialects import complex as complex_dialect

        zero = constant(0, type_.element_type)
        return complex_dialect.CreateOp(type_, zero, zero).result
    return constant(0, type_)


def _is_zero(i: Index) -> bool:
    return isinstance(i, int) and i == 0


def _below(relative: Index, extent: Index) -> ir.Value:
    """``0 <= relative < extent`` as one unsigned comparison."""
    return arith.CmpIOp(arith.CmpIPredicate.ult, index.value(relative), index.value(extent)).result


def _and(a: ir.Value | None, b: ir.Value) -> ir.Value:
    return b if a is None else arith.AndIOp(a, b).result


def _is_full(offset: Index, size: Index, stride: Index, extent: Index) -> bool:
    return isinstance(offset, int) and offset == 0 and size == extent and isinstance(stride, int) and stride == 1


def _or_kind() -> ir.Attribute:
    return ir.Attribute.parse("#vector.kind<or>")


_METHODS = {
    "linalg.fill": Evaluator._fill,
    "arith.constant": Evaluator._constant,
    "tensor.empty": Evaluator._empty,
    "tensor.splat": Evaluator._splat,
    "tensor.cast": Evaluator._cast,
    "tensor.from_elements": Evaluator._from_elements,
    "tensor.extract_slice": Evaluator._extract_slice,
    "tensor.insert_slice": Evaluator._insert_slice,
    "tensor.pad": Evaluator._pad,
    "tensor.concat": Evaluator._concat,
    "tensor.expand_shape": Evaluator._expand_shape,
    "tensor.collapse_shape": Evaluator._collapse_shape,
    "tensor.reshape": Evaluator._reshape,
}
