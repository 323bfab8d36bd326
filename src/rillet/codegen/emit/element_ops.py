"""One element of an op's result, computed from elements of its operands: one function for each kind of op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, Self

from torch_mlir import ir
from torch_mlir.dialects import arith, scf, vector
from torch_mlir.dialects import complex as complex_dialect

from rillet.codegen import coordinates as coords
from rillet.codegen import index
from rillet.codegen.coordinates import Coordinate, is_uniform
from rillet.codegen.emit import views
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.values import broadcast, constant
from rillet.codegen.index import Index
from rillet.errors import CompileError
from rillet.ir.extents import joined_axis, kept_axes, reassociation


class Elements(Protocol):
    """Elements of tensors at the current insertion point: an ``Evaluator``."""

    kernel: KernelBuilder
    lanes: int
    mask: ir.Value | None
    parts: dict[ir.Operation, tuple[int, int]]  # the part that is read, and the axis of the parts

    def at(self, value: ir.Value, coordinates: Sequence[Coordinate]) -> ir.Value:
        """The element of a tensor."""
        ...

    def fork(self, lanes: int | None = None, mask: ir.Value | None = None) -> Self:
        """An evaluator like this one, for code at another place."""
        ...


Make = Callable[[Elements], ir.Value]


def undefined(type_: ir.Type) -> ir.Value:
    """A value that is never used: zero, so that compilation stays deterministic."""
    if isinstance(type_, ir.ComplexType):
        zero = constant(0, type_.element_type)
        return complex_dialect.CreateOp(type_, zero, zero).result
    return constant(0, type_)


def _fill(elements: Elements, op: ir.Operation, c: list[Coordinate]) -> ir.Value:
    return elements.kernel.scalar(op.operands[0])


def _splat_constant(elements: Elements, op: ir.Operation, c: list[Coordinate]) -> ir.Value:
    attribute = op.attributes["value"]
    if not isinstance(attribute, ir.DenseElementsAttr) or not attribute.is_splat:
        raise CompileError(f"kernel @{elements.kernel.function.name}: a constant that is no splat must be an argument")
    return arith.ConstantOp(ir.RankedTensorType(op.results[0].type).element_type, attribute.get_splat_value()).result


def _empty(elements: Elements, op: ir.Operation, c: list[Coordinate]) -> ir.Value:
    return undefined(ir.RankedTensorType(op.results[0].type).element_type)


def _splat(elements: Elements, op: ir.Operation, c: list[Coordinate]) -> ir.Value:
    return elements.kernel.scalar(op.operands[0])


def _cast(elements: Elements, op: ir.Operation, c: list[Coordinate]) -> ir.Value:
    return elements.at(op.operands[0], c)


def _from_elements(elements: Elements, op: ir.Operation, c: list[Coordinate]) -> ir.Value:
    shape = list(ir.RankedTensorType(op.results[0].type).shape)
    if not all(is_uniform(x) for x in c):
        return _by_lane(elements, op.results[0], c)
    position = index.linearize(c, shape)
    values = [elements.kernel.scalar(o) for o in op.operands]
    chosen = values[0]
    for n, candidate in enumerate(values[1:], 1):
        here = arith.CmpIOp(arith.CmpIPredicate.eq, index.value(position), index.value(n)).result
        chosen = arith.SelectOp(here, candidate, chosen).result
    return chosen


def _extract_slice(elements: Elements, op: ir.Operation, c: list[Coordinate]) -> ir.Value:
    offsets, _, strides = views.box(elements.kernel, op)
    kept = kept_axes(op)
    source: list[Coordinate] = []
    position = iter(c)
    for axis, (offset, stride) in enumerate(zip(offsets, strides, strict=True)):
        x = next(position) if axis in kept else 0
        source.append(coords.add(offset, coords.mul(x, stride, elements.lanes), elements.lanes))
    return elements.at(op.operands[0], source)


def _insert_slice(elements: Elements, op: ir.Operation, c: list[Coordinate]) -> ir.Value:
    offsets, sizes, strides = views.box(elements.kernel, op)
    moving = [a for a in range(len(c)) if not is_uniform(c[a])]
    moving_extents = zip(moving, _extents(elements, op, moving), strict=True)
    if any(not _is_full(offsets[a], sizes[a], strides[a], e) for a, e in moving_extents):
        return _by_lane(elements, op.results[0], c)
    inside: ir.Value | None = None
    where: list[Coordinate] = []
    for a, x in enumerate(c):
        if a in moving or _is_full(offsets[a], sizes[a], strides[a], _extents(elements, op, [a])[0]):
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
    source = [where[a] for a in kept_axes(op)]
    if inside is None:
        return elements.at(op.operands[0], source)
    return _choose(elements, inside, lambda e: e.at(op.operands[0], source), lambda e: e.at(op.operands[1], c), op)


def _pad(elements: Elements, op: ir.Operation, c: list[Coordinate]) -> ir.Value:
    fill = views.padding_value(elements.kernel, op)
    low, _ = views.margins(elements.kernel, op)
    extents = elements.kernel.extents(op.operands[0])
    padded = elements.kernel.extents(op.results[0])
    part, along = elements.parts.get(op, (None, None))
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
        return _by_lane(elements, op.results[0], c)
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
        return elements.at(op.operands[0], source)
    return _choose(elements, inside, lambda e: e.at(op.operands[0], source), lambda e: fill, op)


def _concat(elements: Elements, op: ir.Operation, c: list[Coordinate]) -> ir.Value:
    axis = joined_axis(op)
    starts = views.concat_starts(elements.kernel, op)
    if op in elements.parts:
        number, _ = elements.parts[op]
        where = [coords.subtract(x, starts[number]) if a == axis else x for a, x in enumerate(c)]
        return elements.at(op.operands[number], where)
    if not is_uniform(c[axis]):
        return _by_lane(elements, op.results[0], c)

    def part(e: Elements, number: int) -> ir.Value:
        where = list(c)
        where[axis] = index.sub(c[axis], starts[number])
        if number == len(op.operands) - 1:
            return e.at(op.operands[number], where)
        here = _below(c[axis], starts[number + 1])
        return _choose(e, here, lambda f: f.at(op.operands[number], where), lambda f: part(f, number + 1), op)

    return part(elements, 0)


def _expand_shape(elements: Elements, op: ir.Operation, c: list[Coordinate]) -> ir.Value:
    extents = elements.kernel.extents(op.results[0])
    source = [_merge(elements, [c[a] for a in group], [extents[a] for a in group]) for group in reassociation(op)]
    return elements.at(op.operands[0], source)


def _collapse_shape(elements: Elements, op: ir.Operation, c: list[Coordinate]) -> ir.Value:
    extents = elements.kernel.extents(op.operands[0])
    source: list[Coordinate] = []
    for x, group in zip(c, reassociation(op), strict=True):
        source += _split(elements, x, [extents[a] for a in group])
    return elements.at(op.operands[0], source)


def _reshape(elements: Elements, op: ir.Operation, c: list[Coordinate]) -> ir.Value:
    linear = _merge(elements, c, elements.kernel.extents(op.results[0]))
    return elements.at(op.operands[0], _split(elements, linear, elements.kernel.extents(op.operands[0])))


def _extents(elements: Elements, op: ir.Operation, axes: Sequence[int]) -> list[Index]:
    extents = elements.kernel.extents(op.results[0])
    return [extents[a] for a in axes]


def _merge(elements: Elements, c: Sequence[Coordinate], extents: Sequence[Index]) -> Coordinate:
    linear: Coordinate = 0
    for x, extent in zip(c, extents, strict=True):
        linear = coords.add(coords.mul(linear, extent, elements.lanes), x, elements.lanes)
    return linear


def _split(elements: Elements, linear: Coordinate, extents: Sequence[Index]) -> list[Coordinate]:
    real = [n for n, e in enumerate(extents) if not (isinstance(e, int) and e == 1)]
    split: list[Coordinate] = [0] * len(extents)
    for n in reversed(real[1:]):
        split[n] = coords.mod(linear, extents[n], elements.lanes)
        linear = coords.floordiv(linear, extents[n], elements.lanes)
    if real:
        split[real[0]] = linear
    return split


def _by_lane(elements: Elements, value: ir.Value, c: list[Coordinate]) -> ir.Value:
    """Evaluates each lane as a scalar and puts the scalars together. Lanes that the mask excludes take lane 0's
    coordinates."""
    scalars = []
    for n in range(elements.lanes):
        where = [coords.lane(x, n) for x in c]
        if elements.mask is not None and n:
            active = vector.extract(elements.mask, [], [n])
            where = [
                w if is_uniform(x) else arith.SelectOp(active, index.value(w), index.value(coords.lane(x, 0))).result
                for w, x in zip(where, c, strict=True)
            ]
        scalars.append(elements.fork(lanes=1).at(value, where))
    return vector.FromElementsOp(ir.VectorType.get([elements.lanes], scalars[0].type), scalars).result


def _choose(elements: Elements, condition: ir.Value, then: Make, otherwise: Make, op: ir.Operation) -> ir.Value:
    """``then`` or ``otherwise`` (functions of an evaluator) by a uniform condition, without evaluating the
    other."""
    element = ir.RankedTensorType(op.results[0].type).element_type
    type_ = ir.VectorType.get([elements.lanes], element) if elements.lanes > 1 else element
    branch = scf.IfOp(condition, [type_], has_else=True)
    for block, make in ((branch.then_block, then), (branch.else_block, otherwise)):
        with ir.InsertionPoint(block):
            scf.YieldOp([broadcast(make(elements.fork(mask=elements.mask)), elements.lanes)])
    return branch.results[0]


def _is_zero(i: Index) -> bool:
    return isinstance(i, int) and i == 0


def _below(relative: Index, extent: Index) -> ir.Value:
    """``0 <= relative < extent`` as one unsigned comparison."""
    return arith.CmpIOp(arith.CmpIPredicate.ult, index.value(relative), index.value(extent)).result


def _and(a: ir.Value | None, b: ir.Value) -> ir.Value:
    return b if a is None else arith.AndIOp(a, b).result


def _is_full(offset: Index, size: Index, stride: Index, extent: Index) -> bool:
    return isinstance(offset, int) and offset == 0 and size == extent and isinstance(stride, int) and stride == 1


METHODS: dict[str, Callable[[Elements, ir.Operation, list[Coordinate]], ir.Value]] = {
    "linalg.fill": _fill,
    "arith.constant": _splat_constant,
    "tensor.empty": _empty,
    "tensor.splat": _splat,
    "tensor.cast": _cast,
    "tensor.from_elements": _from_elements,
    "tensor.extract_slice": _extract_slice,
    "tensor.insert_slice": _insert_slice,
    "tensor.pad": _pad,
    "tensor.concat": _concat,
    "tensor.expand_shape": _expand_shape,
    "tensor.collapse_shape": _collapse_shape,
    "tensor.reshape": _reshape,
}
"""How one element of what an op makes is computed."""
