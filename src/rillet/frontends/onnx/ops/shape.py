"""Ops that move data or change shapes only."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from rillet.frontends.building import scalars
from rillet.frontends.building.scalars import Scalar, constant, maximum, minimum, select
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.branches import DivergingBranches
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.registry import op
from rillet.ir.builders import Extent


@op("Reshape", until=4)
def reshape_attribute(node: Node, x: Tensor) -> Tensor:
    """Reshape before opset 5, with its shape in an attribute."""
    return _reshape(node, x, list(node.attr("shape")))


@op("Reshape", since=5, ignores=["allowzero"])
def reshape(node: Node, x: Tensor, shape: Tensor) -> Tensor:
    """The elements of x in row-major order under another shape.

    A 0 copies the dimension at its place (unless ``allowzero``); one -1 is inferred from the element count. Raises
    InvalidNode for a shape that the elements cannot fill.
    """
    target = node.b.extents_of(shape, "the shape", node.declared_rank(0))
    if shape.array is None and shape.elements is None:
        target = _resolve_at_run_time(node, x, target)
    return _reshape(node, x, target)


def _resolve_at_run_time(node: Node, x: Tensor, target: Sequence[Extent]) -> list[Extent]:
    """Replace the 0 and -1 that a shape read from data may hold, as ``_reshape`` does for a known one."""
    e = node.b.extents
    dims: list[Extent] = []
    for axis, d in enumerate(target):
        copies = axis < x.rank and not node.attr("allowzero", 0)
        dims.append(e.select(e.compare("eq", d, 0), x.shape[axis], d) if copies else d)
    inferred = [e.compare("eq", d, -1) for d in dims]
    rest = e.product(e.select(flag, 1, d) for flag, d in zip(inferred, dims, strict=True))
    # A zero-size tensor has no dimension left to infer; dividing by at least 1 keeps the division defined.
    left = e.floordiv(e.product(x.shape), e.maximum(rest, 1))
    return [e.select(flag, left, d) for flag, d in zip(inferred, dims, strict=True)]


def _reshape(node: Node, x: Tensor, target: Sequence[Extent]) -> Tensor:
    """0 copies the dimension at the same place (unless ``allowzero``), -1 is inferred from the element count."""
    e = node.b.extents
    if sum(1 for d in target if isinstance(d, int) and d == -1) > 1:
        raise InvalidNode(f"the shape {[d if isinstance(d, int) else '?' for d in target]} has more than one -1")
    dims: list[Extent] = []
    for axis, d in enumerate(target):
        if isinstance(d, int) and d == 0 and not node.attr("allowzero", 0):
            if axis >= x.rank:
                raise InvalidNode(f"dimension {axis} of the shape is 0, but the input has rank {x.rank}")
            d = x.shape[axis]
        if isinstance(d, int) and d < -1:
            raise InvalidNode(f"the shape has a dimension of {d}")
        dims.append(d)
    unknown = [a for a, d in enumerate(dims) if isinstance(d, int) and d == -1]
    # A dimension computed from data could be -1 at run time; one computed from shapes cannot.
    if unknown:
        rest = e.product(d for a, d in enumerate(dims) if a != unknown[0])
        total = e.product(x.shape)
        if isinstance(rest, int) and isinstance(total, int) and rest and total % rest:
            raise InvalidNode(f"{total} elements do not fit the shape {dims}")
        # A zero-size tensor has no dimension left to infer; dividing by at least 1 keeps the division defined.
        upper, lower = e.reduced(total, rest)
        dims[unknown[0]] = 0 if rest == 0 else e.floordiv(upper, e.maximum(lower, 1))
    elif x.is_static and sum(1 for d in dims if not isinstance(d, int)) == 1:
        # Exactly one unknown dimension of a static tensor follows from the others.
        known = e.product(d for d in dims if isinstance(d, int))
        total = e.product(x.shape)
        if isinstance(known, int) and isinstance(total, int) and known:
            dims = [d if isinstance(d, int) else total // known for d in dims]
    return node.b.reshape(x, dims)


@op("Flatten")
def flatten(node: Node, x: Tensor) -> Tensor:
    """x as a matrix: the dimensions before ``axis`` become rows, the others columns.

    Raises InvalidNode for an axis out of range.
    """
    axis = node.attr("axis", 1)
    axis = axis + x.rank if axis < 0 else axis
    if not 0 <= axis <= x.rank:
        raise InvalidNode(f"axis {axis} is out of range for rank {x.rank}")
    e = node.b.extents
    return node.b.reshape(x, [e.product(x.shape[:axis]), e.product(x.shape[axis:])])


def axes_of(node: Node, axes: Tensor | None) -> list[int] | None:
    """Axes given as an attribute (before opset 13) or as an input."""
    if axes is not None:
        return [int(a) for a in node.b.known(axes, "axes").reshape(-1)]
    return node.attr("axes", None)


@op("Squeeze")
def squeeze(node: Node, x: Tensor, axes: Tensor | None = None) -> Tensor:
    """x without the dimensions ``axes`` of extent 1 (default: all such).

    Raises DivergingBranches when the axes are absent and x has dynamic extents.
    """
    given = axes_of(node, axes)
    if given is not None:
        return node.b.squeeze(x, node.axes(given, x.rank))
    ones = [axis for axis, extent in enumerate(x.shape) if extent == 1]
    unknown = [axis for axis, extent in enumerate(x.shape) if not isinstance(extent, int)]
    return _squeeze_ones(node, x, ones, unknown)[0]


def _squeeze_ones(node: Node, x: Tensor, ones: list[int], unknown: list[int]) -> list[Tensor]:
    """x without the dimensions ``ones``, and without those of ``unknown`` that are of extent 1."""
    if not unknown:
        return [node.b.squeeze(x, ones)]
    axis, *others = unknown
    flag = node.b.extents.compare("eq", x.shape[axis], 1)
    if isinstance(flag, bool):
        return _squeeze_ones(node, x, [*ones, axis] if flag else ones, others)
    raise DivergingBranches(
        "without axes, the result's rank depends on run-time dimensions",
        "give the axes",
        flag,
        (partial(_squeeze_ones, node, x, [*ones, axis], others), partial(_squeeze_ones, node, x, ones, others)),
        (f"without axes, dimension {axis} must be 1 here", f"without axes, dimension {axis} must not be 1 here"),
    )


@op("Unsqueeze")
def unsqueeze(node: Node, x: Tensor, axes: Tensor | None = None) -> Tensor:
    """x with dimensions of extent 1, which have the positions ``axes`` in the result.

    Raises InvalidNode when the axes are missing.
    """
    given = axes_of(node, axes)
    if given is None:
        raise InvalidNode("axes are missing")
    return node.b.unsqueeze(x, node.axes(given, x.rank + len(given)))


@op("Transpose")
def transpose(node: Node, x: Tensor) -> Tensor:
    """Dimension ``perm[i]`` of x as the result's dimension i (default: the order reversed).

    Raises InvalidNode unless ``perm`` is a permutation.
    """
    permutation = node.attr("perm", None)
    permutation = list(range(x.rank))[::-1] if permutation is None else permutation
    if sorted(permutation) != list(range(x.rank)):
        raise InvalidNode(f"perm {permutation} is not a permutation of {x.rank} dimensions")
    return node.b.transpose(x, permutation)


@op("Expand", since=8)
def expand(node: Node, x: Tensor, shape: Tensor) -> Tensor:
    """x broadcast with ``shape`` in both directions: a 1 in ``shape`` keeps the dimension of x."""
    rank = node.declared_rank(0)
    # The shape may have fewer dimensions than the result, but not than the input where it adds some.
    return node.b.broadcast_to(x, node.b.extents_of(shape, "the shape", rank if rank != x.rank else None))


@op("Tile", since=6)
def tile(node: Node, x: Tensor, repeats: Tensor) -> Tensor:
    """x repeated ``repeats[i]`` times along dimension i.

    Raises InvalidNode unless there is a number for each dimension.
    """
    b, e = node.b, node.b.extents
    counts = b.extents_of(repeats, "repeats", x.rank)
    if len(counts) != x.rank:
        raise InvalidNode(f"{len(counts)} repeats for rank {x.rank}")
    # [d] repeated r times is a broadcast of [1, d] to [r, d], seen as [r * d].
    spread: list[Extent] = []
    full: list[Extent] = []
    for count, extent in zip(counts, x.shape, strict=True):
        if count != 1:
            spread.append(1)
            full.append(count)
        spread.append(extent)
        full.append(extent)
    repeated = b.broadcast_exactly(b.reshape(x, spread), full)
    return b.reshape(repeated, [e.mul(r, d) for r, d in zip(counts, x.shape, strict=True)])


@op("Concat")
def concat(node: Node, *tensors: Tensor) -> Tensor:
    """The tensors, one after the other along ``axis``. Raises InvalidNode when their ranks differ."""
    if not tensors:
        raise InvalidNode("it has no inputs")
    axis = node.axis(node.attr("axis", 1) if node.opset < 4 else node.attr("axis"), tensors[0].rank)
    if any(t.rank != tensors[0].rank for t in tensors):
        raise InvalidNode(f"inputs of ranks {sorted({t.rank for t in tensors})} cannot be concatenated")
    return node.b.concat(tensors, axis)


@op("Split")
def split(node: Node, x: Tensor, sizes: Tensor | None = None) -> list[Tensor]:
    """x cut along ``axis`` into one part for each output.

    The sizes are an input (opset 13), an attribute, or equal; from opset 18 on the last of equal parts may be smaller.
    Raises InvalidNode when the sizes and the outputs differ in number.
    """
    b, e = node.b, node.b.extents
    axis = node.axis(node.attr("axis", 0), x.rank)
    extent = x.shape[axis]
    given: Sequence[Extent] | None
    given = b.extents_of(sizes, "split", node.output_count) if sizes is not None else node.attr("split", None)
    if given is None and node.opset >= 18:
        count = node.attr("num_outputs", node.output_count)
        chunk = e.ceildiv(extent, count)
        given = [chunk] * (count - 1) + [e.sub(extent, e.mul(chunk, count - 1))]
        b.require("ge", given[-1], 0, f"axis {axis} is too short to be split into {count}: the last part has {{0}}")
    elif given is None:
        chunk = e.floordiv(extent, node.output_count)
        given = [chunk] * node.output_count
    if len(given) != node.output_count:
        raise InvalidNode(f"{len(given)} sizes for {node.output_count} outputs")
    b.require("eq", e.sum(given), extent, f"the parts have {{0}} positions together, but axis {axis} has {{1}}")
    results: list[Tensor] = []
    offset: Extent = 0
    for size in given:
        results.append(b.slice_axis(x, axis, offset, size))
        offset = e.add(offset, size)
    return results


# --- Slice ---


@op("Slice", until=9)
def slice_attributes(node: Node, x: Tensor) -> Tensor:
    """Slice before opset 10, with its bounds in attributes and steps of 1."""
    starts, ends = node.attr("starts"), node.attr("ends")
    axes = node.attr("axes", None) or range(len(starts))
    return _slice(node, x, starts, ends, list(axes), [1] * len(starts))


@op("Slice", since=10)
def slice_(
    node: Node, x: Tensor, starts: Tensor, ends: Tensor, axes: Tensor | None = None, steps: Tensor | None = None
) -> Tensor:
    """x[start:end:step] along each of ``axes`` (default: the first ones), as Python slices.

    Only starts and ends may be known at run time. Raises InvalidNode for a step of 0, and for operands that are not
    vectors or differ in length.
    """
    b = node.b
    for name, operand in (("starts", starts), ("ends", ends), ("axes", axes), ("steps", steps)):
        if operand is not None and len(operand.shape) != 1:
            raise InvalidNode(f"{name} must have one dimension, not the shape {list(operand.shape)}")
    count = next((t.shape[0] for t in (starts, ends, axes, steps) if t is not None and t.is_static), None)
    count = count if isinstance(count, int) else None
    first, last = b.extents_of(starts, "starts", count), b.extents_of(ends, "ends", count)
    along = [int(a) for a in b.known(axes, "axes").reshape(-1)] if axes is not None else list(range(len(first)))
    step = [int(s) for s in b.known(steps, "steps").reshape(-1)] if steps is not None else [1] * len(first)
    return _slice(node, x, first, last, along, step)


def _slice(
    node: Node, x: Tensor, starts: Sequence[Extent], ends: Sequence[Extent], axes: Sequence[int], steps: Sequence[int]
) -> Tensor:
    b, e = node.b, node.b.extents
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise InvalidNode("starts, ends, axes and steps have different lengths")
    offsets: list[Extent] = [0] * x.rank
    sizes = list(x.shape)
    strides = [1] * x.rank
    backwards: list[int] = []
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        axis = node.axis(axis, x.rank)
        extent = x.shape[axis]
        if step == 0:
            raise InvalidNode("a step is 0")
        if step > 0:
            first = _clamp(node, start, extent, 0, extent)
            last = _clamp(node, end, extent, 0, extent)
            offsets[axis], strides[axis] = first, step
            sizes[axis] = e.maximum(0, e.ceildiv(e.sub(last, first), step))
            continue
        first = _clamp(node, start, extent, 0, e.sub(extent, 1))
        last = _clamp(node, end, extent, -1, e.sub(extent, 1))
        count = e.maximum(0, e.ceildiv(e.sub(first, last), -step))
        # Take the same elements forwards, then turn them around.
        offsets[axis] = e.add(first, e.mul(e.sub(count, 1), step))
        offsets[axis] = e.maximum(0, offsets[axis])
        sizes[axis], strides[axis] = count, -step
        backwards.append(axis)
    result = b.slice(x, offsets, sizes, strides)
    return reverse(node, result, backwards) if backwards else result


# Exporters write 10^9, INT32_MAX or INT64_MAX for "to the end"; no dimension is that long.
_TO_THE_END = 10**9


def _clamp(node: Node, position: Extent, extent: Extent, low: int, high: Extent) -> Extent:
    """A start or end as a position: negative ones count from the end, and all are clamped to ``low..high``."""
    e = node.b.extents
    if isinstance(position, int) and position >= _TO_THE_END:
        return high
    if isinstance(position, int) and position <= -_TO_THE_END:
        return low
    if isinstance(position, int):
        position = position if position >= 0 else e.add(extent, position)
    else:
        # A position computed from shapes; it is taken as it is when it is known not to be negative.
        position = e.select(e.compare("lt", position, 0), e.add(position, extent), position)
    return e.minimum(e.maximum(position, low), high)


def reverse(node: Node, x: Tensor, axes: Sequence[int]) -> Tensor:
    """Reverse the order along ``axes``."""
    b = node.b
    if x.array is not None:
        return b.constant(np.flip(x.array, tuple(axes)), name=x.name)
    source = b.value(x)
    last = {a: scalar_of(b.extents.sub(x.shape[a], 1)) for a in axes}

    def body(indices: list[Scalar]) -> Scalar:
        return b.element(source, x.dtype, [last[a] - i if a in last else i for a, i in enumerate(indices)])

    return b.indexed(x.dtype, x.shape, body)


def scalar_of(extent: Extent) -> Scalar:
    """An extent as an index scalar."""
    return constant(extent, "index") if isinstance(extent, int) else Scalar(extent, "index")


# --- Pad ---


@op("Pad", until=10)
def pad_attributes(node: Node, x: Tensor) -> Tensor:
    """Pad before opset 11, with its amounts and value in attributes."""
    pads = node.attr("pads", None) or node.attr("paddings")
    return _pad(node, x, pads, list(range(x.rank)), scalars.constant(float(node.attr("value", 0.0)), x.dtype))


@op("Pad", since=11)
def pad(node: Node, x: Tensor, pads: Tensor, value: Tensor | None = None, axes: Tensor | None = None) -> Tensor:
    """x with ``pads`` positions added along ``axes`` (default: all): all amounts before, then all amounts after.

    ``mode`` says what they hold: ``value``, the edge's element, the reflection, or x repeated. Negative amounts crop.
    """
    b = node.b
    chosen = list(range(x.rank))
    if axes is not None:
        chosen = [node.axis(int(a), x.rank) for a in b.known(axes, "axes").reshape(-1)]
    amounts = b.extents_of(pads, "pads", 2 * len(chosen))
    scalar = b.scalar(value) if value is not None else scalars.constant(0, x.dtype)
    return _pad(node, x, amounts, chosen, scalar)


def _pad(node: Node, x: Tensor, pads: Sequence[Extent], axes: Sequence[int], value: Scalar) -> Tensor:
    b, e = node.b, node.b.extents
    if len(pads) != 2 * len(axes):
        raise InvalidNode(f"{len(pads)} pads for {len(axes)} axes; each axis needs two")
    low: list[Extent] = [0] * x.rank
    high: list[Extent] = [0] * x.rank
    for position, axis in enumerate(axes):
        low[axis], high[axis] = pads[position], pads[position + len(axes)]
    mode = node.attr("mode", "constant")
    # Negative amounts crop.
    crop_low = [e.maximum(0, e.sub(0, p)) for p in low]
    crop_high = [e.maximum(0, e.sub(0, p)) for p in high]
    sizes = [e.sub(d, e.add(p, q)) for d, p, q in zip(x.shape, crop_low, crop_high, strict=True)]
    x = b.slice(x, crop_low, sizes)
    low, high = [e.maximum(0, p) for p in low], [e.maximum(0, p) for p in high]
    if mode == "constant":
        return b.pad(x, low, high, value)
    if mode not in ("edge", "reflect", "wrap"):
        raise InvalidNode(f"mode '{mode}' is not one of constant, edge, reflect, wrap")
    padded = [a for a in range(x.rank) if low[a] != 0 or high[a] != 0]
    if not padded:
        return x
    source = b.value(x)
    before = {a: scalar_of(low[a]) for a in padded}
    extents = {a: scalar_of(x.shape[a]) for a in padded}

    def body(indices: list[Scalar]) -> Scalar:
        at = [_outside(mode, i - before[a], extents[a]) if a in before else i for a, i in enumerate(indices)]
        return b.element(source, x.dtype, at)

    shape = [e.add(e.add(d, p), q) for d, p, q in zip(x.shape, low, high, strict=True)]
    return b.indexed(x.dtype, shape, body)


def _outside(mode: str, position: Scalar, extent: Scalar) -> Scalar:
    """Where a position before 0 or after the end reads from."""
    last = extent - 1
    if mode == "edge":
        return minimum(maximum(position, 0), last)
    if mode == "wrap":
        return position % extent
    # Reflection has period 2 * (extent - 1); an extent of 1 reads its only element.
    period = maximum(last * 2, 1)
    folded = position % period
    return minimum(select(folded > last, period - folded, folded), last)


# --- space and depth ---


@op("DepthToSpace")
def depth_to_space(node: Node, x: Tensor) -> Tensor:
    """[n, c, h, w] as [n, c / s^2, h s, w s], s being ``blocksize``.

    The blocks are the outer part of the channels in mode DCR, the inner part in mode CRD.
    """
    b, e = node.b, node.b.extents
    size = node.attr("blocksize")
    n, c, h, w = x.shape
    depth = e.floordiv(c, size * size)
    if node.attr("mode", "DCR") == "CRD":
        split, order = [n, depth, size, size, h, w], [0, 1, 4, 2, 5, 3]
    else:
        split, order = [n, size, size, depth, h, w], [0, 3, 4, 1, 5, 2]
    moved = b.transpose(b.reshape(x, split), order)
    return b.reshape(moved, [n, depth, e.mul(h, size), e.mul(w, size)])


@op("SpaceToDepth")
def space_to_depth(node: Node, x: Tensor) -> Tensor:
    """[n, c, h, w] as [n, c s^2, h / s, w / s], s being ``blocksize``; the inverse of DepthToSpace."""
    b, e = node.b, node.b.extents
    size = node.attr("blocksize")
    n, c, h, w = x.shape
    rows, columns = e.floordiv(h, size), e.floordiv(w, size)
    order = [0, 1, 3, 5, 2, 4] if node.attr("mode", "DCR") == "CRD" else [0, 3, 5, 1, 2, 4]
    moved = b.transpose(b.reshape(x, [n, c, rows, size, columns, size]), order)
    return b.reshape(moved, [n, e.mul(c, size * size), rows, columns])
