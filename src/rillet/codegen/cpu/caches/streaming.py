"""Results too large for the caches are stored past them.

An ordinary store reads the cache line that it is about to overwrite. A streaming store does not, which saves a third of
a copy's memory traffic. It pays where the caches would not hold the result for its next reader, and where the kernel
waits for memory.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from torch_mlir import ir
from torch_mlir.dialects import arith, memref

from rillet.codegen import index
from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.memory import LINE_BYTES
from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.ir.dtypes import storage_bytes


def emit(kernel: KernelBuilder, body: Callable[[], None]) -> None:
    """Call ``body``, which emits the workgroup's code. For results that are streamed it is called twice: once for
    memory that starts at a cache line and is no argument's, once for any other."""
    function = kernel.function
    streamed = _streamed(function, kernel.target)
    if not streamed:
        body()
        return
    conditions = [_starts_a_line(kernel.result(number)) for number in streamed]
    conditions += [
        _differ(kernel.result(number), kernel.argument(argument))
        for number, argument in sorted(function.may_alias)
        if number in streamed
    ]
    good = functools.reduce(lambda a, b: arith.AndIOp(a, b).result, conditions)
    with kernel.when(good):
        kernel.streaming = frozenset(function.results[number].binding for number in streamed)
        body()
        kernel.streaming = frozenset()
        # Streaming stores keep no order with others: a thread that learns that this workgroup is done must see them.
        from torch_mlir.dialects import llvm  # takes long to import

        llvm.FenceOp(llvm.AtomicOrdering.seq_cst)
    true = arith.ConstantOp(ir.IntegerType.get_signless(1), 1).result
    with kernel.when(arith.XOrIOp(good, true).result):
        body()


def _streamed(function: KernelFunction, target: CpuTarget) -> list[int]:
    """The numbers of the results that have a known size, fill whole lines, and take most of the last-level cache or
    more."""
    if target.machine.arch != "x86_64":
        return []
    return [
        number
        for number, port in enumerate(function.results)
        if number not in function.tied
        and port.type.has_static_shape
        and port.type.rank > 0
        and storage_bytes(port.type.element_type) >= 4
        and port.type.shape[-1] * storage_bytes(port.type.element_type) % LINE_BYTES == 0
        and 4 * math.prod(port.type.shape) * storage_bytes(port.type.element_type) >= 3 * target.machine.l3_bytes
    ]


def _starts_a_line(memory: ir.Value) -> ir.Value:
    rest = arith.AndIOp(_address(memory), index.value(LINE_BYTES - 1)).result
    return arith.CmpIOp(arith.CmpIPredicate.eq, rest, index.value(0)).result


def _differ(a: ir.Value, b: ir.Value) -> ir.Value:
    return arith.CmpIOp(arith.CmpIPredicate.ne, _address(a), _address(b)).result


def _address(memory: ir.Value) -> ir.Value:
    return memref.ExtractAlignedPointerAsIndexOp(memory).result
