"""Operators that ONNX Runtime had in its own domain before ONNX had them, or that ONNX spells differently.

Source: github.com/microsoft/onnxruntime, docs/ContribOperators.md.
"""

from __future__ import annotations

from rillet.frontends.building import element_types, scalars
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.scalars import Scalar
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops import shape
from rillet.frontends.onnx.ops.constant import range_
from rillet.frontends.onnx.ops.gather import gather_nd
from rillet.frontends.onnx.ops.indexing import trilu
from rillet.frontends.onnx.ops.sampling import sample_at
from rillet.frontends.onnx.ops.selection import distinct
from rillet.frontends.onnx.registry import op
from rillet.ir import builders

_DOMAIN = "com.microsoft"

op("GatherND", domain=_DOMAIN)(gather_nd)
op("Trilu", domain=_DOMAIN)(trilu)


@op("GridSample", domain=_DOMAIN)
def grid_sample(node: Node, x: Tensor, grid: Tensor) -> Tensor:
    """GridSample of ONNX on images, whose cubic mode takes the weights of points outside, as PyTorch does."""
    return sample_at(node, node.b.refine(x, [None] * 4, "X"), grid, moves_points=False)


@op("Range", domain=_DOMAIN)
def range_by_step(node: Node, start: Tensor, limit: Tensor, delta: Tensor | None = None) -> Tensor:
    """Range of ONNX; the step is 1 unless there is a ``delta``."""
    return range_(node, start, limit, node.b.constant(1, start.dtype) if delta is None else delta)


@op("Pad", domain=_DOMAIN)
def pad(node: Node, x: Tensor, pads: Tensor, value: Tensor | None = None) -> Tensor:
    """Pad of ONNX, whose amounts may also be a matrix of one row."""
    if pads.rank not in (1, 2):
        raise InvalidNode(f"the pads have rank {pads.rank}; they are a vector or a matrix of one row")
    amounts = node.b.refine(pads, [1] * (pads.rank - 1) + [2 * x.rank], "pads")
    return shape.pad(node, x, node.b.reshape(amounts, [2 * x.rank]), value)


@op("ExpandDims", domain=_DOMAIN)
def expand_dims(node: Node, x: Tensor, axis: Tensor) -> Tensor:
    """x with a dimension of extent 1, which has the position ``axis`` in the result."""
    return node.b.unsqueeze(x, [node.axis(int(node.b.known(axis, "axis").reshape(-1)[0]), x.rank + 1)])


@op("Unique", domain=_DOMAIN)
def unique(node: Node, x: Tensor) -> list[Tensor]:
    """The distinct elements of a vector in order of appearance, the number of each element among them, and counts."""
    if x.rank != 1:
        raise InvalidNode(f"the input has rank {x.rank}, not 1")
    values, _, numbers, counts = distinct(node, x, in_order=False)
    return [values, numbers, counts][: node.output_count]


@op("CDist", domain=_DOMAIN)
def distances(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """The Euclidean distance, or its square, from each row of ``a`` to each row of ``b``.

    The sum is that of squared differences, which loses no digits where rows are close. Raises UnsupportedFeature for
    another metric.
    """
    builder = node.b
    metric = node.attr("metric", "sqeuclidean")
    if metric not in ("sqeuclidean", "euclidean"):
        raise UnsupportedFeature(f"metric '{metric}'", "use 'euclidean' or 'sqeuclidean', as ONNX Runtime does")
    a = builder.refine(a, [None, None], "A")
    b = builder.refine(b, [None, a.shape[1]], "B")
    m, n, k = builders.dims(3)
    dtype = element_types.compute_dtype(a.dtype)
    dims = [a.shape[0], b.shape[0]]

    def body(x: Scalar, y: Scalar, total: Scalar) -> Scalar:
        apart = convert(x, dtype) - convert(y, dtype)
        return total + apart * apart

    output = (builder.init(0, dtype, dims), [m, n], dtype, dims)
    squares = builder.generic([(a, [m, k]), (b, [n, k])], [output], "ppr", body)[0]
    squares = builder.cast(squares, a.dtype)
    return builder.map(scalars.sqrt, squares) if metric == "euclidean" else squares
