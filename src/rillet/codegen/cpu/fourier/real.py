"""Transforms of real numbers by complex ones of half their length.

Neighbouring numbers are taken as the parts of complex ones, ``z[t] = x[2 t] + i x[2 t + 1]``, whose transform Z holds
the transforms of both: with ``w = exp(-2 pi i / n)``, ``X[k] = even + w^k odd``, ``even = (Z[k] + Z*[n/2 - k]) / 2``,
``odd = (Z[k] - Z*[n/2 - k]) / 2 i``.
"""

from __future__ import annotations

import numpy as np
from torch_mlir import ir

from rillet.codegen import index
from rillet.codegen.cpu.fourier.butterflies import Complex, add, mul, sub
from rillet.codegen.cpu.fourier.workspace import Table, Workspace
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.values import constant


def turns(length: int, count: int) -> np.ndarray:
    """``w^k / 2 i`` for k below ``count``."""
    return -0.5j * np.exp(-2j * np.pi * np.arange(count) / length)


class RealSide:
    """Emits what comes behind the transform of real numbers, or before a transform to real numbers."""

    def __init__(self, kernel: KernelBuilder, length: int, element: ir.Type) -> None:
        """``length``: of the real side."""
        self.kernel = kernel
        self.length = length
        if length % 2 == 0:
            self.turns = Table.of(kernel, turns(length, length // 4 + 1), element)

    def untangle(self, numbers: Workspace) -> None:
        """Frequencies 0 to ``length / 2`` out of the complex transform of half the length, in place."""
        points = self.length // 2
        first = numbers.load(0)
        zero = constant(0.0, first.re.type)
        numbers.store(0, Complex(add(first.re, first.im), zero))
        numbers.store(points, Complex(sub(first.re, first.im), zero))
        with self.kernel.loop(1, points // 2 + 1) as it:
            other = index.sub(points, it.iv)
            even, difference = self._halves(numbers, it.iv, other)
            odd = difference * self.turns.load(it.iv, numbers)
            numbers.store(it.iv, even + odd)
            numbers.store(other, (even - odd).conjugate)

    def tangle(self, numbers: Workspace) -> None:
        """The complex numbers whose inverse transform of half the length has the real numbers, out of frequencies 0 to
        ``length / 2``, in place."""
        points = self.length // 2
        first, last = numbers.load(0).re, numbers.load(points).re
        half = constant(0.5, first.type)
        numbers.store(0, Complex(mul(add(first, last), half), mul(sub(first, last), half)))
        with self.kernel.loop(1, points // 2 + 1) as it:
            other = index.sub(points, it.iv)
            even, difference = self._halves(numbers, it.iv, other)
            odd = difference * self.turns.load(it.iv, numbers).conjugate
            numbers.store(it.iv, even + odd)
            numbers.store(other, (even - odd).conjugate)

    def mirror(self, numbers: Workspace) -> None:
        """The upper half of the frequencies: conjugates of the lower half."""
        with self.kernel.loop(1, (self.length + 1) // 2) as it:
            numbers.store(index.sub(self.length, it.iv), numbers.load(it.iv).conjugate)

    def _halves(self, numbers: Workspace, k: index.Index, other: index.Index) -> tuple[Complex, Complex]:
        """``(a + b*) / 2`` and ``a - b*`` of the numbers at ``k`` and ``other``."""
        a, b = numbers.load(k), numbers.load(other).conjugate
        return (a + b).scaled(constant(0.5, a.re.type)), a - b
