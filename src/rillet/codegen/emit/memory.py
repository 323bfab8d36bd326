"""Elements between memory and registers: scalar, contiguous, strided and gathered accesses, masks, storage
conversion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, scf, vector

from rillet.codegen import index
from rillet.codegen.coordinates import Coordinate, Lane, is_uniform, lane
from rillet.codegen.emit.storage import storage_type
from rillet.codegen.emit.values import broadcast, constant
from rillet.codegen.index import Index
from rillet.ir.dtypes import storage_bytes
from rillet.ir.structured import DYNAMIC

LINE_BYTES = 64  # of a cache line


@dataclass(frozen=True)
class Buffer:
    """Where a tensor's elements lie: element ``c`` of the tensor is at ``memref[c[axes[0]] - origin[0], ...]``.

    A binding has all axes and origin 0; a row kept in scratch has only the axes that vary within the row.
    ``streaming``: vectors are stored past the caches, aligned to their size or a cache line (``cpu.caches.streaming``).
    """

    memref: ir.Value
    element: ir.Type  # the tensor's element type (the memref holds its storage type)
    axes: tuple[int, ...]
    origin: tuple[Index, ...]
    streaming: bool = False

    @staticmethod
    def whole(memref_: ir.Value, element: ir.Type, *, streaming: bool = False) -> Buffer:
        """A memref that holds the whole tensor."""
        rank = ir.MemRefType(memref_.type).rank
        return Buffer(memref_, element, tuple(range(rank)), (0,) * rank, streaming)

    def locate(self, coordinates: Sequence[Coordinate]) -> list[Coordinate]:
        """The position in the memref of a tensor element."""
        located: list[Coordinate] = []
        for axis, origin in zip(self.axes, self.origin, strict=True):
            c = coordinates[axis]
            if isinstance(c, Lane):
                located.append(Lane(index.sub(c.base, origin), c.step))
            else:
                located.append(c if isinstance(origin, int) and origin == 0 else index.sub(c, origin))
        return located


def reshape_memref(base: ir.Value, extents: Sequence[Index]) -> ir.Value:
    """View the memory at ``base``'s start as a contiguous row-major memref of these extents and the same element
    type."""
    element = ir.MemRefType(base.type).element_type
    strides: list[Index] = [1] * len(extents)
    for axis in range(len(extents) - 2, -1, -1):
        strides[axis] = index.mul(strides[axis + 1], extents[axis + 1])
    static_sizes = [e if isinstance(e, int) else DYNAMIC for e in extents]
    static_strides = [s if isinstance(s, int) else DYNAMIC for s in strides]
    return memref.ReinterpretCastOp(
        ir.MemRefType.get(static_sizes, element),
        base,
        [],
        [e for e in extents if not isinstance(e, int)],
        [s for s in strides if not isinstance(s, int)],
        [0],
        static_sizes,
        static_strides,
    ).result


def load(buffer: Buffer, coordinates: Sequence[Coordinate], lanes: int = 1, mask: ir.Value | None = None) -> ir.Value:
    """Read the element at ``coordinates``: a scalar when they are uniform, else ``vector<lanes>``.

    ``mask`` (``vector<lanes x i1>``) names the lanes that may be read; the others come back as zero.
    """
    where = buffer.locate(coordinates)
    if all(is_uniform(c) for c in where):
        scalar = memref.LoadOp(buffer.memref, [index.value(c) for c in where]).result
        return from_storage(scalar, buffer.element)
    stored = ir.MemRefType(buffer.memref.type).element_type
    type_ = ir.VectorType.get([lanes], stored)
    if is_contiguous(where):
        start = [index.value(lane(c, 0)) for c in where]
        if mask is None:
            loaded = vector.LoadOp(type_, buffer.memref, start).result
        else:
            loaded = vector.MaskedLoadOp(type_, buffer.memref, start, mask, constant(0, type_)).result
        return from_storage(loaded, buffer.element)
    elements = [_load_lane(buffer, where, n, mask) for n in range(lanes)]
    return from_storage(vector.FromElementsOp(type_, elements).result, buffer.element)


def load_raw(buffer: Buffer, coordinates: Sequence[Coordinate], lanes: int) -> ir.Value:
    """Read a contiguous run of ``lanes`` elements as they lie in memory (storage type)."""
    where = [index.value(lane(c, 0)) for c in buffer.locate(coordinates)]
    type_ = ir.VectorType.get([lanes], ir.MemRefType(buffer.memref.type).element_type)
    return vector.LoadOp(type_, buffer.memref, where).result


def store(
    buffer: Buffer,
    coordinates: Sequence[Coordinate],
    value: ir.Value,
    lanes: int = 1,
    mask: ir.Value | None = None,
) -> None:
    """Write ``value`` (scalar, or ``vector<lanes>``; a scalar is broadcast) at ``coordinates``, in lanes where
    ``mask`` holds."""
    where = buffer.locate(coordinates)
    stored = to_storage(value)
    if all(is_uniform(c) for c in where):
        memref.StoreOp(stored, buffer.memref, [index.value(c) for c in where])
        return
    stored = broadcast(stored, lanes)
    if is_contiguous(where):
        start = [index.value(lane(c, 0)) for c in where]
        if mask is None and buffer.streaming:
            alignment = min(LINE_BYTES, lanes * storage_bytes(ir.VectorType(stored.type).element_type))
            vector.StoreOp(stored, buffer.memref, start, nontemporal=True, alignment=alignment)
        elif mask is None:
            vector.StoreOp(stored, buffer.memref, start)
        else:
            vector.MaskedStoreOp(buffer.memref, start, mask, stored)
        return
    for n in range(lanes):
        element = vector.extract(stored, [], [n])
        position = [index.value(lane(c, n)) for c in where]
        if mask is None:
            memref.StoreOp(element, buffer.memref, position)
            continue
        branch = scf.IfOp(vector.extract(mask, [], [n]))
        with ir.InsertionPoint(branch.then_block):
            memref.StoreOp(element, buffer.memref, position)
            scf.YieldOp([])


def store_raw(memref_: ir.Value, position: Index, value: ir.Value) -> None:
    """Write a vector of storage elements at a position of a flat memref."""
    vector.StoreOp(value, memref_, [index.value(position)])


def is_contiguous(where: Sequence[Coordinate]) -> bool:
    """True when the lanes are neighbours in a row-major memref: only the last coordinate varies, by 1."""
    *outer, last = where
    return isinstance(last, Lane) and last.step == 1 and all(is_uniform(c) for c in outer)


def from_storage(value: ir.Value, element: ir.Type) -> ir.Value:
    """Converts a loaded value (scalar or vector) to its element type."""
    target = _like(value, element)
    if value.type == target:
        return value
    if isinstance(element, ir.IndexType):
        return arith.IndexCastOp(target, value).result
    if isinstance(element, ir.FloatType):
        if element.width < 8:
            narrow = _like(value, ir.IntegerType.get_signless(element.width))
            return arith.BitcastOp(target, arith.TruncIOp(narrow, value).result).result
        return arith.BitcastOp(target, value).result
    if isinstance(element, ir.IntegerType) and element.width == 1:
        # Any non-zero byte is true, so that bytes written by others cannot break a select.
        return arith.CmpIOp(arith.CmpIPredicate.ne, value, constant(0, value.type)).result
    return arith.TruncIOp(target, value).result


def to_storage(value: ir.Value) -> ir.Value:
    """Converts a value (scalar or vector) to its storage type."""
    element = ir.VectorType(value.type).element_type if isinstance(value.type, ir.VectorType) else value.type
    stored = storage_type(element)
    target = _like(value, stored)
    if value.type == target:
        return value
    if isinstance(element, ir.IndexType):
        return arith.IndexCastOp(target, value).result
    if isinstance(element, ir.FloatType):
        bits = arith.BitcastOp(_like(value, ir.IntegerType.get_signless(element.width)), value).result
        return bits if element.width >= 8 else arith.ExtUIOp(target, bits).result
    return arith.ExtUIOp(target, value).result


def _load_lane(buffer: Buffer, where: Sequence[Coordinate], number: int, mask: ir.Value | None) -> ir.Value:
    position = [index.value(lane(c, number)) for c in where]
    if mask is None:
        return memref.LoadOp(buffer.memref, position).result
    # Lane 0 is active whenever any lane is, so a masked-off lane reads lane 0's element instead.
    active = vector.extract(mask, [], [number])
    first = [index.value(lane(c, 0)) for c in where]
    safe = [arith.SelectOp(active, p, f).result for p, f in zip(position, first, strict=True)]
    return memref.LoadOp(buffer.memref, safe).result


def _like(value: ir.Value, element: ir.Type) -> ir.Type:
    if isinstance(value.type, ir.VectorType):
        return ir.VectorType.get(ir.VectorType(value.type).shape, element)
    return element
