"""Interpolation shared by Resize, GridSample, RoiAlign and DeformConv: kernels, borders and multilinear reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

from rillet.frontends.building import scalars
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.scalars import Scalar, constant, floor, maximum, minimum, select

Read = Callable[[Sequence[Scalar]], Scalar]


def linear_kernel(distance: Scalar) -> Scalar:
    """The triangle: 1 - |d| within one element, else 0."""
    return maximum(1.0 - scalars.absolute(distance), 0.0)


def cubic_kernel(distance: Scalar, a: float) -> Scalar:
    """Keys' cubic convolution kernel with parameter ``a``; zero from a distance of 2 on."""
    d = scalars.absolute(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1.0
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return select(d <= 1.0, near, select(d < 2.0, far, 0.0))


def to_position(value: Scalar) -> Scalar:
    """A whole number held in a float as an index."""
    return convert(convert(value, "int64"), "index")


def clamp(position: Scalar, extent: Scalar) -> Scalar:
    """The nearest position inside a dimension."""
    return minimum(maximum(position, 0), extent - 1)


def reflect(x: Scalar, low: Scalar, high: Scalar) -> Scalar:
    """Fold a coordinate back into ``low..high``, mirrored at both ends as often as needed."""
    span = high - low
    distance = scalars.absolute(x - low)
    turns = floor(distance / span)
    rest = distance - turns * span
    is_even = floor(turns * 0.5) * 2.0 == turns
    folded = select(is_even, low + rest, high - rest)
    return select(span > 0.0, folded, low)


def interpolate(
    coordinates: Sequence[Scalar], taps: Sequence[int], kernel: Callable[[Scalar], Scalar], read: Read
) -> Scalar:
    """The separable weighted sum over the elements at ``floor(coordinate) + tap`` along every dimension.

    ``read`` gets the whole positions as float scalars and decides what lies outside.
    """
    bases = [floor(c) for c in coordinates]
    along = []
    for coordinate, base in zip(coordinates, bases, strict=True):
        positions = [base + float(tap) for tap in taps]
        along.append([(p, kernel(coordinate - p)) for p in positions])
    total: Scalar | None = None
    for chosen in product(*along):
        weight = chosen[0][1]
        for _, other in chosen[1:]:
            weight = weight * other
        term = read([p for p, _ in chosen]) * weight
        total = term if total is None else total + term
    assert total is not None
    return total


def zero_outside(read: Read, positions: Sequence[Scalar], extents: Sequence[Scalar]) -> Scalar:
    """The element at positions (index scalars), zero where one of them is outside of its dimension."""
    inside: Scalar = constant(True, "bool")
    for p, extent in zip(positions, extents, strict=True):
        inside = inside & (p >= 0) & (p < extent)
    value = read([clamp(p, extent) for p, extent in zip(positions, extents, strict=True)])
    return select(inside, value, 0)
