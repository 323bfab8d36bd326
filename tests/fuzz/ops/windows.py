"""Convolutions, pools and resizing."""

from __future__ import annotations

import numpy as np

from tests.fuzz.maker import Maker, Stuck, Value
from tests.fuzz.ops.registry import applies


def _spatial(g: Maker, x: Value, dilate: bool = True) -> dict:
    """Kernel, strides, pads and dilations that fit the fixed extents of ``x``."""
    rank = x.rank - 2
    kernel, dilations = [], []
    for d in x.dims[2:]:
        limit = d if isinstance(d, int) else 1
        kernel.append(g.integer(1, max(1, min(4, limit + 1))))
        dilations.append(g.one_of([1, 1, 2]) if dilate and kernel[-1] > 1 else 1)
    attributes = {"kernel_shape": kernel}
    if g.chance(0.5):
        attributes["strides"] = [g.integer(1, 3) for _ in range(rank)]
    if any(n > 1 for n in dilations):
        attributes["dilations"] = dilations
    if g.chance(0.2):
        # Strides beyond the kernel make padding that the reference evaluator takes for negative.
        spans = [(k - 1) * n + 1 for k, n in zip(kernel, dilations, strict=True)]
        same = all(s <= n for s, n in zip(attributes.get("strides", [1] * rank), spans, strict=True))
        attributes["auto_pad"] = g.one_of(["SAME_UPPER", "SAME_LOWER", "VALID"] if same else ["VALID"])
    else:
        attributes["pads"] = [g.integer(0, k - 1) for k in [*kernel, *kernel]]
    padding = attributes.get("pads", [0] * (2 * rank))
    for d, k, dilation, low, high in zip(x.dims[2:], kernel, dilations, padding, padding[rank:], strict=False):
        if (k - 1) * dilation + 1 > (d if isinstance(d, int) else 1) + low + high:
            raise Stuck  # whether that is no window or an error, implementations do not agree on
    return attributes


@applies(5)
def conv(g: Maker) -> None:
    x = g.floating(3, 5)
    channels = x.dims[1]
    if not isinstance(channels, int) or not channels or 0 in x.dims:
        raise Stuck
    groups = g.one_of([n for n in (1, 1, 2, channels) if channels % n == 0])
    attributes = _spatial(g, x)
    features = groups * g.integer(1, 4 if groups > 1 else 20)
    weights = g.data(x.dtype, (features, channels // groups, *attributes["kernel_shape"]))
    inputs = [x, weights, g.data(x.dtype, (features,))][: g.integer(2, 3)]
    y = g.add("Conv", inputs, group=groups, **attributes)[0]
    if g.chance(0.4):
        g.add(
            g.one_of(["Relu", "Sigmoid", "HardSwish", "LeakyRelu"] if y.dtype != "float64" else ["Relu", "Tanh"]), [y]
        )


@applies(3)
def pool(g: Maker) -> None:
    x = g.floating(3, 5)
    if 0 in x.dims:
        raise Stuck
    op = g.one_of(["MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
    if "Max" in op:
        x = g.number(x)  # whether NaN is a maximum, implementations do not agree on
    if op == "GlobalLpPool" and g.opset >= 22:
        raise Stuck  # no oracle has it
    if op.startswith("Global"):
        g.add(op, [x])
        return
    attributes = _spatial(g, x)
    if "auto_pad" in attributes:
        attributes.pop("dilations", None)  # ONNX Runtime forgets them there
    attributes["ceil_mode"] = g.integer(0, 1) if "auto_pad" not in attributes else 0
    if op == "AveragePool":
        attributes["count_include_pad"] = g.integer(0, 1)
    if op == "LpPool":
        attributes["p"] = g.integer(1, 2)
        attributes.pop("ceil_mode")
    # Where each maximum is, in the whole tensor: the reference evaluator is wrong about dilated windows.
    positions = op == "MaxPool" and x.dtype == "float32" and "dilations" not in attributes and g.chance(0.3)
    g.add(op, [x], 2 if positions else 1, **attributes)


@applies(1.5)
def resize(g: Maker) -> None:
    x = g.floating(3, 4)
    if 0 in x.dims:
        raise Stuck
    if x.dtype != "float32":  # the reference evaluator, alone then, multiplies what is not nearest by zero
        x = g.add("Clip", [g.number(x), g.scalar(-1000, x.dtype), g.scalar(1000, x.dtype)])[0]
    scales = [1.0, 1.0, *(g.one_of([0.5, 1.0, 1.5, 2.0, 3.0]) for _ in x.dims[2:])]
    # Whether corners are aligned for the rounded extent or the exact one, implementations do not agree on.
    whole = all(isinstance(d, int) and (d * scale).is_integer() for d, scale in zip(x.dims, scales, strict=True))
    g.add(
        "Resize",
        [x, "", g.constant(np.array(scales, np.float32))],
        mode=g.one_of(["nearest", "linear"]),
        coordinate_transformation_mode=g.one_of(["half_pixel", "asymmetric", *(["align_corners"] if whole else [])]),
        nearest_mode=g.one_of(["floor", "round_prefer_floor"]),
    )
