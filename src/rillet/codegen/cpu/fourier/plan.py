"""How a transform is computed: as a complex transform of how many points, by which passes, on how many lanes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from torch_mlir import ir

from rillet.codegen.cpu.machine import SCRATCH_BYTES, CpuTarget
from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.ir.dtypes import storage_bytes
from rillet.ir.fourier import Fourier, marked
from rillet.ir.rewrite import defining
from rillet.ir.structured import Structured

_PRIMES = (3, 5, 7, 11, 13)


@dataclass(frozen=True)
class Lengths:
    """A complex transform of ``points``."""

    points: int

    @cached_property
    def chirped(self) -> bool:
        """Whether the length has a large prime factor, so that a convolution of a smooth length replaces it."""
        return not _is_smooth(self.points)

    @cached_property
    def smooth(self) -> int:
        """The length that the passes have."""
        if not self.chirped:
            return self.points
        least = 2 * self.points - 1
        return next(n for n in range(least, 2 * least) if _is_smooth(n, _PRIMES[:2]))

    @cached_property
    def passes(self) -> tuple[tuple[int, int], ...]:
        """For each pass: the points that a transform of it still has, and the radix."""
        found, n = [], self.smooth
        for radix in _radices(self.smooth):
            found.append((n, radix))
            n //= radix
        return tuple(found)

    def chirp(self) -> tuple[np.ndarray, np.ndarray]:
        """``w^(t^2)``, and the transform of ``w^(-t^2)`` with the factor that two transforms of a convolution leave."""
        squares = np.arange(self.points) ** 2 % (2 * self.points)
        chirp = np.exp(-1j * np.pi * squares / self.points)
        filter_ = np.zeros(self.smooth, complex)
        filter_[: self.points] = chirp.conj()
        filter_[self.smooth - self.points + 1 :] = chirp[:0:-1].conj()
        return chirp, np.fft.fft(filter_) / self.smooth


@dataclass(frozen=True)
class FourierPlan:
    """``value``: the number of the source in the body, which depends on its inputs only."""

    root: Structured
    value: ir.Value
    of: Fourier
    lengths: Lengths
    halved: bool  # the real side's numbers are taken as complex ones, half as many
    lanes: int  # rows that are transformed side by side
    room: int  # complex numbers of a workspace, for each lane


def make_plan(function: KernelFunction, target: CpuTarget) -> FourierPlan | None:
    """A plan for a kernel that is one transform."""
    if len(function.generics) != 1 or len(function.results) != 1:
        return None
    (root,) = function.generics
    of = marked(root.op)
    if of is None or function.results[0].value != root.results[0]:
        return None
    value = _value(root)
    if value is None:
        return None
    is_real = of.source == "real" or of.result == "real"
    halved = is_real and of.length % 2 == 0
    lengths = Lengths(of.length // 2 if halved else of.length)
    element = ir.RankedTensorType(root.results[0].type).element_type
    lanes = target.machine.lanes(element.width)  # type: ignore[attr-defined]
    room = max(lengths.smooth, of.length if halved and of.result == "complex" else 0) + 1
    while lanes > 1 and 4 * room * lanes * storage_bytes(element) > SCRATCH_BYTES:
        lanes //= 2
    return FourierPlan(root, value, of, lengths, halved, lanes, room)


def _value(root: Structured) -> ir.Value | None:
    """The factor of the body's product that no ``linalg.index`` goes into."""
    total = defining(root.yielded()[0])
    product = None if total is None else defining(total.operands[1])
    if product is None or product.name != "arith.mulf":
        return None
    factors = [f for f in product.operands if not _reads_index(f)]
    return factors[0] if len(factors) == 1 else None


def _reads_index(value: ir.Value) -> bool:
    op = defining(value)
    return op is not None and (op.name == "linalg.index" or any(map(_reads_index, op.operands)))


def _is_smooth(n: int, primes: tuple[int, ...] = _PRIMES) -> bool:
    for prime in (2, *primes):
        while n % prime == 0:
            n //= prime
    return n == 1


def _radices(n: int) -> list[int]:
    """Factors: fours, an eight or a two among the first, then odd primes."""
    found = []
    twos = (n & -n).bit_length() - 1
    odd = n >> twos
    if twos % 2:
        found.append(8 if twos > 1 else 2)
        twos -= 3 if twos > 1 else 1
    found += [4] * (twos // 2)
    for prime in _PRIMES:
        while odd % prime == 0:
            found.append(prime)
            odd //= prime
    return found or [1]
