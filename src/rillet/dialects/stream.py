"""The stream dialect: the work, its order and its memory.

A tensor has become a byte range of a ``!stream.resource``. Commands (``dispatch``, ``fill``, ``copy``) name the
resource, the byte offset and the byte length of each range that they touch. Once ordered, they sit in
``stream.execute`` regions; between two barriers of a region they are independent. Host arithmetic around them stays
upstream's (``arith``, ``scf``).

``stream.device`` on a command, a region, an allocation or a segment is the ordinal of its device; without it, 0. The
host waits for a region without fences. A region that signals a fence runs beside the host and other devices, after
every fence that it awaits.

Annotations are evaluated by the dialect machinery, so this file has no ``from __future__ import annotations``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext
from torch_mlir.dialects.ext import Operand, Region, Result

from rillet.dialects.verifying import error, one_of

LIFETIMES = ("transient", "external")
ACCESSES = ("read", "write", "read_write")
COMMANDS = ("stream.dispatch", "stream.fill", "stream.copy")
DEVICE = "stream.device"

I64 = ir.IntegerType[64]


class Stream(ext.Dialect, name="stream"):
    """Scheduled work over byte ranges."""


class ResourceType(Stream.Type, name="resource"):
    """A device buffer: the arena, a result, a constant segment, an input."""


class FenceType(Stream.Type, name="fence"):
    """A point in the work of a device that is reached once."""


class ViewType(Stream.Type, name="view"):
    """A caller's input or output: a buffer with an element type and a shape."""


class ViewCheckOp(Stream.Operation, name="view_check"):
    """Fails the call when a view is not of the element type and dims (-1: any) of main's argument ``argument``."""

    view: Operand[ViewType]
    argument: Any
    dtype: Any
    dims: Any


class ViewDimOp(Stream.Operation, name="view_dim", traits=[ext.Pure]):
    """The extent of one axis of a view."""

    out: Result[ir.IndexType]
    view: Operand[ViewType]
    axis: Any


class CheckDimOp(Stream.Operation, name="check_dim"):
    """Fails the call when a named dimension of an argument differs from the one seen first."""

    actual: Operand[ir.IndexType]
    expected: Operand[ir.IndexType]
    argument: Any
    axis: Any


class AssertOp(Stream.Operation, name="assert"):
    """Fails the call with ``message`` unless the condition holds; the last two ``{}`` of the message, if any, stand
    for the numbers."""

    condition: Operand[ir.IntegerType[1]]
    actual: Operand[ir.IndexType]
    expected: Operand[ir.IndexType]
    message: Any


class CheckSizeOp(Stream.Operation, name="check_size"):
    """Fails the call when ``factor`` bytes times the product of ``dims`` is more than memory can hold, or a dimension
    is negative; ``message`` says whose."""

    dims: Sequence[Operand[ir.IndexType]]
    factor: Any
    message: Any


class ImportOp(Stream.Operation, name="import_view", traits=[ext.Pure]):
    """The memory behind a caller's view."""

    out: Result[ResourceType]
    view: Operand[ViewType]


class ExportOp(Stream.Operation, name="export_view"):
    """A view over a resource from its first byte; ``dims`` are all extents."""

    out: Result[ViewType]
    resource: Operand[ResourceType]
    dims: Sequence[Operand[ir.IndexType]]
    dtype: Any


class ConstantOp(Stream.Operation, name="constant", traits=[ext.Pure]):
    """One constant array, by its name in the program's table."""

    out: Result[ResourceType]
    symbol: Any


class SegmentOp(Stream.Operation, name="segment", traits=[ext.Pure]):
    """A constant segment of the module file."""

    out: Result[ResourceType]
    ordinal: Any


class AllocOp(Stream.Operation, name="alloc"):
    """Fresh memory of ``size`` bytes: ``transient`` (scratch of this call) or ``external`` (leaves with a result)."""

    out: Result[ResourceType]
    size: Operand[ir.IndexType]
    lifetime: Any

    def verify_invariants(self) -> bool:
        """Requires one of ``LIFETIMES``."""
        return one_of(self.operation, "lifetime", LIFETIMES)


class SubviewOp(Stream.Operation, name="subview", traits=[ext.Pure]):
    """A byte range as a resource of its own, for control flow and results; commands take ranges directly."""

    out: Result[ResourceType]
    source: Operand[ResourceType]
    offset: Operand[ir.IndexType]
    length: Operand[ir.IndexType]


