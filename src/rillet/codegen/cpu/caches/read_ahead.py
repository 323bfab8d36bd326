"""Reading data into the caches before it is used, where the hardware does not: beyond the ends of pages, and while a
kernel computes much and so asks for little."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch_mlir.dialects import memref

from rillet.codegen import index
from rillet.codegen.coordinates import Coordinate, Lane
from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.memory import LINE_BYTES
from rillet.codegen.index import Index
from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.ir.dtypes import storage_bytes

_IN_L1 = 3  # locality: into all caches


def is_beyond_l2(function: KernelFunction, target: CpuTarget) -> bool:
    """Whether the arguments are known to be too large to come from the L2 cache."""
    if not target.machine.l2_bytes or any(not p.type.has_static_shape for p in function.arguments):
        return False
    sizes = (math.prod(p.type.shape) * storage_bytes(p.type.element_type) for p in function.arguments)
    return sum(sizes) > target.machine.l2_bytes


def fetch(kernel: KernelBuilder, number: int, outer: Sequence[Coordinate], first: Index, elements: int) -> None:
    """Start to read ``elements`` elements of an argument along its last axis from ``first`` on; ``outer``: the
    coordinates on the other axes. Beyond the axis's end the last element is read instead."""
    port = kernel.function.arguments[number]
    last = index.sub(kernel.extents(port.value)[-1], 1)
    for n in range(0, elements, max(1, LINE_BYTES // storage_bytes(port.type.element_type))):
        place = [*(c for c in outer if not isinstance(c, Lane)), index.minimum(index.add(first, n), last)]
        memref.PrefetchOp(kernel.argument(number), [index.value(c) for c in place], False, _IN_L1, True)
