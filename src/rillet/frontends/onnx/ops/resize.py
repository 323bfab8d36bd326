"""Resize and Upsample: one axis after the other, which is exact because every mode is separable."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rillet.frontends import scalars
from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.frontends.onnx.interpolation import clamp, cubic_kernel, linear_kernel, to_position
from rillet.frontends.onnx.loops import scalar_of
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.registry import op
from rillet.frontends.scalars import Scalar, ceil, constant, convert, floor, select
from rillet.frontends.tensors import Tensor
from rillet.ir.builders import Extent

_F64 = "float64"


@dataclass(frozen=True)
class _Axis:
    """One resized dimension: extents before and after, the scale, and the region of interest (relative)."""

    axis: int
    size: Extent
    out: Extent
    scale: float | Scalar
    roi: tuple[float, float]


@op("Upsample", since=7, until=8)
def upsample_attribute(node: Node, x: Tensor) -> Tensor:
    return _resize(node, x, _scaled(node, x, list(range(x.rank)), np.asarray(node.attr("scales"), np.float32), None))


@op("Upsample", since=9)
def upsample(node: Node, x: Tensor, scales: Tensor) -> Tensor:
    return _resize(node, x, _scaled(node, x, list(range(x.rank)), node.b.known(scales, "scales"), None))


@op("Resize", since=10, until=10)
def resize_by_scales(node: Node, x: Tensor, scales: Tensor) -> Tensor:
    return _resize(node, x, _scaled(node, x, list(range(x.rank)), node.b.known(scales, "scales"), None))


@op(
    "Resize", since=11, ignores=["nearest_mode", "cubic_coeff_a", "exclude_outside", "extrapolation_value", "antialias"]
)
def resize(
    node: Node, x: Tensor, roi: Tensor | None = None, scales: Tensor | None = None, sizes: Tensor | None = None
) -> Tensor:
    b = node.b
    axes = node.attr("axes", None)
    axes = list(range(x.rank)) if axes is None else [node.axis(a, x.rank, "axes") for a in axes]
    region = None
    if node.attr("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize":
        region = b.known(roi, "roi").astype(np.float64)
    given = scales is not None and scales.shape != (0,)
    if given and scales is not None:
        return _resize(node, x, _scaled(node, x, axes, b.known(scales, "scales"), region))
    if sizes is None:
        raise InvalidNode("it has neither scales nor sizes")
    return _resize(node, x, _sized(node, x, axes, b.extents_of(sizes, "sizes"), region))


def _roi(region: np.ndarray | None, number: int, count: int) -> tuple[float, float]:
    return (0.0, 1.0) if region is None else (float(region[number]), float(region[count + number]))


def _scaled(node: Node, x: Tensor, axes: Sequence[int], scales: np.ndarray, region: np.ndarray | None) -> list[_Axis]:
    if len(scales) != len(axes):
        raise InvalidNode(f"{len(scales)} scales for {len(axes)} axes")
    result = []
    for number, (axis, scale) in enumerate(zip(axes, scales, strict=True)):
        size = x.shape[axis]
        if scale <= 0:
            raise InvalidNode(f"scale {scale} of axis {axis} is not positive")
        out = math.floor(float(scale) * size) if isinstance(size, int) else _times(node, size, float(scale))
        result.append(_Axis(axis, size, out, float(scale), _roi(region, number, len(axes))))
    return result


def _times(node: Node, size: Extent, scale: float) -> Extent:
    if scale == int(scale):
        return node.b.extents.mul(size, int(scale))
    wide = convert(convert(scalar_of(size), "int64"), _F64)
    return node.b.extents.declare(to_position(floor(wide * scale)).value)


def _sized(
    node: Node, x: Tensor, axes: Sequence[int], sizes: Sequence[Extent], region: np.ndarray | None
) -> list[_Axis]:
    if len(sizes) != len(axes):
        raise InvalidNode(f"{len(sizes)} sizes for {len(axes)} axes")
    policy = node.attr("keep_aspect_ratio_policy", "stretch")
    rois = [_roi(region, number, len(axes)) for number in range(len(axes))]
    known = all(isinstance(d, int) for d in (*sizes, *(x.shape[a] for a in axes)))
    if policy != "stretch":
        if not known:
            raise UnsupportedFeature(f"keep_aspect_ratio_policy={policy} with sizes not known at compile time")
        choose = min if policy == "not_larger" else max
        scale = choose(s / x.shape[a] for s, a in zip(sizes, axes, strict=True))  # type: ignore[operator]
        return [
            _Axis(a, x.shape[a], int(scale * x.shape[a] + 0.5), scale, r)  # type: ignore[operator]
            for a, r in zip(axes, rois, strict=True)
        ]
    result = []
    for axis, out, roi in zip(axes, sizes, rois, strict=True):
        size = x.shape[axis]
        scale_of: float | Scalar
        if isinstance(size, int) and isinstance(out, int):
            scale_of = out / size if size else 1.0
        else:
            scale_of = _coordinate(scalar_of(out)) / _coordinate(scalar_of(size))
        result.append(_Axis(axis, size, out, scale_of, roi))
    return result


def _resize(node: Node, x: Tensor, axes: Sequence[_Axis]) -> Tensor:
    dtype = x.dtype
    mode = node.attr("mode", "nearest")
    if mode not in ("nearest", "linear", "cubic"):
        raise InvalidNode(f"mode '{mode}' is not one of nearest, linear, cubic")
    active = [a for a in axes if not (a.scale == 1.0 and a.roi == (0.0, 1.0) and node.b.extents.equal(a.size, a.out))]
    if mode != "nearest" and not scalars.is_float(x.dtype):
        x = node.b.cast(x, "float32")
    for axis in active:
        x = _nearest(node, x, axis) if mode == "nearest" else _weighted(node, x, axis, mode)
    return node.b.cast(x, dtype)


def _lift(value: float | Scalar) -> Scalar:
    return value if isinstance(value, Scalar) else constant(value, _F64)


def _source_coordinate(node: Node, a: _Axis, y: Scalar) -> Scalar:
    """Where output position ``y`` (float64) lies in the input, as ``coordinate_transformation_mode`` says."""
    default = "half_pixel" if node.op_type == "Resize" and node.opset >= 11 else "asymmetric"
    mode = node.attr("coordinate_transformation_mode", default)
    scale = _lift(a.scale)
    size = convert(convert(scalar_of(a.size), "int64"), _F64)
    out = scale * size
    half = (y + 0.5) / scale - 0.5
    if mode == "asymmetric":
        return y / scale
    if mode == "half_pixel":
        return half
    if mode == "pytorch_half_pixel":
        return select(out == 1.0, constant(-0.5, _F64), half)
    if mode == "half_pixel_symmetric":
        whole = convert(convert(scalar_of(a.out), "int64"), _F64)
        return size * 0.5 * (1.0 - whole / out) + half
    if mode == "align_corners":
        return select(out == 1.0, constant(0.0, _F64), y * (size - 1.0) / (out - 1.0))
    if mode != "tf_crop_and_resize":
        raise InvalidNode(f"coordinate_transformation_mode '{mode}' is not known")
    start, end = a.roi
    span = (size - 1.0) * (end - start)
    return select(out == 1.0, span * 0.5, y * span / (out - 1.0)) + (size - 1.0) * start


def _outside(node: Node, a: _Axis, at: Scalar) -> Scalar | None:
    if node.attr("coordinate_transformation_mode", "") != "tf_crop_and_resize":
        return None
    return (at < 0.0) | (at > convert(convert(scalar_of(a.size), "int64"), _F64) - 1.0)


def _coordinate(index: Scalar) -> Scalar:
    return convert(convert(index, "int64"), _F64)


def _shape(x: Tensor, a: _Axis) -> list[Extent]:
    return [a.out if i == a.axis else d for i, d in enumerate(x.shape)]


def _nearest(node: Node, x: Tensor, a: _Axis) -> Tensor:
    b = node.b
    default = "round_prefer_floor" if node.op_type == "Resize" and node.opset >= 11 else "floor"
    mode = node.attr("nearest_mode", default)
    rounding = {
        "round_prefer_floor": lambda v: ceil(v - 0.5),
        "round_prefer_ceil": lambda v: floor(v + 0.5),
        "floor": floor,
        "ceil": ceil,
    }
    if mode not in rounding:
        raise InvalidNode(f"nearest_mode '{mode}' is not one of {', '.join(rounding)}")
    source, extent = b.value(x), scalar_of(a.size)

    def body(indices: list[Scalar]) -> Scalar:
        at = _source_coordinate(node, a, _coordinate(indices[a.axis]))
        chosen = clamp(to_position(rounding[mode](at)), extent)
        value = b.element(source, x.dtype, [*indices[: a.axis], chosen, *indices[a.axis + 1 :]])
        outside = _outside(node, a, at)
        return value if outside is None else select(outside, convert(_extrapolation(node), value.dtype), value)

    return b.indexed(x.dtype, _shape(x, a), body)


def _extrapolation(node: Node) -> Scalar:
    return constant(float(node.attr("extrapolation_value", 0.0)), "float32")


def _weighted(node: Node, x: Tensor, a: _Axis, mode: str) -> Tensor:
    """linear and cubic: a weighted sum of the elements around the source coordinate.

    With ``antialias`` the kernel of a reduction is widened by 1 / scale, and the weights add up to one.
    """
    b = node.b
    support, spread = (1 if mode == "linear" else 2), 1.0
    antialias = bool(node.attr("antialias", 0))
    if antialias:
        if isinstance(a.scale, Scalar):
            raise UnsupportedFeature("antialias with a scale not known at compile time", "pin the input shapes")
        spread = min(a.scale, 1.0)
    first = math.floor(-support / spread) + 1
    taps = range(first, 2 - first)
    cubic = float(node.attr("cubic_coeff_a", -0.75))
    exclude = bool(node.attr("exclude_outside", 0)) and mode == "cubic"
    source, extent = b.value(x), scalar_of(a.size)
    compute = scalars.compute_dtype(x.dtype)

    def body(indices: list[Scalar]) -> Scalar:
        at = _source_coordinate(node, a, _coordinate(indices[a.axis]))
        base = floor(at)
        terms: list[tuple[Scalar, Scalar]] = []
        for tap in taps:
            distance = (at - base - float(tap)) * spread
            weight = linear_kernel(distance) if mode == "linear" else cubic_kernel(distance, cubic)
            position = to_position(base + float(tap))
            inside = clamp(position, extent)
            if exclude:
                weight = select(position == inside, weight, 0.0)
            terms.append((weight, b.element(source, x.dtype, [*indices[: a.axis], inside, *indices[a.axis + 1 :]])))
        total = _sum([convert(w, compute) * v for w, v in terms])
        if antialias or exclude:
            total = total / convert(_sum([w for w, _ in terms]), compute)
        outside = _outside(node, a, at)
        return total if outside is None else select(outside, convert(_extrapolation(node), compute), total)

    return b.indexed(x.dtype, _shape(x, a), body)


def _sum(values: Sequence[Scalar]) -> Scalar:
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total
