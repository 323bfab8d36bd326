"""Resizing in all its modes, and sampling at computed places."""

from __future__ import annotations

import numpy as np

from tests.fuzz.maker import Maker, Stuck, Value
from tests.fuzz.ops.registry import applies

_COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric", "align_corners")
_NEAREST = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")


@applies(1.5)
def resize_to_sizes(g: Maker) -> None:
    x = _finite(g, 3, 5)
    spatial = [int(d) for d in x.dims[2:] if isinstance(d, int)]
    if 0 in x.dims or len(spatial) != x.rank - 2:
        raise Stuck
    mode = g.one_of(["nearest", "linear", "cubic"])
    if mode == "cubic" and x.rank != 4:
        raise Stuck
    attributes: dict = {"mode": mode, "coordinate_transformation_mode": g.one_of(_COORDINATES)}
    if mode == "nearest":
        attributes["nearest_mode"] = g.one_of(_NEAREST)
    if mode == "cubic":
        attributes["cubic_coeff_a"] = g.one_of([-0.75, -0.5])
        attributes["exclude_outside"] = g.integer(0, 1)
    sizes = [g.integer(1, 2 * d + 1) for d in spatial]
    axes = list(range(2, x.rank))
    if all(isinstance(d, int) for d in x.dims) and g.chance(0.5):
        sizes, axes = [*map(int, x.dims[:2]), *sizes], []  # type: ignore[arg-type]
    else:
        attributes["axes"] = axes
    if mode != "nearest" and g.chance(0.2) and attributes["coordinate_transformation_mode"] == "half_pixel":
        attributes["antialias"] = 1
    g.add("Resize", [x, "", "", g.ints(*sizes)], **attributes)


@applies(0.7)
def crop_and_resize(g: Maker) -> None:
    x = _finite(g, 4, 4)
    if x.dtype != "float32" or not x.static or not x.elements:
        raise Stuck
    low, high = (g.rng.uniform(a, b, 2) for a, b in ((-0.2, 0.4), (0.6, 1.2)))
    roi = g.constant(np.array([0, 0, *low, 1, 1, *high], np.float32))
    sizes = g.ints(*map(int, x.dims[:2]), g.integer(1, 8), g.integer(1, 8))  # type: ignore[arg-type]
    g.add(
        "Resize",
        [x, roi, "", sizes],
        mode=g.one_of(["nearest", "linear"]),
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=g.one_of([0.0, 3.0]),
    )


@applies(1)
def grid_sample(g: Maker) -> None:
    x = _finite(g, 4, 4)
    if g.opset < 20 or x.dtype != "float32" or 0 in x.dims:
        raise Stuck
    grid = g.data("float32", (x.dims[0], g.integer(1, 4), g.integer(1, 4), 2))
    g.add(
        "GridSample",
        [x, grid],
        mode=g.one_of(["linear", "nearest", "cubic"]),
        padding_mode=g.one_of(["zeros", "border", "reflection"]),
        align_corners=g.integer(0, 1),
    )


def _finite(g: Maker, low: int, high: int) -> Value:
    """The reference evaluator multiplies what it does not take by zero."""
    return g.bounded(g.floating(low, high), 1000)
