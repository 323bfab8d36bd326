"""Resize and Upsample: one axis after the other, which is exact because every mode is separable."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from torch_mlir import ir

from rillet.frontends.building import element_types
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.interpolation import clamp, cubic_kernel, linear_kernel, to_position
from rillet.frontends.building.loops import for_each, for_range, scalar_of, store
from rillet.frontends.building.scalars import Scalar, ceil, constant, floor, maximum, minimum, select
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.registry import op
from rillet.frontends.onnx.whole_scales import Tap, resized, taps_of
from rillet.ir.builders import Extent

_F64 = "float64"
Number: TypeAlias = float | Scalar  # a float64 scalar where only run time knows it
_WHOLE = (0.0, 1.0)  # the region of interest that is everything


@dataclass(frozen=True)
class _Axis:
    """One resized dimension: extents before and after, the scale, and the region of interest (relative)."""

    axis: int
    size: Extent
    out: Extent
    scale: Number
    roi: tuple[Number, Number]


@op("Upsample", since=7, until=8)
def upsample_attribute(node: Node, x: Tensor) -> Tensor:
    """Upsample at opsets 7 and 8, with its scales in an attribute."""
    scales = [float(np.float32(s)) for s in node.attr("scales")]
    return _resize(node, x, _scaled(node, x, list(range(x.rank)), scales, None))


@op("Upsample", since=9)
def upsample(node: Node, x: Tensor, scales: Tensor) -> Tensor:
    """x with each extent multiplied by its scale and rounded down. The scales [rank] are an input."""
    return _resize(node, x, _scaled(node, x, list(range(x.rank)), _numbers(node, scales, x.rank), None))


@op("Resize", since=10, until=10)
def resize_by_scales(node: Node, x: Tensor, scales: Tensor) -> Tensor:
    """Resize at opset 10, which has scales only."""
    return _resize(node, x, _scaled(node, x, list(range(x.rank)), _numbers(node, scales, x.rank), None))


@op(
    "Resize", since=11, ignores=["nearest_mode", "cubic_coeff_a", "exclude_outside", "extrapolation_value", "antialias"]
)
def resize(
    node: Node, x: Tensor, roi: Tensor | None = None, scales: Tensor | None = None, sizes: Tensor | None = None
) -> Tensor:
    """x resampled to ``sizes``, or to extents multiplied by ``scales``, along ``axes`` (default: all).

    The attributes' meanings are those of ONNX's Resize. Raises InvalidNode when both scales and sizes are absent, and
    for tf_crop_and_resize without a ``roi``.
    """
    b = node.b
    axes = node.attr("axes", None)
    axes = list(range(x.rank)) if axes is None else [node.axis(a, x.rank, "axes") for a in axes]
    region = None
    if node.attr("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize":
        if roi is None:
            raise InvalidNode("coordinate_transformation_mode tf_crop_and_resize needs a roi")
        region = _numbers(node, roi, 2 * len(axes))
    # Exporters give an empty tensor for an absent operand. One of unknown length is empty when the other is there.
    if sizes is not None and sizes.shape != (0,) and (scales is None or not scales.is_static or scales.shape == (0,)):
        sizes = b.refine(sizes, [len(axes)])
        return _resize(node, x, _sized(node, x, axes, b.extents_of(sizes, "sizes"), region))
    if scales is None:
        raise InvalidNode("it has neither scales nor sizes")
    return _resize(node, x, _scaled(node, x, axes, _numbers(node, scales, len(axes)), region))


def _numbers(node: Node, tensor: Tensor, count: int) -> list[Number]:
    """The elements of a float tensor; the host reads those that are not known."""
    tensor = node.b.refine(tensor, [count])
    if tensor.array is not None:
        return [float(v) for v in tensor.array]
    value = node.b.value(tensor)
    return [convert(node.b.element(value, tensor.dtype, [i]), _F64) for i in range(count)]


def _roi(region: Sequence[Number] | None, number: int, count: int) -> tuple[Number, Number]:
    return _WHOLE if region is None else (region[number], region[count + number])


def _scaled(
    node: Node, x: Tensor, axes: Sequence[int], scales: Sequence[Number], region: Sequence[Number] | None
) -> list[_Axis]:
    if len(scales) != len(axes):
        raise InvalidNode(f"{len(scales)} scales for {len(axes)} axes")
    result = []
    for number, (axis, scale) in enumerate(zip(axes, scales, strict=True)):
        size = x.shape[axis]
        if not isinstance(scale, Scalar) and not 0 < scale < math.inf:
            raise InvalidNode(f"scale {scale} of axis {axis} is not a positive number")
        result.append(_Axis(axis, size, _times(node, size, scale, 0.0), scale, _roi(region, number, len(axes))))
    return result


def _times(node: Node, size: Extent, scale: Number, bias: float) -> Extent:
    """floor(size * scale + bias)"""
    if not isinstance(scale, Scalar):
        if isinstance(size, int):
            return math.floor(scale * size + bias)
        if scale == int(scale):
            return node.b.extents.mul(size, int(scale))
    return node.b.extents.declare(to_position(floor(_lift(scale) * _coordinate(scalar_of(size)) + bias)).value)


def _sized(
    node: Node, x: Tensor, axes: Sequence[int], sizes: Sequence[Extent], region: Sequence[Number] | None
) -> list[_Axis]:
    if len(sizes) != len(axes):
        raise InvalidNode(f"{len(sizes)} sizes for {len(axes)} axes")
    policy = node.attr("keep_aspect_ratio_policy", "stretch")
    rois = [_roi(region, number, len(axes)) for number in range(len(axes))]
    scales = [_ratio(out, x.shape[axis]) for axis, out in zip(axes, sizes, strict=True)]
    if policy == "stretch":
        return [_Axis(a, x.shape[a], out, s, r) for a, out, s, r in zip(axes, sizes, scales, rois, strict=True)]
    if policy not in ("not_larger", "not_smaller"):
        raise InvalidNode(f"keep_aspect_ratio_policy '{policy}' is not one of stretch, not_larger, not_smaller")
    fixed = [s for s in scales if not isinstance(s, Scalar)]
    if len(fixed) == len(scales):
        scale: Number = (min if policy == "not_larger" else max)(fixed)
    else:
        scale = functools.reduce(minimum if policy == "not_larger" else maximum, map(_lift, scales))
    return [
        _Axis(a, x.shape[a], _times(node, x.shape[a], scale, 0.5), scale, r) for a, r in zip(axes, rois, strict=True)
    ]


def _ratio(out: Extent, size: Extent) -> Number:
    if isinstance(size, int) and isinstance(out, int):
        return out / size if size else 1.0
    return _coordinate(scalar_of(out)) / _coordinate(scalar_of(size))


def _resize(node: Node, x: Tensor, axes: Sequence[_Axis]) -> Tensor:
    dtype = x.dtype
    mode = node.attr("mode", "nearest")
    if mode not in ("nearest", "linear", "cubic"):
        raise InvalidNode(f"mode '{mode}' is not one of nearest, linear, cubic")
    active = [a for a in axes if not _keeps(node, a)]
    if mode != "nearest" and not element_types.is_float(x.dtype):
        x = node.b.cast(x, "float32")
    for axis in active:
        x = _nearest(node, x, axis) if mode == "nearest" else _weighted(node, x, axis, mode)
    return node.b.cast(x, dtype)


def _keeps(node: Node, a: _Axis) -> bool:
    """Whether the axis stays as it is."""
    whole = not any(isinstance(v, Scalar) for v in a.roi) and a.roi == _WHOLE
    same = node.b.extents.equal(a.size, a.out)
    return whole and same and (isinstance(a.scale, Scalar) or a.scale == 1.0)


def _lift(value: Number) -> Scalar:
    return value if isinstance(value, Scalar) else constant(value, _F64)


def _coordinates(node: Node) -> str:
    default = "half_pixel" if node.op_type == "Resize" and node.opset >= 11 else "asymmetric"
    return node.attr("coordinate_transformation_mode", default)


def _whole_taps(node: Node, a: _Axis, rounding: str | None) -> tuple[Tap, ...]:
    """What each result reads of an axis of unknown extent that is resized by a whole number; empty for any other."""
    if isinstance(a.size, int) or isinstance(a.scale, Scalar) or a.scale != int(a.scale):
        return ()
    return taps_of(_coordinates(node), int(a.scale), rounding)


def _source_coordinate(node: Node, a: _Axis, y: Scalar) -> Scalar:
    """Where output position ``y`` (float64) lies in the input, as ``coordinate_transformation_mode`` says."""
    mode = _coordinates(node)
    scale = _lift(a.scale)
    size, length = _coordinate(scalar_of(a.size)), _coordinate(scalar_of(a.out))
    width = scale * size  # of which ``length`` is the whole part
    half = (y + 0.5) / scale - 0.5
    if mode == "asymmetric":
        return y / scale
    if mode == "half_pixel":
        return half
    if mode == "pytorch_half_pixel":
        return select(length == 1.0, constant(0.0, _F64), half)
    if mode == "half_pixel_symmetric":
        return size * 0.5 * (1.0 - length / width) + half
    if mode == "align_corners":  # by the width, as the standard's own tests have it; its text says the length
        return select(width == 1.0, constant(0.0, _F64), y * (size - 1.0) / (width - 1.0))
    if mode != "tf_crop_and_resize":
        raise InvalidNode(f"coordinate_transformation_mode '{mode}' is not known")
    start, end = map(_lift, a.roi)
    span = (size - 1.0) * (end - start)
    return select(length == 1.0, span * 0.5, y * span / (length - 1.0)) + (size - 1.0) * start


def _outside(node: Node, a: _Axis, at: Scalar) -> Scalar | None:
    if node.attr("coordinate_transformation_mode", "") != "tf_crop_and_resize":
        return None
    return (at < 0.0) | (at > _coordinate(scalar_of(a.size)) - 1.0)


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
    if taps := _whole_taps(node, a, mode):
        return resized(b, x, a.axis, taps)
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
    if mode == "linear" and not antialias and (whole := _whole_taps(node, a, None)):
        return resized(b, x, a.axis, whole)
    if antialias:
        if isinstance(a.scale, Scalar):
            return _antialiased(node, x, a, a.scale, mode)
        spread = min(a.scale, 1.0)
    first = math.floor(-support / spread) + 1
    taps = range(first, 2 - first)
    kernel, exclude = _kernel(node, mode), _excludes_outside(node, mode)
    source, extent = b.value(x), scalar_of(a.size)
    compute = element_types.compute_dtype(x.dtype)

    def body(indices: list[Scalar]) -> Scalar:
        at = _source_coordinate(node, a, _coordinate(indices[a.axis]))
        base = floor(at)
        terms: list[tuple[Scalar, Scalar]] = []
        for tap in taps:
            weight = kernel((at - base - float(tap)) * spread)
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


def _kernel(node: Node, mode: str) -> Callable[[Scalar], Scalar]:
    """The weight at a distance."""
    if mode == "linear":
        return linear_kernel
    coefficient = float(node.attr("cubic_coeff_a", -0.75))
    return lambda d: cubic_kernel(d, coefficient)


def _excludes_outside(node: Node, mode: str) -> bool:
    """Whether positions outside weigh nothing, rather than repeat the element at the edge.

    Without ``antialias`` it makes no difference to linear, which weighs two elements: one outside repeats the other.
    """
    return bool(node.attr("exclude_outside", 0)) and (mode == "cubic" or bool(node.attr("antialias", 0)))


def _antialiased(node: Node, x: Tensor, a: _Axis, scale: Scalar, mode: str) -> Tensor:
    """``_weighted`` by a kernel whose width only run time knows: a loop over the taps of each element."""
    b = node.b
    kernel, exclude = _kernel(node, mode), _excludes_outside(node, mode)
    source, extent = b.value(x), scalar_of(a.size)
    compute = element_types.compute_dtype(x.dtype)
    support = 1.0 if mode == "linear" else 2.0

    def body(indices: list[Scalar], result: ir.Value) -> ir.Value:
        spread = minimum(scale, 1.0)
        reach = floor(-support / spread) + 1.0
        at = _source_coordinate(node, a, _coordinate(indices[a.axis]))
        base = floor(at)

        def tap(number: Scalar, total: ir.Value, weights: ir.Value) -> list[ir.Value]:
            place = base + reach + _coordinate(number)
            weight = kernel((at - place) * spread)
            position = to_position(place)
            inside = clamp(position, extent)
            if exclude:
                weight = select(position == inside, weight, 0.0)
            value = b.element(source, x.dtype, [*indices[: a.axis], inside, *indices[a.axis + 1 :]])
            total = (Scalar(total, compute) + convert(weight, compute) * value).value
            return [total, (Scalar(weights, _F64) + weight).value]

        zeros = [constant(0.0, compute).value, constant(0.0, _F64).value]
        taps = to_position(2.0 - reach * 2.0)
        total, weights = for_range(0, taps, zeros, tap)
        value = Scalar(total, compute) / convert(Scalar(weights, _F64), compute)
        outside = _outside(node, a, at)
        value = value if outside is None else select(outside, convert(_extrapolation(node), compute), value)
        return store(value, x.dtype, result, indices)

    shape = _shape(x, a)
    return b.tensor(for_each(shape, [b.empty(x.dtype, shape)], body)[0], x.dtype, shape)


def _sum(values: Sequence[Scalar]) -> Scalar:
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total
