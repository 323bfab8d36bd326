"""Which convolutions gain from Winograd's algorithm, and its transform of their weights.

Two neighbouring results of a window of three take four products instead of six, once image and weights are transformed
(Winograd, Arithmetic Complexity of Computations, 1980; Lavin and Gray, Fast Algorithms for Convolutional Neural
Networks, 2016).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from torch_mlir import ir

from rillet.dialects.flow import WINOGRAD_INPUTS, WINOGRAD_OUTPUTS, WINOGRAD_WINDOW
from rillet.ir.contraction import Contraction, contraction
from rillet.ir.linear import linear
from rillet.ir.structured import DYNAMIC, Structured

_TRANSFORM = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])


@dataclass(frozen=True)
class Options:
    """Convolutions with fewer ``channels`` or ``columns`` spend too long on the transforms. Transformed weights take 16
    bytes for 9. More than ``bytes`` of them are made only where ``tiles`` of the image repay it, fewer from ``few``
    tiles on."""

    channels: int = 16
    columns: int = 16
    tiles: int = 24
    few: int = 4
    bytes: int = 1 << 20


def gains(view: Structured, options: Options) -> bool:
    """Whether this is a large enough convolution of floats, with windows of three at every position and channels that
    lie last."""
    roles = contraction(view)
    if roles is None or not roles.is_convolution or len(roles.n) != 1 or len(view.inputs) != 2:
        return False
    extents, image = view.extents, view.maps[roles.lhs]
    types = [argument.type for argument in view.body.arguments]
    if any(t != ir.F32Type.get() for n, t in enumerate(types) if n != roles.rhs):
        return False
    if not isinstance(types[roles.rhs], ir.FloatType) or types[roles.rhs].width > 32:
        return False
    depths = [d for d in roles.k if extents[d] != 1]
    groups = [extents[d] for d in roles.batch if extents[d] != 1]
    if len(depths) != 1 or image[-1] != depths[0] or len(groups) > 1:
        return False
    depth, columns, along = extents[depths[0]], extents[roles.n[0]], lines(view, roles)
    if DYNAMIC in (depth, columns, *groups) or depth < options.channels or columns < options.columns or along is None:
        return False
    sizes = [math.ceil(extents[d] / WINOGRAD_OUTPUTS) if d in along else extents[d] for d in (*roles.image, *roles.m)]
    tiles = math.prod(size for size in sizes if size > 0)
    is_large = 4 * WINOGRAD_INPUTS ** len(along) * math.prod(groups) * depth * columns > options.bytes
    return any(extents[d] == DYNAMIC for d in (*roles.image, *roles.m)) or tiles >= (
        options.tiles if is_large else options.few
    )


def lines(view: Structured, roles: Contraction) -> list[int] | None:
    """The image loops along which windows of three move, one position after the other; None without such loops, or for
    a window of another kind."""
    extents, found = view.extents, []
    for expr in view.maps[roles.lhs]:
        form = linear(expr, view.loops)
        if isinstance(expr, int) or form is None:
            continue
        window = [d for d in form.among(roles.window) if extents[d] != 1]
        outer = form.among(roles.image)
        if not window:
            continue
        if (
            len(window) != 1
            or len(outer) != 1
            or extents[window[0]] != WINOGRAD_WINDOW
            or {*form.terms.values()} != {1}
            or form.constant
        ):
            return None
        found.append(outer[0])
    return found or None


def transform(array: np.ndarray, axes: list[int]) -> np.ndarray:
    """``[groups.., N ceildiv P, K and window.., P]`` as ``[4 for each of axes.., groups * (N ceildiv P), K, P]``, where
    the other axes of the window have extent 1. ``axes`` are ascending.
    """
    result = array.astype(np.float64)
    for axis in axes:
        result = np.moveaxis(np.tensordot(_TRANSFORM, result, (1, axis)), 0, axis)
    result = np.moveaxis(result, axes, range(len(axes)))
    points, panel = result.shape[: len(axes)], result.shape[-1]
    depth = next((extent for extent in reversed(result.shape[len(axes) : -1]) if extent != 1), 1)
    return np.ascontiguousarray(result.reshape(*points, -1, depth, panel), np.float32)
