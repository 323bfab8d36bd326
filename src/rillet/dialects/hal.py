"""The hal dialect: one operation for each call a host program makes into the runtime's device layer.

Operations carry their import's name with the dots after ``hal`` as underscores: ``hal.cmd_bind`` is ``hal.cmd.bind``
(docs/reference/hal.md).

Annotations are evaluated by the dialect machinery, so this file has no ``from __future__ import annotations``.
"""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext
from torch_mlir.dialects.ext import Operand, Result

from rillet.dialects.verifying import error

I64 = ir.IntegerType[64]
Bool = ir.IntegerType[1]
Index = ir.IndexType


class Hal(ext.Dialect, name="hal"):
    """Buffers, views, command buffers and their execution."""


class BufferType(Hal.Type, name="buffer"):
    """A reference to device memory."""


class ViewType(Hal.Type, name="view"):
    """A buffer with an element type and a shape."""


class CommandsType(Hal.Type, name="cmd"):
    """A command buffer."""


class FenceType(Hal.Type, name="fence"):
    """A point in the work of a device, reached once or failed."""


class GlobalLoadOp(Hal.Operation, name="global_load", traits=[ext.Pure]):
    """Reads a module global that the initializer wrote."""

    out: Result[Any]
    ordinal: Any


class GlobalStoreOp(Hal.Operation, name="global_store"):
    """Writes a module global; in the initializer only."""

    value: Operand[Any]
    ordinal: Any


class ConstantOp(Hal.Operation, name="constant"):
    """The read-only buffer over constant segment ``ordinal``."""

    out: Result[BufferType]
    ordinal: Operand[I64]


class BufferAllocateOp(Hal.Operation, name="buffer_allocate"):
    """A new buffer of ``size`` bytes on ``device`` (its number), 64-byte aligned: results live in these."""

    out: Result[BufferType]
    device: Operand[I64]
    size: Operand[Index]


class BufferTransientOp(Hal.Operation, name="buffer_transient"):
    """Scratch of ``size`` bytes from the pool of ``device``, contents undefined; it returns there when released."""

    out: Result[BufferType]
    device: Operand[I64]
    size: Operand[Index]


class BufferSubspanOp(Hal.Operation, name="buffer_subspan", traits=[ext.Pure]):
    """The part of ``buffer`` from byte ``offset`` on that is ``length`` bytes long."""

    out: Result[BufferType]
    buffer: Operand[BufferType]
    offset: Operand[Index]
    length: Operand[Index]


class BufferLoadOp(Hal.Operation, name="buffer_load"):
    """Reads one element: an integer, a bool or a float."""

    out: Result[Any]
    buffer: Operand[BufferType]
    offset: Operand[Index]
    dtype: Operand[I64]

    def verify_invariants(self) -> bool:
        """Requires an integer, index or float result."""
        if isinstance(self.operation.results[0].type, ir.FloatType | ir.IntegerType | ir.IndexType):
            return True
        return error(self.operation, "must produce an integer or a float")


class ViewCreateOp(Hal.Operation, name="view_create"):
    """A view of ``buffer`` with element type code ``dtype`` and extents ``dims``."""

    out: Result[ViewType]
    buffer: Operand[BufferType]
    dtype: Operand[I64]
    dims: Sequence[Operand[Index]]


class ViewBufferOp(Hal.Operation, name="view_buffer", traits=[ext.Pure]):
    """The buffer that ``view`` shows."""

    out: Result[BufferType]
    view: Operand[ViewType]


class ViewDimOp(Hal.Operation, name="view_dim", traits=[ext.Pure]):
    """The extent of ``view`` along ``axis``."""

    out: Result[Index]
    view: Operand[ViewType]
    axis: Operand[I64]


class ViewCheckOp(Hal.Operation, name="view_check"):
    """Fails when ``view``, input ``argument``, has another element type, rank or extent; extent -1 admits any."""

    view: Operand[ViewType]
    argument: Operand[I64]
    dtype: Operand[I64]
    rank: Operand[I64]
    dims: Sequence[Operand[I64]]


class CheckDimOp(Hal.Operation, name="check_dim"):
    """Fails when extent ``actual`` of input ``argument`` along ``axis`` is not ``expected``, its named dimension's
    extent."""

    argument: Operand[I64]
    axis: Operand[I64]
    actual: Operand[Index]
    expected: Operand[Index]


