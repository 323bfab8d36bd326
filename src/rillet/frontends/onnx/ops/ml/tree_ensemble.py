"""ai.onnx.ml's tree ensembles: TreeEnsemble, TreeEnsembleRegressor and TreeEnsembleClassifier."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from rillet.frontends.building.element_types import is_float
from rillet.frontends.building.scalars import Scalar, constant, maximum, minimum, select
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.ml.post_transforms import POST_TRANSFORMS, post_transform_of, transformed
from rillet.frontends.onnx.ops.ml.rows import rows_of
from rillet.frontends.onnx.ops.ml.tree_attributes import forest_of_leaves, forest_of_nodes
from rillet.frontends.onnx.ops.ml.tree_forest import LEAF, Forest, reachable
from rillet.frontends.onnx.ops.ml.tree_tables import tables_of
from rillet.frontends.onnx.ops.ml.tree_walk import walk_trees
from rillet.frontends.onnx.registry import op

_DOMAIN = "ai.onnx.ml"
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")  # in the order of TreeEnsemble's numbers
_IDENTITY = {"MIN": math.inf, "MAX": -math.inf}
_COMBINE: dict[str, Callable[[Scalar, Scalar], Scalar]] = {"MIN": minimum, "MAX": maximum}


@op("TreeEnsemble", since=5, domain=_DOMAIN, ignores=["nodes_hitrates"])
def tree_ensemble(node: Node, x: Tensor) -> Tensor:
    """[rows, features] → [rows, n_targets] of x's type: the weights of the leaves reached, aggregated over the trees.

    Raises InvalidNode for a ``post_transform`` or ``aggregate_function`` that ONNX does not have.
    """
    forest, targets = forest_of_leaves(node), node.attr("n_targets")
    kind, aggregate = node.attr("post_transform", 0), node.attr("aggregate_function", 1)
    if not (0 <= kind < len(POST_TRANSFORMS) and 0 <= aggregate < len(_AGGREGATES)):
        raise InvalidNode(f"post_transform {kind} or aggregate_function {aggregate} is no number that ONNX knows")
    rows = rows_of(node, x)
    scores = aggregated(node, rows, forest, targets, _AGGREGATES[aggregate])
    return node.b.cast(transformed(node, scores, POST_TRANSFORMS[kind]), x.dtype)


@op("TreeEnsembleRegressor", domain=_DOMAIN, ignores=["nodes_hitrates", "nodes_hitrates_as_tensor"])
def tree_ensemble_regressor(node: Node, x: Tensor) -> Tensor:
    """[rows, features] → float32 [rows, n_targets]: the weights of the leaves reached, aggregated over the trees.

    ``base_values`` are added behind the aggregation. Raises InvalidNode unless there is one for each target.
    """
    forest, targets = forest_of_nodes(node, "target"), node.attr("n_targets")
    aggregate = node.attr("aggregate_function", "SUM")
    if aggregate not in _AGGREGATES:
        raise InvalidNode(f"aggregate_function '{aggregate}' is not one of {', '.join(_AGGREGATES)}")
    base = base_values(node)
    if base is not None and len(base) != targets:
        raise InvalidNode(f"it has {len(base)} base_values for {targets} targets")
    scores = aggregated(node, rows_of(node, x), forest, targets, aggregate, base)
    return node.b.cast(transformed(node, scores, post_transform_of(node)), "float32")


def base_values(node: Node) -> npt.NDArray[np.floating] | None:
    """``base_values``, or those given as a tensor; None where there are none."""
    values = np.asarray(node.attr("base_values_as_tensor", node.attr("base_values", None) or []))
    return values.reshape(-1) if values.size else None


def aggregated(
    node: Node,
    x: Tensor,
    forest: Forest,
    targets: int,
    aggregate: str,
    base: Sequence[float] | npt.NDArray[np.floating] | None = None,
) -> Tensor:
    """x [rows, features] → float32 or float64 [rows, targets]: the leaves' weights by target, plus ``base``.

    A target that no leaf reached has a weight for is 0. Computes in float64 where x or the thresholds are. Raises
    InvalidNode for a target that is out of range, and where x has too few features.
    """
    b = node.b
    _check(node, x, forest, targets)
    wide = x.dtype == "float64" or forest.threshold.dtype == np.float64
    dtype = "float64" if wide else "float32"
    identity = _IDENTITY.get(aggregate, 0.0)
    tables = tables_of(forest, targets, dtype, identity, has_nan=is_float(x.dtype))
    total = walk_trees(b, x, tables, targets, dtype, identity, _COMBINE.get(aggregate, lambda p, q: p + q))

    def finish(v: Scalar, *offset: Scalar) -> Scalar:
        if aggregate == "AVERAGE":
            v = v / float(len(forest.roots))
        if identity:
            v = select(v == identity, constant(0.0, dtype), v)
        return v + offset[0] if offset else v

    if base is not None:
        return b.map(finish, total, b.constant(np.asarray(base, dtype), name="base_values"))
    return total if aggregate == "SUM" else b.map(finish, total)


def _check(node: Node, x: Tensor, forest: Forest, targets: int) -> None:
    wrong = forest.weights.target[(forest.weights.target < 0) | (forest.weights.target >= targets)]
    if wrong.size:
        raise InvalidNode(f"a leaf has a weight for target {wrong[0]}, and there are {targets} targets")
    need = int(forest.feature[reachable(forest) & (forest.test != LEAF)].max(initial=0)) + 1
    node.b.require("ge", x.shape[1], need, "its input has {0} features, and its trees need {1}")