class LoadOp(Stream.Operation, name="load"):
    """The host reads one element at byte ``offset``. ``dtype`` is its element type code."""

    out: Result[Any]
    resource: Operand[ResourceType]
    offset: Operand[ir.IndexType]
    dtype: Any


class ExecuteOp(Stream.Operation, name="execute", traits=[ir.NoTerminatorTrait]):
    """Commands and barriers of one device, run in order; the host waits for them unless a fence is signalled."""

    signal: Sequence[Result[FenceType]]
    awaits: Sequence[Operand[FenceType]]
    body: Region

    def verify_invariants(self) -> bool:
        """Requires at most one fence to signal, and one when it awaits any."""
        return _verify_fences(self.operation)

    def verify_region_invariants(self) -> bool:
        """Requires a region of barriers, and of commands for the op's own device."""
        for op in self.operation.regions[0].blocks[0].operations:
            if op.operation.name not in (*COMMANDS, "stream.barrier"):
                return error(self.operation, f"may hold commands and barriers only, not '{op.operation.name}'")
            if op.operation.name != "stream.barrier" and device_of(op.operation) != device_of(self.operation):
                return error(self.operation, "may hold commands of its own device only")
        return True


class TransferOp(Stream.Operation, name="transfer"):
    """The bytes of a range as a resource that its device can use: the same memory, or a copy in the device's own."""

    out: Result[ResourceType]
    signal: Sequence[Result[FenceType]]
    source: Operand[ResourceType]
    offset: Operand[ir.IndexType]
    length: Operand[ir.IndexType]
    awaits: Sequence[Operand[FenceType]]

    def verify_invariants(self) -> bool:
        """Requires at most one fence to signal, and one when it awaits any."""
        return _verify_fences(self.operation)


class AwaitOp(Stream.Operation, name="await"):
    """The host waits until every fence is reached; the call fails when work before one did."""

    fences: Sequence[Operand[FenceType]]


class DispatchOp(Stream.Operation, name="dispatch"):
    """Runs one entry over its grid. ``access`` says for each binding whether it is read, written or both; ``may_alias``
    holds pairs of binding numbers (written, read) that may be the same memory."""

    constants: Sequence[Operand[I64]]
    resources: Sequence[Operand[ResourceType]]
    offsets: Sequence[Operand[ir.IndexType]]
    lengths: Sequence[Operand[ir.IndexType]]
    entry: Any
    access: Any
    may_alias: Any

    def verify_invariants(self) -> bool:
        """Requires an offset, length and access for each resource; ``may_alias`` pairs a written binding with a read
        one."""
        count = len(self.resources)
        if len(self.offsets) != count or len(self.lengths) != count or len(self.access) != count:
            return error(self.operation, "needs one offset, length and access for each resource")
        if any(ir.StringAttr(a).value not in ACCESSES for a in self.access):
            return error(self.operation, f"access must be one of {', '.join(ACCESSES)}")
        pairs = list(ir.DenseI64ArrayAttr(self.may_alias))
        if len(pairs) % 2 or not all(0 <= number < count for number in pairs):
            return error(self.operation, f"may_alias must hold pairs of binding numbers below {count}")
        access = [ir.StringAttr(a).value for a in self.access]
        if any("write" not in access[w] for w in pairs[::2]) or any("read" not in access[r] for r in pairs[1::2]):
            return error(self.operation, "may_alias must pair a binding that is written with one that is read")
        return True


class FillOp(Stream.Operation, name="fill"):
    """Repeats the low ``pattern_size`` bytes of ``pattern`` over a range."""

    pattern: Operand[I64]
    resource: Operand[ResourceType]
    offset: Operand[ir.IndexType]
    length: Operand[ir.IndexType]
    pattern_size: Any

    def verify_invariants(self) -> bool:
        """Requires a pattern of 1, 2, 4 or 8 bytes."""
        return one_of(self.operation, "pattern_size", (1, 2, 4, 8))


class CopyOp(Stream.Operation, name="copy"):
    """Copies ``length`` bytes between two ranges that do not overlap."""

    target: Operand[ResourceType]
    target_offset: Operand[ir.IndexType]
    source: Operand[ResourceType]
    source_offset: Operand[ir.IndexType]
    length: Operand[ir.IndexType]


class BarrierOp(Stream.Operation, name="barrier"):
    """Commands after it see what those before it wrote."""


