"""NonMaxSuppression: a sort of each class's scores above the threshold, then a greedy selection, both on the device."""

from __future__ import annotations

import math

from torch_mlir import ir
from torch_mlir.dialects import cf

from rillet.frontends.building.conversions import convert
from rillet.frontends.building.loops import for_range, read_extent, scalar_of, store
from rillet.frontends.building.scalars import Scalar, constant, maximum, minimum, select
from rillet.frontends.building.sorting import argsort_keys, sort_keys
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.registry import op
from rillet.ir import locations


@op("NonMaxSuppression", since=10)
def non_max_suppression(
    node: Node,
    boxes: Tensor,
    scores: Tensor,
    limit: Tensor | None = None,
    iou_threshold: Tensor | None = None,
    score_threshold: Tensor | None = None,
) -> Tensor:
    """Rows (batch, class, box) of the boxes kept, the best scores of each class first.

    Raises InvalidNode for boxes or scores of another rank than 3.
    """
    b, e = node.b, node.b.extents
    if boxes.rank != 3 or scores.rank != 3:
        raise InvalidNode(f"boxes and scores have ranks {boxes.rank} and {scores.rank}, not 3")
    batches, classes, count = scores.shape
    boxes = b.refine(boxes, [batches, count, 4], "boxes")
    if node.attr("center_point_box", 0) not in (0, 1):
        raise InvalidNode(f"center_point_box is {node.attr('center_point_box')}, not 0 or 1")
    rows = e.mul(batches, classes)
    table = b.reshape(scores, [rows, count])
    values = b.value(table)
    corners = b.value(boxes)
    zero = constant(0, "int64")
    most = zero if limit is None else convert(_only(node, limit), "int64")
    overlap = _threshold(node, iou_threshold)
    if iou_threshold is not None:
        _check_overlap(node, iou_threshold, overlap)
    lowest = None if score_threshold is None else _threshold(node, score_threshold)

    chosen = None if lowest is None else lambda row, i: b.element(values, table.dtype, [row, i]) > lowest
    positions, sizes = argsort_keys(b, sort_keys(b, table, descending=True), chosen)
    order = b.value(positions)
    per_batch = scalar_of(classes)
    capacity = e.mul(rows, count)

    def one_class(row: Scalar, found: ir.Value, total: ir.Value) -> list[ir.Value]:
        batch = row // per_batch
        base = convert(b.element(total, "int64", [0]), "index")

        def candidate(t: Scalar, found: ir.Value, total: ir.Value) -> list[ir.Value]:
            box = b.element(order, "int64", [row, t])
            place = convert(b.element(total, "int64", [0]), "index")

            def against(k: Scalar, free: ir.Value) -> ir.Value:
                other = convert(b.element(found, "int64", [k, 2]), "index")
                covered = _iou_exceeds(node, boxes, corners, batch, convert(box, "index"), other, overlap)
                return (Scalar(free, "bool") & ~covered).value

            wanted = convert(place - base, "int64") < most
            free = for_range(base, select(wanted, place, base), [constant(True, "bool").value], against)[0]
            kept = Scalar(free, "bool") & wanted
            # Written after the last kept row; a candidate that is dropped is overwritten by the next one.
            for column, value in enumerate((convert(batch, "int64"), convert(row % per_batch, "int64"), box)):
                found = store(value, "int64", found, [place, column])
            return [found, store(convert(place, "int64") + convert(kept, "int64"), "int64", total, [0])]

        return for_range(0, convert(b.element(sizes, "int64", [row]), "index"), [found, total], candidate)

    state = [b.empty("int64", [capacity, 3]), b.init(0, "int64", [1])]
    found, total = for_range(0, rows, state, one_class)
    return b.slice(b.tensor(found, "int64", [capacity, 3]), [0, 0], [read_extent(b, total), 3])


def _threshold(node: Node, value: Tensor | None) -> Scalar:
    return constant(0.0, "float32") if value is None else convert(_only(node, value), "float32")


def _only(node: Node, value: Tensor) -> Scalar:
    if value.is_static and math.prod(value.static_shape) != 1:
        raise InvalidNode(f"a limit or threshold of {math.prod(value.static_shape)} elements; it is one number")
    return node.b.scalar(value)


def _check_overlap(node: Node, given: Tensor, threshold: Scalar) -> None:
    """Require that the threshold of an intersection over a union is from 0 to 1."""
    text = "iou_threshold is not from 0 to 1"
    if given.array is not None:
        if not 0 <= float(given.array.reshape(-1)[0]) <= 1:
            raise InvalidNode(text)
        return
    cf.assert_(((threshold >= 0.0) & (threshold <= 1.0)).value, f"{locations.label(ir.Location.current)}: {text}")


def _iou_exceeds(
    node: Node, boxes: Tensor, corners: ir.Value, batch: Scalar, first: Scalar, second: Scalar, threshold: Scalar
) -> Scalar:
    """Whether intersection over union of two boxes is more than ``threshold``; never for boxes without area."""
    spans = [_spans(node, boxes, corners, batch, box) for box in (first, second)]
    intersection = constant(1.0, "float32")
    areas = [constant(1.0, "float32"), constant(1.0, "float32")]
    for axis in range(2):
        (low1, high1), (low2, high2) = spans[0][axis], spans[1][axis]
        intersection = intersection * maximum(minimum(high1, high2) - maximum(low1, low2), 0.0)
        areas = [areas[0] * (high1 - low1), areas[1] * (high2 - low2)]
    union = areas[0] + areas[1] - intersection
    real = (intersection > 0.0) & (areas[0] > 0.0) & (areas[1] > 0.0) & (union > 0.0)
    return real & (intersection / select(real, union, 1.0) > threshold)


def _spans(node: Node, boxes: Tensor, corners: ir.Value, batch: Scalar, box: Scalar) -> list[tuple[Scalar, Scalar]]:
    """Where a box begins and ends in both directions; its corners come in any order, or as center and size."""
    values = [convert(node.b.element(corners, boxes.dtype, [batch, box, i]), "float32") for i in range(4)]
    if node.attr("center_point_box", 0):
        return [(values[i] - values[2 + i] * 0.5, values[i] + values[2 + i] * 0.5) for i in range(2)]
    return [(minimum(values[i], values[2 + i]), maximum(values[i], values[2 + i])) for i in range(2)]
