"""Sliding windows of convolutions and poolings: strides, dilations, pads and output extents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.ir.builders import Extent


@dataclass(frozen=True)
class Window:
    """For each spatial dimension: padding before and after, output extent, stride, dilation, kernel extent."""

    low: Sequence[Extent]
    high: Sequence[Extent]
    out: Sequence[Extent]
    strides: Sequence[int]
    dilations: Sequence[int]
    kernel: Sequence[Extent]


def kernel_of(node: Node, spatial: Sequence[Extent]) -> list[Extent]:
    """The kernel's extents: the weights' ``spatial`` ones, or ``kernel_shape`` where those are not known.

    Raises InvalidNode where the two contradict each other.
    """
    given = node.attr("kernel_shape", None) or list(spatial)
    if len(given) != len(spatial) or any(isinstance(k, int) and k != g for k, g in zip(spatial, given, strict=True)):
        known = [k if isinstance(k, int) else "?" for k in spatial]
        own = f"the weights' {known} in {len(spatial)} spatial dimensions"
        raise InvalidNode(f"kernel_shape {given} does not fit {own}")
    return given


def window_of(node: Node, spatial: Sequence[Extent], kernel: Sequence[Extent]) -> Window:
    """The window of a Conv or pooling node over an input with these spatial extents.

    With ``ceil_mode`` the padding after is enlarged so that every window fits; the last window always starts inside the
    input or the padding before it (ONNX's rule since opset 19, and what every runtime does). Raises InvalidNode for a
    kernel that is not positive and an unknown ``auto_pad``.
    """
    e = node.b.extents
    rank = len(spatial)
    strides = per_axis(node, "strides", rank)
    dilations = per_axis(node, "dilations", rank)
    if len(kernel) != rank or any(isinstance(k, int) and k < 1 for k in kernel):
        raise InvalidNode(f"a window of {list(kernel)} must be {rank} positive numbers, one for each spatial dimension")
    reach = [e.add(e.mul(e.sub(k, 1), d), 1) for k, d in zip(kernel, dilations, strict=True)]
    auto = node.attr("auto_pad", "NOTSET")
    low: list[Extent] = []
    high: list[Extent] = []
    out: list[Extent] = []
    pads = pads_of(node, rank)
    if auto not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER", ""):
        raise InvalidNode(f"auto_pad '{auto}' is not one of NOTSET, VALID, SAME_UPPER, SAME_LOWER")
    for axis, (extent, size, stride) in enumerate(zip(spatial, reach, strides, strict=True)):
        if auto.startswith("SAME"):
            count = e.ceildiv(extent, stride)
            total = e.maximum(0, e.sub(e.add(e.mul(e.sub(count, 1), stride), size), extent))
            half = e.floordiv(total, 2)
            rest = e.sub(total, half)
            before, after = (half, rest) if auto == "SAME_UPPER" else (rest, half)
        else:
            before, after = (0, 0) if auto == "VALID" else (pads[axis], pads[axis + rank])
            room = e.sub(e.add(extent, before + after), size)
            count = e.add(e.floordiv(room, stride), 1)
            # With one stride too few, there is no window under either rounding. With any other shortfall the rounding
            # decides, and implementations differ.
            may_be_empty = e.compare("eq", room, -stride)
            if node.attr("ceil_mode", 0):
                count, after = _ceil_mode(node, extent, before, after, size, stride, room)
                may_be_empty = e.compare("ge", count, 0)
            text = f"the window of {{1}} is larger than the padded input of {{0}} in dimension {axis}"
            node.b.require("ge", e.add(room, size), size, text, or_else=may_be_empty)
        low.append(before)
        high.append(after)
        out.append(count)
    return Window(low, high, out, strides, dilations, kernel)


def _ceil_mode(
    node: Node, extent: Extent, before: int, after: int, size: Extent, stride: int, room: Extent
) -> tuple[Extent, Extent]:
    """Output extent and enlarged padding after, rounding the number of windows up."""
    e = node.b.extents
    count = e.add(e.ceildiv(room, stride), 1)
    starts_late = e.compare("ge", e.mul(e.sub(count, 1), stride), e.add(extent, before))
    count = e.select(starts_late, e.sub(count, 1), count)
    needed = e.sub(e.add(e.mul(e.sub(count, 1), stride), size), e.add(extent, before))
    return count, e.maximum(after, needed)


def pads_of(node: Node, rank: int) -> list[int]:
    """The attribute ``pads``: those before each of ``rank`` dimensions, then those after.

    Raises InvalidNode for another number of them and negative ones.
    """
    pads = node.attr("pads", None) or [0] * (2 * rank)
    if len(pads) != 2 * rank:
        raise InvalidNode(f"pads has {len(pads)} entries for {rank} spatial dimensions; it needs two for each")
    if min(pads, default=0) < 0:
        raise InvalidNode(f"pads {pads} are not all 0 or more")
    return list(pads)


def per_axis(node: Node, name: str, rank: int) -> list[int]:
    """The attribute ``name``, a positive number for each of ``rank`` spatial dimensions; 1 by default.

    Raises InvalidNode for anything else.
    """
    values = node.attr(name, None) or [1] * rank
    if len(values) != rank or any(v < 1 for v in values):
        raise InvalidNode(f"{name} {values} must be {rank} positive numbers, one for each spatial dimension")
    return list(values)