@dataclass(frozen=True)
class Touch:
    """One byte range that a command reads or writes, by the positions of its operands."""

    op: ir.Operation
    resource_operand: int
    offset_operand: int
    length_operand: int
    reads: bool
    writes: bool

    @property
    def resource(self) -> ir.Value:
        """The resource whose bytes the command touches."""
        return self.op.operands[self.resource_operand]

    @property
    def offset(self) -> ir.Value:
        """The first byte touched."""
        return self.op.operands[self.offset_operand]

    @property
    def length(self) -> ir.Value:
        """The number of bytes touched."""
        return self.op.operands[self.length_operand]

    def move(self, resource: ir.Value, offset: ir.Value) -> None:
        """Make the command use another resource and offset for this range."""
        self.op.operands[self.resource_operand] = resource
        self.op.operands[self.offset_operand] = offset


def touches(op: ir.Operation) -> list[Touch]:
    """The ranges that a command or a transfer touches, bindings of a dispatch in order; else none."""
    if op.name == "stream.fill":
        return [Touch(op, 1, 2, 3, reads=False, writes=True)]
    if op.name == "stream.copy":
        return [Touch(op, 0, 1, 4, reads=False, writes=True), Touch(op, 2, 3, 4, reads=True, writes=False)]
    if op.name == "stream.transfer":
        return [Touch(op, 0, 1, 2, reads=True, writes=False)]
    if op.name != "stream.dispatch":
        return []
    constants, count, _, _ = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    access = [ir.StringAttr(a).value for a in op.attributes["access"]]
    return [
        Touch(op, constants + i, constants + count + i, constants + 2 * count + i, "read" in a, "write" in a)
        for i, a in enumerate(access)
    ]


def device_of(op: ir.Operation) -> int:
    """The ordinal of the device of a command, region, transfer, allocation or segment."""
    return int(ir.IntegerAttr(op.attributes[DEVICE]).value) if DEVICE in op.attributes else 0


def set_device(op: ir.Operation | ir.OpView, device: int) -> None:
    """Put a command, region, transfer, allocation or segment on the device of this ordinal."""
    if device:
        op.operation.attributes[DEVICE] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), device)


def step_of(op: ir.Operation) -> ir.Operation:
    """The operation that stands for a command where operations are in order: its region, or itself outside of one."""
    return op.parent.operation if op.parent.name == "stream.execute" else op


def view_check(view: ir.Value, argument: int, dtype: int, dims: Sequence[int]) -> None:
    """Build a ``stream.view_check``. (The generated builder refuses empty array attributes.)"""
    i64 = ir.IntegerType.get_signless(64)
    attributes = {
        "argument": ir.IntegerAttr.get(i64, argument),
        "dtype": ir.IntegerAttr.get(i64, dtype),
        "dims": ir.DenseI64ArrayAttr.get(list(dims)),
    }
    ir.Operation.create(ViewCheckOp.OPERATION_NAME, operands=[view], attributes=attributes)


def dispatch(
    entry: ir.Attribute,
    constants: Sequence[ir.Value],
    ranges: Sequence[tuple[ir.Value, ir.Value, ir.Value]],
    access: Sequence[str],
    may_alias: Sequence[int],
) -> ir.Operation:
    """Build a ``stream.dispatch``; ``ranges`` are (resource, offset, length)."""
    sizes = [len(constants), len(ranges), len(ranges), len(ranges)]
    attributes = {
        "entry": entry,
        "access": ir.ArrayAttr.get([ir.StringAttr.get(a) for a in access]),
        "may_alias": ir.DenseI64ArrayAttr.get(list(may_alias)),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get(sizes),
    }
    operands = [*constants, *(r[0] for r in ranges), *(r[1] for r in ranges), *(r[2] for r in ranges)]
    return ir.Operation.create(DispatchOp.OPERATION_NAME, operands=operands, attributes=attributes)


def _verify_fences(op: ir.Operation) -> bool:
    """Regions and transfers may wait for others only where they run beside the host."""
    signals = sum(isinstance(result.type, FenceType) for result in op.results)
    awaits = sum(isinstance(operand.type, FenceType) for operand in op.operands)
    if signals > 1 or (awaits and not signals):
        return error(op, "must signal one fence when it awaits any, and no more than one")
    return True


def load() -> None:
    """Load the dialect into the current context."""
    Stream.load()
