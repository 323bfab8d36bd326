"""GridSample, RoiAlign, MaxRoiPool, DeformConv: reads at coordinates that come from data."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir

from rillet.frontends.building import element_types
from rillet.frontends.building.contraction import contract
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.interpolation import (
    clamp,
    cubic_kernel,
    interpolate,
    linear_kernel,
    reflect,
    to_position,
    zero_outside,
)
from rillet.frontends.building.loops import for_each, for_range, scalar_of, store
from rillet.frontends.building.scalars import Scalar, ceil, constant, floor, maximum, minimum, roundeven, select
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.registry import op
from rillet.frontends.onnx.windows import window_of
from rillet.ir.builders import Extent

_MODES = {"bilinear": "linear", "bicubic": "cubic", "linear": "linear", "cubic": "cubic", "nearest": "nearest"}


@op("GridSample", since=16)
def grid_sample(node: Node, x: Tensor, grid: Tensor) -> Tensor:
    """x [N, C, spatial...] read at grid [N, out..., rank] of coordinates in -1..1, the last dimension first.

    Raises InvalidNode for unknown modes and a grid of another rank.
    """
    return sample_at(node, x, grid, moves_points=True)


def sample_at(node: Node, x: Tensor, grid: Tensor, moves_points: bool) -> Tensor:
    """See ``grid_sample``. Padding moves points outside into x where ``moves_points``; otherwise it moves only the
    positions that a cubic kernel reads, and the weights are those of the point outside.
    """
    b = node.b
    mode = _MODES.get(node.attr("mode", "linear"))
    padding = node.attr("padding_mode", "zeros")
    if mode is None or padding not in ("zeros", "border", "reflection"):
        raise InvalidNode(f"mode '{node.attr('mode', 'linear')}' with padding_mode '{padding}' is not known")
    rank = x.rank - 2
    if grid.rank != x.rank or (isinstance(grid.shape[-1], int) and grid.shape[-1] != rank):
        raise InvalidNode(f"a grid of rank {grid.rank} does not fit an input of rank {x.rank}")
    inner: list[Extent | None] = [None] * rank
    grid = b.refine(grid, [x.shape[0], *inner, rank], "grid")
    corners = bool(node.attr("align_corners", 0))
    shape = [x.shape[0], x.shape[1], *grid.shape[1:-1]]
    nothing = b.extents.compare("eq", b.extents.product(shape), 0)
    for size in x.shape[2:]:
        b.require("ge", size, 1, "an input of {0} positions has nothing to sample; at least {1} is needed", nothing)
    compute = element_types.compute_dtype(x.dtype)
    source, places = b.value(x), b.value(grid)
    extents = [scalar_of(d) for d in x.shape[2:]]

    def body(at: list[Scalar]) -> Scalar:
        sizes = [convert(convert(d, "int64"), compute) for d in extents]
        if corners:
            borders = [(constant(0.0, compute), s - 1.0) for s in sizes]
        else:
            borders = [(constant(-0.5, compute), s - 0.5) for s in sizes]

        def inside(value: Scalar, axis: int) -> Scalar:
            """A coordinate moved inside where the padding mode says so."""
            if padding == "zeros":
                return value
            low, high = borders[axis]
            # Up to the border, half a pixel beyond the last one, a coordinate stays: cubic weights show the difference.
            clamped = minimum(maximum(value, 0.0), sizes[axis] - 1.0)
            moved = clamped if padding == "border" else reflect(value, low, high)
            return select((value < low) | (value > high), moved, value)

        coordinates = []
        for axis in range(rank):
            n = convert(b.element(places, grid.dtype, [at[0], *at[2:], rank - 1 - axis]), compute)
            size = sizes[axis]
            value = (n + 1.0) * 0.5 * (size - 1.0) if corners else ((n + 1.0) * size - 1.0) * 0.5
            if mode != "cubic" or moves_points:
                value = inside(roundeven(value) if mode == "nearest" else value, axis)
            coordinates.append(value)

        def read(positions: Sequence[Scalar]) -> Scalar:
            if padding != "zeros":
                positions = [inside(p, axis) for axis, p in enumerate(positions)]
            whole = [to_position(p) for p in positions]
            return zero_outside(lambda p: b.element(source, x.dtype, [at[0], at[1], *p]), whole, extents)

        if mode == "nearest":
            return read(coordinates)
        if mode == "linear":
            return interpolate(coordinates, (0, 1), linear_kernel, read)
        return interpolate(coordinates, (-1, 0, 1, 2), lambda d: cubic_kernel(d, -0.75), read)

    return b.indexed(x.dtype, shape, body)


@op("RoiAlign", since=10)
def roi_align(node: Node, x: Tensor, rois: Tensor, batch_indices: Tensor) -> Tensor:
    """Averages (or maxima) over a grid of bilinear samples in each bin of each region.

    Raises InvalidNode for an unknown mode.
    """
    b = node.b
    x, rois = b.refine(x, [None] * 4, "X"), b.refine(rois, [None, 4], "rois")
    batch_indices = b.refine(batch_indices, rois.shape[:1], "batch_indices")
    if node.attr("mode", "avg") not in ("avg", "max"):
        raise InvalidNode(f"mode '{node.attr('mode')}' is not one of avg, max")
    height, width = node.attr("output_height", 1), node.attr("output_width", 1)
    ratio = node.attr("sampling_ratio", 0)
    scale = float(node.attr("spatial_scale", 1.0))
    half_pixel = node.opset >= 16 and node.attr("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    maximal = node.attr("mode", "avg") == "max"
    compute = element_types.compute_dtype(x.dtype)
    source, regions, batches = b.value(x), b.value(rois), b.value(batch_indices)
    extents = [scalar_of(d) for d in x.shape[2:]]

    def body(at: list[Scalar], result: ir.Value) -> ir.Value:
        n, c, *bins = at
        batch = convert(b.element(batches, batch_indices.dtype, [n]), "index")
        offset = 0.5 if half_pixel else 0.0

        def corner(number: int) -> Scalar:
            return convert(b.element(regions, rois.dtype, [n, number]), compute) * scale - offset

        starts, steps, counts = [], [], []
        for first, last, size in ((corner(1), corner(3), height), (corner(0), corner(2), width)):
            length = last - first if half_pixel else maximum(last - first, 1.0)
            starts.append(first)
            steps.append(length / float(size))
            counts.append(constant(ratio, "index") if ratio > 0 else to_position(maximum(ceil(length / size), 0.0)))
        grids = [convert(convert(count, "int64"), compute) for count in counts]

        def sample(i: Scalar, j: Scalar, total: ir.Value) -> ir.Value:
            places = [
                start
                + convert(convert(bin_, "int64"), compute) * step
                + (convert(convert(k, "int64"), compute) + 0.5) * step / grid
                for start, bin_, step, k, grid in zip(starts, bins, steps, (i, j), grids, strict=True)
            ]
            terms = _corners(node, x, source, [batch, c], places, extents)
            known = Scalar(total, compute)
            if not maximal:
                return (known + terms[0] + terms[1] + terms[2] + terms[3]).value
            best = maximum(maximum(terms[0], terms[1]), maximum(terms[2], terms[3]))
            first = (i == 0) & (j == 0)
            return select(first, best, maximum(known, best)).value

        def rows(i: Scalar, total: ir.Value) -> ir.Value:
            return for_range(0, counts[1], [total], lambda j, inner: sample(i, j, inner))[0]

        total = Scalar(for_range(0, counts[0], [constant(0.0, compute).value], rows)[0], compute)
        if not maximal:
            total = total / maximum(grids[0] * grids[1], 1.0)
        return store(total, x.dtype, result, at)

    shape = [rois.shape[0], x.shape[1], height, width]
    return b.tensor(for_each(shape, [b.empty(x.dtype, shape)], body)[0], x.dtype, shape)


def _corners(
    node: Node,
    x: Tensor,
    source: ir.Value,
    lead: Sequence[Scalar],
    places: Sequence[Scalar],
    extents: Sequence[Scalar],
) -> list[Scalar]:
    """The four weighted neighbours of a sample; all zero when it lies more than one element outside."""
    b = node.b
    inside = constant(True, "bool")
    pairs = []
    for place, extent in zip(places, extents, strict=True):
        size = convert(convert(extent, "int64"), place.dtype)
        inside = inside & (place >= -1.0) & (place <= size)
        at = minimum(maximum(place, 0.0), size - 1.0)
        low = floor(at)
        fraction = at - low
        first = to_position(low)
        pairs.append(((first, 1.0 - fraction), (clamp(first + 1, extent), fraction)))
    result = []
    for y, wy in pairs[0]:
        for x_, wx in pairs[1]:
            value = b.element(source, x.dtype, [*lead, y, x_]) * (wy * wx)
            result.append(select(inside, value, 0.0))
    return result


@op("MaxRoiPool")
def max_roi_pool(node: Node, x: Tensor, rois: Tensor) -> Tensor:
    """The maximum of each bin of each region; regions are rows (batch, x1, y1, x2, y2), empty bins give 0."""
    b = node.b
    height, width = node.attr("pooled_shape")
    scale = float(node.attr("spatial_scale", 1.0))
    compute = element_types.compute_dtype(x.dtype)
    source, regions = b.value(x), b.value(rois)
    extents = [scalar_of(d) for d in x.shape[2:]]

    def body(at: list[Scalar], result: ir.Value) -> ir.Value:
        n, c, *bins = at

        def corner(number: int) -> Scalar:
            value = convert(b.element(regions, rois.dtype, [n, number]), compute)
            return floor(value * scale + 0.5) if number else value

        batch = to_position(corner(0))
        ranges = []
        edges = ((corner(2), corner(4), height), (corner(1), corner(3), width))
        for (first, last, size), bin_, extent in zip(edges, bins, extents, strict=True):
            step = maximum(last - first + 1.0, 1.0) / float(size)
            number = convert(convert(bin_, "int64"), compute)
            low = to_position(floor(number * step) + first)
            high = to_position(ceil((number + 1.0) * step) + first)
            ranges.append((maximum(minimum(low, extent), 0), maximum(minimum(high, extent), 0)))
        (top, bottom), (left, right) = ranges

        def visit(i: Scalar, j: Scalar, best: ir.Value) -> ir.Value:
            value = b.element(source, x.dtype, [batch, c, i, j])
            first = (i == top) & (j == left)
            return select(first, value, maximum(Scalar(best, compute), value)).value

        def rows(i: Scalar, best: ir.Value) -> ir.Value:
            return for_range(left, right, [best], lambda j, inner: visit(i, j, inner))[0]

        best = for_range(top, bottom, [constant(0.0, compute).value], rows)[0]
        return store(Scalar(best, compute), x.dtype, result, at)

    shape = [rois.shape[0], x.shape[1], height, width]
    return b.tensor(for_each(shape, [b.empty(x.dtype, shape)], body)[0], x.dtype, shape)


@op("DeformConv", since=19)
def deform_conv(
    node: Node, x: Tensor, weights: Tensor, offset: Tensor, bias: Tensor | None = None, mask: Tensor | None = None
) -> Tensor:
    """A convolution whose taps are moved by ``offset`` and weighted by ``mask``: bilinear columns, then a product.

    Raises InvalidNode for another rank than 4, and UnsupportedFeature for a kernel of unknown size.
    """
    b, e = node.b, node.b.extents
    if x.rank != 4:
        raise InvalidNode(f"the input has rank {x.rank}; it must be [N, C, H, W]")
    group, offset_group = node.attr("group", 1), node.attr("offset_group", 1)
    kernel = node.attr("kernel_shape", None) or weights.shape[2:]
    if not all(isinstance(k, int) for k in kernel):
        raise UnsupportedFeature("a kernel whose size is not known at compile time", "give kernel_shape")
    weights = b.refine(weights, [*weights.shape[:2], *kernel], "W")
    window = window_of(node, x.shape[2:], kernel)
    pads, strides, dilations, out = window.low, window.strides, window.dilations, window.out
    taps = kernel[0] * kernel[1]
    per_offset_group = e.floordiv(x.shape[1], offset_group)
    b.agree(x.shape[1], e.mul(per_offset_group, offset_group), f"{{0}} channels do not divide into {offset_group}")
    offset = b.refine(offset, [x.shape[0], offset_group * taps * 2, *out], "offset")
    moves = b.value(b.reshape(offset, [x.shape[0], offset_group, taps, 2, *out]))
    weighting = None
    if mask is not None:
        mask = b.refine(mask, [x.shape[0], offset_group * taps, *out], "mask")
        weighting = b.value(b.reshape(mask, [x.shape[0], offset_group, taps, *out]))
    source = b.value(x)
    compute = element_types.compute_dtype(x.dtype)
    extents = [scalar_of(d) for d in x.shape[2:]]

    def column(at: list[Scalar]) -> Scalar:
        n, c, tap, *place = at
        block = c // scalar_of(per_offset_group)
        within = [tap // kernel[1], tap % kernel[1]]
        coordinates = []
        for axis in range(2):
            fixed = place[axis] * strides[axis] + within[axis] * dilations[axis] - scalar_of(pads[axis])
            move = convert(b.element(moves, offset.dtype, [n, block, tap, axis, *place]), compute)
            coordinates.append(convert(convert(fixed, "int64"), compute) + move)

        def read(positions: Sequence[Scalar]) -> Scalar:
            whole = [to_position(p) for p in positions]
            return zero_outside(lambda p: b.element(source, x.dtype, [n, c, *p]), whole, extents)

        value = interpolate(coordinates, (0, 1), linear_kernel, read)
        if weighting is not None and mask is not None:
            value = value * b.element(weighting, mask.dtype, [n, block, tap, *place])
        return value

    columns = b.indexed(x.dtype, [x.shape[0], x.shape[1], taps, *out], column)
    channels, depth = weights.shape[0], weights.shape[1]
    columns = b.reshape(columns, [x.shape[0], group, depth, taps, *out])
    matrix = b.reshape(weights, [group, e.floordiv(channels, group), depth, taps])
    result = contract(b, ["ngckhw", "gmck"], "ngmhw", [columns, matrix], compute)
    result = b.reshape(result, [x.shape[0], channels, *out])
    if bias is None:
        return b.cast(result, x.dtype)
    return b.map_along(lambda v, o: v + o, result.shape, (result, range(4)), (bias, [1]), dtype=x.dtype)