class CheckAssertOp(Hal.Operation, name="check_assert"):
    """Fails with ``messages[message]`` when ``condition`` is false; the message quotes ``actual`` and ``expected``."""

    condition: Operand[Bool]
    message: Operand[I64]
    actual: Operand[Index]
    expected: Operand[Index]


class CheckSizeOp(Hal.Operation, name="check_size"):
    """Fails with ``messages[message]`` when one of ``dims`` is negative or ``factor`` times all of them passes 2^55."""

    message: Operand[I64]
    factor: Operand[I64]
    dims: Sequence[Operand[Index]]


class CmdCreateOp(Hal.Operation, name="cmd_create"):
    """A new command buffer for ``device`` that refers to ``slot_count`` slots."""

    out: Result[CommandsType]
    device: Operand[I64]
    slot_count: Operand[I64]


class CmdConstantsOp(Hal.Operation, name="cmd_constants"):
    """Sets the push constants of the next dispatch."""

    commands: Operand[CommandsType]
    values: Sequence[Operand[I64]]


class CmdBindOp(Hal.Operation, name="cmd_bind"):
    """Sets binding ``binding`` of the next dispatch to ``length`` bytes from ``offset`` on of the buffer in ``slot``.
    ``access``: 1 the kernel reads, 2 it writes, 3 both."""

    commands: Operand[CommandsType]
    binding: Operand[I64]
    slot: Operand[I64]
    offset: Operand[Index]
    length: Operand[Index]
    access: Operand[I64]


class CmdDispatchOp(Hal.Operation, name="cmd_dispatch"):
    """Records a call of kernel ``entry`` with the push constants and bindings set since the last dispatch."""

    commands: Operand[CommandsType]
    entry: Operand[I64]


class CmdFillOp(Hal.Operation, name="cmd_fill"):
    """Records writing the low ``pattern_size`` bytes of ``pattern`` over ``length`` bytes of a slot's buffer."""

    commands: Operand[CommandsType]
    slot: Operand[I64]
    offset: Operand[Index]
    length: Operand[Index]
    pattern: Operand[I64]
    pattern_size: Operand[I64]


class CmdCopyOp(Hal.Operation, name="cmd_copy"):
    """Records a copy of ``length`` bytes between the buffers of two slots."""

    commands: Operand[CommandsType]
    target_slot: Operand[I64]
    target_offset: Operand[Index]
    source_slot: Operand[I64]
    source_offset: Operand[Index]
    length: Operand[Index]


class CmdBarrierOp(Hal.Operation, name="cmd_barrier"):
    """Records that commands after this one see what those before it wrote."""

    commands: Operand[CommandsType]


class CmdEndOp(Hal.Operation, name="cmd_end"):
    """Validates the command buffer; nothing can be recorded any more."""

    commands: Operand[CommandsType]


class ExecuteOp(Hal.Operation, name="execute"):
    """Runs ``commands`` on their device with ``buffers`` in its slots, in order; the host waits."""

    commands: Operand[CommandsType]
    buffers: Sequence[Operand[BufferType]]


class FenceCreateOp(Hal.Operation, name="fence_create"):
    """A fence that is not reached yet."""

    out: Result[FenceType]


class FenceJoinOp(Hal.Operation, name="fence_join"):
    """A fence that is reached when all ``fences`` are; at once without any."""

    out: Result[FenceType]
    fences: Sequence[Operand[FenceType]]


class FenceAwaitOp(Hal.Operation, name="fence_await"):
    """The host waits; the call fails with the error of the work when the fence failed."""

    fence: Operand[FenceType]


class QueueOp(Hal.Operation, name="queue"):
    """Gives the command buffer's device work that begins when ``wait`` is reached, and then reaches ``done``."""

    commands: Operand[CommandsType]
    wait: Operand[FenceType]
    done: Operand[FenceType]
    buffers: Sequence[Operand[BufferType]]


class TransferOp(Hal.Operation, name="transfer"):
    """The content of ``source`` in memory that ``device`` can use. The transfer begins when ``wait`` is reached, and
    reaches ``done``."""

    out: Result[BufferType]
    device: Operand[I64]
    source: Operand[BufferType]
    wait: Operand[FenceType]
    done: Operand[FenceType]


def load() -> None:
    """Load the dialect into the current context."""
    Hal.load()
