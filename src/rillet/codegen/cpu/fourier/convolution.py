"""Transforms of lengths with a large prime factor.

They become cyclic convolutions of a smooth length (Bluestein, A linear filtering approach to the computation of the
discrete Fourier transform, 1970): with ``w = exp(-pi i / n)``,
``X[k] = w^(k^2) sum of (x[t] w^(t^2)) w^(-(k - t)^2)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np
from torch_mlir import ir

from rillet.codegen.cpu.fourier.butterflies import Complex
from rillet.codegen.cpu.fourier.passes import Ends
from rillet.codegen.cpu.fourier.plan import Lengths
from rillet.codegen.cpu.fourier.workspace import Numbers, Table
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.values import constant

N = TypeVar("N", bound=Numbers)


class Convolution(Generic[N]):
    """Emits transforms of one length by ``smooth``, which emits one of a smooth length and returns where its result
    is."""

    def __init__(
        self,
        kernel: KernelBuilder,
        lengths: Lengths,
        element: ir.Type,
        step: int,
        smooth: Callable[[N, Ends], N],
    ) -> None:
        self.kernel, self.lengths, self.smooth = kernel, lengths, smooth
        chirp, weights = _chirp(lengths)
        self.chirp, self.weights = (Table.of(kernel, t, element, step) for t in (chirp, weights))

    def emit(self, numbers: N, ends: Ends) -> N:
        """The transform of ``numbers``."""
        points, whole = self.lengths.points, self.lengths.smooth
        zero = constant(0.0, numbers.load(0).re.type)
        with self.kernel.loop(0, points, numbers.step) as it:
            x = numbers.load(it.iv)
            numbers.store(it.iv, (x.swapped if ends.swap_in else x) * self.chirp.load(it.iv, numbers))
        with self.kernel.loop(points, whole, numbers.step) as it:
            numbers.store(it.iv, Complex(zero, zero))
        numbers = self.smooth(numbers, Ends())
        with self.kernel.loop(0, whole, numbers.step) as it:
            numbers.store(it.iv, numbers.load(it.iv) * self.weights.load(it.iv, numbers))
        numbers = self.smooth(numbers, Ends(swap_in=True, swap_out=True, scale=ends.scale))
        with self.kernel.loop(0, points, numbers.step) as it:
            x = numbers.load(it.iv) * self.chirp.load(it.iv, numbers)
            numbers.store(it.iv, x.swapped if ends.swap_out else x)
        return numbers


def _chirp(lengths: Lengths) -> tuple[np.ndarray, np.ndarray]:
    """``w^(t^2)``, and the transform of ``w^(-t^2)`` with the divisor that two transforms of a convolution leave."""
    points, whole = lengths.points, lengths.smooth
    chirp = np.exp(-1j * np.pi * (np.arange(points) ** 2 % (2 * points)) / points)
    weights = np.zeros(whole, complex)
    weights[:points] = chirp.conj()
    weights[whole - points + 1 :] = chirp[:0:-1].conj()
    return chirp, np.fft.fft(weights) / whole
