"""The inputs of models of ai.onnx.ml: rows of features."""

from __future__ import annotations

from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node


def rows_of(node: Node, x: Tensor) -> Tensor:
    """A matrix of rows of features: x [rows, features], or the only row [features].

    Raises InvalidNode for any other rank.
    """
    if x.rank == 1:
        return node.b.reshape(x, [1, x.shape[0]])
    if x.rank != 2:
        raise InvalidNode(f"its input has {x.rank} dimensions; the op takes [rows, features] or [features]")
    return x


def float_rows(node: Node, x: Tensor) -> Tensor:
    """``rows_of`` as floats: float64 stays, any other type becomes float32."""
    rows = rows_of(node, x)
    return rows if rows.dtype == "float64" else node.b.cast(rows, "float32")
