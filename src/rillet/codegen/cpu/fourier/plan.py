"""How a transform is computed: as a complex transform of how many points, by which passes, on how many lanes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from torch_mlir import ir

from rillet.codegen.cpu.machine import SCRATCH_BYTES, CpuTarget
from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.ir.dtypes import storage_bytes
from rillet.ir.fourier import Fourier, marked
from rillet.ir.rewrite import defining
from rillet.ir.structured import DYNAMIC, Structured

_PRIMES = (3, 5, 7, 11, 13)
_WITHIN_ROWS = 1.25  # the time of a row that is vectorized within, to that of a row beside others


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


@dataclass(frozen=True)
class Matrix:
    """A row as a matrix whose columns and rows are transformed: see ``columns``."""

    rows: int
    columns: int


@dataclass(frozen=True)
class FourierPlan:
    """``value``: the number of the source in the body, which depends on its inputs only."""

    root: Structured
    value: ir.Value
    of: Fourier
    lengths: Lengths
    halved: bool  # the real side's numbers are taken as complex ones, half as many
    lanes: int
    room: int  # complex numbers of a row
    matrix: Matrix | None  # of one row at a time; None: as many rows side by side as there are lanes


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
    room = max(lengths.smooth + (halved and of.source == "half"), root.extents[-2] // 2 if halved else 0)
    rows = math.prod(root.extents[:-2]) if DYNAMIC not in root.extents[:-2] else None
    number_bytes = 2 * storage_bytes(element)
    matrix = _matrix(lengths.smooth, lanes)
    if matrix is not None:
        together = -(-rows // lanes) * lanes if rows is not None else None
        wastes = rows is not None and together is not None and together > _WITHIN_ROWS * rows
        spills = 2 * room * lanes * number_bytes > target.machine.l2_bytes
        if not wastes and not spills:
            matrix = None
    if matrix is None and rows is not None:
        while lanes > 1 and lanes >= 2 * rows:
            lanes //= 2
    while matrix is None and lanes > 1 and 2 * room * lanes * number_bytes > SCRATCH_BYTES:
        lanes //= 2
    return FourierPlan(root, value, of, lengths, halved, lanes, room, matrix)


def passes_of(length: int) -> list[tuple[int, int]]:
    """For each pass of a smooth length: the points that a transform of it still has, and the radix."""
    found, n = [], length
    for radix in _radices(length):
        found.append((n, radix))
        n //= radix
    return found


def _matrix(length: int, lanes: int) -> Matrix | None:
    """The matrix of a smooth length that takes the least work; None for lengths that do not fill vectors."""
    if lanes == 1 or length < lanes * lanes:
        return None

    def work(rows: int) -> float:
        columns = length // rows
        return sum(
            -(-across // lanes) * lanes * along * (1 + len(passes_of(along)))
            for across, along in ((columns, rows), (rows, columns))
        )

    divisors = [n for n in range(lanes, length // 2 + 1) if length % n == 0]
    return Matrix(best, length // best) if (best := min(divisors, key=work, default=None)) else None


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
    """Factors: an eight or a two where fours leave one, fours, then odd primes."""
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
    return found
