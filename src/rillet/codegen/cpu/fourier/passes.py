"""Complex transforms of smooth lengths, all lanes at once.

Stockham's form of the fast Fourier transform: each pass does butterflies of one radix and writes its results in the
order in which the next one reads, so no permutation is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from torch_mlir import ir

from rillet.codegen import index
from rillet.codegen.cpu.fourier.butterflies import butterfly
from rillet.codegen.cpu.fourier.plan import passes_of
from rillet.codegen.cpu.fourier.workspace import Numbers, Table
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.values import constant

N = TypeVar("N", bound=Numbers)


@dataclass(frozen=True)
class Ends:
    """What happens at both ends of a transform: exchanging the parts of all numbers at both makes it an inverse one
    without its divisor; ``scale`` multiplies the results."""

    swap_in: bool = False
    swap_out: bool = False
    scale: float = 1.0

    @staticmethod
    def of(*, inverse: bool, scale: float) -> Ends:
        """Of a forward or inverse transform."""
        return Ends(inverse, inverse, scale)


class Passes:
    """Emits transforms of one smooth length."""

    def __init__(self, kernel: KernelBuilder, length: int, element: ir.Type) -> None:
        self.kernel = kernel
        self.passes = passes_of(length)
        self.tables = [_turns(kernel, n, radix, element) for n, radix in self.passes if n > radix]

    def emit(self, source: Numbers, rooms: tuple[N, N], ends: Ends) -> N:
        """The transform of ``source``, in one of the two ``rooms``, which is returned. Passes write to the first one
        and the second one in turn; the second one may be the source."""
        last = rooms[(len(self.passes) - 1) % 2]
        self.emit_to(source, rooms, ends, last)
        return last

    def emit_to(self, source: Numbers, rooms: tuple[Numbers, Numbers], ends: Ends, target: Numbers) -> None:
        """The same, with the result in ``target``."""
        stride = 1
        for number, (n, radix) in enumerate(self.passes):
            is_last = n == radix
            to = target if is_last else rooms[number % 2]
            own = Ends(ends.swap_in and number == 0, ends.swap_out and is_last, ends.scale if is_last else 1.0)
            self._pass(source, to, (n, radix, stride), None if is_last else self.tables[number], own)
            source, stride = to, stride * radix

    def _pass(
        self, source: Numbers, target: Numbers, shape: tuple[int, int, int], table: Table | None, ends: Ends
    ) -> None:
        """Numbers ``q + stride (p + n / radix j)`` become numbers ``q + stride (radix p + k)``."""
        n, radix, stride = shape
        step = n // radix
        with self.kernel.loop(0, step) as outer:
            p = outer.iv if step > 1 else 0
            turns = [table.load(index.mul(p, radix - 1), source, k) for k in range(radix - 1)] if table else []
            with self.kernel.loop(0, stride) as inner:
                q = inner.iv if stride > 1 else 0
                start = index.add(q, index.mul(p, stride))
                points = [source.load(start, stride * step * j) for j in range(radix)]
                results = butterfly([x.swapped for x in points] if ends.swap_in else points)
                results[1:] = [x * w for x, w in zip(results[1:], turns, strict=True)] if turns else results[1:]
                if ends.scale != 1.0:
                    factor = constant(ends.scale, results[0].re.type)
                    results = [x.scaled(factor) for x in results]
                start = index.add(q, index.mul(p, stride * radix))
                for k, x in enumerate(results):
                    target.store(start, x.swapped if ends.swap_out else x, stride * k)


def _turns(kernel: KernelBuilder, n: int, radix: int, element: ir.Type) -> Table:
    p, k = np.indices((n // radix, radix - 1))
    return Table.of(kernel, np.exp(-2j * np.pi * (p * (k + 1)) / n), element)
