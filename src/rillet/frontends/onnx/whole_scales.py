"""Resizing an axis of unknown extent by a whole number: each element becomes ``scale`` results, by the same formula.

Result ``y`` reads element ``(y + b) floordiv scale``, or some of these with weights that ``y mod scale`` tells. A map
can say so without a ``tensor.extract``: it takes any layout, is read in vectors and joins other operations. Where all
extents are known, ``optimize/contractions/gathers_as_windows.py`` finds the same from the positions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from torch_mlir import ir

from rillet.frontends.building import element_types
from rillet.frontends.building.builder import Builder
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.scalars import Scalar
from rillet.frontends.building.tensor import Tensor
from rillet.ir.builders import Expr, dims

_HALF = Fraction(1, 2)
_ROUNDING: dict[str, Callable[[Fraction], int]] = {
    "round_prefer_floor": lambda v: math.ceil(v - _HALF),
    "round_prefer_ceil": lambda v: math.floor(v + _HALF),
    "floor": math.floor,
    "ceil": math.ceil,
}


@dataclass(frozen=True)
class Tap:
    """An element that result ``y`` reads: at ``(y + shift) floordiv scale``, with ``weights[y mod scale]``."""

    shift: int
    low: int  # elements before the first one that are read, where the first one stands for them
    high: int  # elements after the last one
    weights: tuple[float, ...]


def taps_of(coordinates: str, scale: int, rounding: str | None) -> tuple[Tap, ...]:
    """What each result reads: the nearest element, or where ``rounding`` is None two, weighted linearly. Nothing where
    ``coordinates`` (a coordinate_transformation_mode) depend on the extent.

    In exact numbers; those of the first element tell all, since those of the next are a whole number further.
    """
    if coordinates == "asymmetric":
        places = [Fraction(y, scale) for y in range(scale)]
    elif coordinates in ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric") and scale > 1:
        places = [Fraction(2 * y + 1, 2 * scale) - _HALF for y in range(scale)]
    else:
        return ()
    if rounding is not None:
        return (_tap([_ROUNDING[rounding](place) for place in places], scale, [1.0] * scale),)
    base = [math.floor(place) for place in places]
    upper = [float(place - low) for place, low in zip(places, base, strict=True)]
    return _tap(base, scale, [1.0 - w for w in upper]), _tap([n + 1 for n in base], scale, upper)


def _tap(positions: Sequence[int], scale: int, weights: Sequence[float]) -> Tap:
    """Positions do not fall, and their next round is one further: they are the multiples of ``scale`` passed."""
    first = positions[0]
    shift = first * scale + sum(n > first for n in positions)
    assert [(y + shift) // scale for y in range(scale)] == list(positions)
    return Tap(shift, max(0, -first), max(0, positions[-1]), tuple(weights))


def resized(b: Builder, x: Tensor, axis: int, taps: Sequence[Tap]) -> Tensor:
    """``x`` with as many times the extent along ``axis`` as taps have weights; the edges stand for what lies
    outside."""
    scale = len(taps[0].weights)
    low, high = max(tap.low for tap in taps), max(tap.high for tap in taps)
    shape = [b.extents.mul(e, scale) if n == axis else e for n, e in enumerate(x.shape)]
    loops, place = dims(x.rank), ir.AffineDimExpr.get(axis)
    weighted, compute = len(taps) > 1, element_types.compute_dtype(x.dtype)
    source = _extended(b, x, axis, low, high)
    inputs: list[tuple[Tensor, list[Expr]]] = []
    for tap in taps:
        maps: list[Expr] = [*loops]
        maps[axis] = ir.AffineExpr.get_floor_div(place + (tap.shift + low * scale), scale)
        inputs.append((source, maps))
    if weighted:
        phase: Expr = ir.AffineExpr.get_mod(place, scale)
        inputs += [(b.constant(tap.weights, compute), [phase]) for tap in taps]

    def body(*values: Scalar) -> Scalar:
        if not weighted:
            return values[0]
        elements, weights = values[: len(taps)], values[len(taps) : 2 * len(taps)]
        first, second = (w * convert(v, compute) for v, w in zip(elements, weights, strict=True))
        return first + second

    output = (b.empty(x.dtype, shape), loops, x.dtype, shape)
    (result,) = b.generic(inputs, [output], "p" * x.rank, body)
    return result


def _extended(b: Builder, x: Tensor, axis: int, low: int, high: int) -> Tensor:
    """``x`` with copies of its edges; an axis without elements stays so."""
    size = x.shape[axis]
    edge = b.extents.minimum(size, 1)
    first = b.slice_axis(x, axis, 0, edge)
    last = b.slice_axis(x, axis, b.extents.sub(size, edge), edge)
    return b.concat([*[first] * low, x, *[last] * high], axis) if low or high else x
