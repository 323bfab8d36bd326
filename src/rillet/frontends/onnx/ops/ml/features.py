"""ai.onnx.ml's ops that choose and join features."""

from __future__ import annotations

from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.gather import gather_along
from rillet.frontends.onnx.registry import op

_DOMAIN = "ai.onnx.ml"


@op("ArrayFeatureExtractor", domain=_DOMAIN)
def array_feature_extractor(node: Node, x: Tensor, positions: Tensor) -> Tensor:
    """Elements of the last dimension at ``positions``; a vector is a row.

    Raises InvalidNode for positions known to be out of range.
    """
    b = node.b
    rows = b.reshape(x, [1, *x.shape]) if x.rank == 1 else x
    chosen = b.reshape(positions, [b.extents.product(positions.shape)])
    axis = rows.rank - 1
    features, known = rows.shape[axis], positions.array
    if known is not None and isinstance(features, int) and known.size:
        wrong = known[(known < 0) | (known >= features)]
        if wrong.size:
            raise InvalidNode(f"position {int(wrong.flat[0])} is out of range for {features} features")
    return gather_along(node, rows, chosen, axis, from_end=False)


@op("FeatureVectorizer", domain=_DOMAIN)
def feature_vectorizer(node: Node, *inputs: Tensor) -> Tensor:
    """The inputs' rows behind each other, as float32 [rows, features]; a vector is a row.

    Each input is cut, or filled with zeros, to its number of ``inputdimensions``. Raises InvalidNode unless there is
    one for each input.
    """
    widths = node.attr("inputdimensions", None)
    if widths is not None and (len(widths) != len(inputs) or min(widths) < 0):
        raise InvalidNode(f"inputdimensions {widths} are not the widths of {len(inputs)} inputs")
    return node.b.concat([_fitted(node, x, widths[i] if widths else None) for i, x in enumerate(inputs)], 1)


def _fitted(node: Node, x: Tensor, width: int | None) -> Tensor:
    """The rows of an input as float32, ``width`` long."""
    b = node.b
    rows = b.cast(
        b.reshape(x, [x.shape[0] if x.rank > 1 else 1, b.extents.product(x.shape[min(1, x.rank - 1) :])]), "float32"
    )
    if width is None:
        return rows
    kept = b.extents.minimum(rows.shape[1], width)
    return b.pad(b.slice_axis(rows, 1, 0, kept), [0, 0], [0, b.extents.sub(width, kept)])
