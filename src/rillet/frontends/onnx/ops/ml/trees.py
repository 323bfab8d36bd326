"""TreeEnsemble: every row walks every tree; a walk takes as many steps as the deepest tree has levels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch_mlir import ir

from rillet.frontends.building import element_types, scalars
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.loops import for_range, store
from rillet.frontends.building.scalars import Scalar, constant, maximum, minimum, select
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.registry import op

_COMPARE: tuple[Callable[[Scalar, Scalar], Scalar], ...] = (
    lambda x, split: x <= split,
    lambda x, split: x < split,
    lambda x, split: x >= split,
    lambda x, split: x > split,
    lambda x, split: x == split,
    lambda x, split: x != split,
)
_MEMBER = 6
_AVERAGE, _SUM, _MIN, _MAX = range(4)


@op("TreeEnsemble", since=5, domain="ai.onnx.ml", ignores=["nodes_hitrates"])
def tree_ensemble(node: Node, x: Tensor) -> Tensor:
    """[rows, features] → [rows, n_targets]: the weights of the leaves reached, aggregated over the trees.

    Raises UnsupportedFeature for a ``post_transform``.
    """
    b = node.b
    if node.attr("post_transform", 0):
        raise UnsupportedFeature("post_transform", "apply the transformation in a node of its own")
    rows, targets = x.shape[0], node.attr("n_targets")
    aggregate = node.attr("aggregate_function", _SUM)
    compute = element_types.compute_dtype(x.dtype)
    trees = _Trees(node)
    source = b.value(x)
    first = {_MIN: np.inf, _MAX: -np.inf}.get(aggregate, 0.0)

    def walk(row: Scalar, tree: Scalar, result: ir.Value) -> ir.Value:
        def step(_: Scalar, at: ir.Value, done: ir.Value) -> list[ir.Value]:
            here, is_leaf = Scalar(at, "int64"), Scalar(done, "bool")
            place = convert(select(is_leaf, constant(0, "int64"), here), "index")
            value = b.element(source, x.dtype, [row, convert(trees.read("features", place), "index")])
            goes_true = trees.decide(value, place, compute)
            onward = select(goes_true, trees.read("true", place), trees.read("false", place))
            leaf = select(goes_true, trees.read("true_leaf", place), trees.read("false_leaf", place)) != 0
            return [select(is_leaf, here, onward).value, (is_leaf | leaf).value]

        start = [trees.read("roots", tree).value, constant(False, "bool").value]
        leaf = convert(Scalar(for_range(0, trees.depth, start, step)[0], "int64"), "index")
        target = convert(trees.read("targets", leaf), "index")
        old, weight = b.element(result, x.dtype, [row, target]), convert(trees.read("weights", leaf), compute)
        combined = {_MIN: minimum, _MAX: maximum}.get(aggregate, lambda p, q: p + q)(old, weight)
        return store(combined, x.dtype, result, [row, target])

    def one_row(row: Scalar, result: ir.Value) -> ir.Value:
        return for_range(0, trees.count, [result], lambda tree, inner: walk(row, tree, inner))[0]

    total = b.tensor(
        for_range(0, rows, [b.init(first, x.dtype, [rows, targets])], one_row)[0], x.dtype, [rows, targets]
    )
    return b.map(lambda v: v / float(trees.count), total) if aggregate == _AVERAGE else total


class _Trees:
    """The nodes and leaves as tables on the device."""

    def __init__(self, node: Node):
        self.b = node.b
        self._tables: dict[str, tuple[ir.Value, str]] = {}
        names = {
            "features": "nodes_featureids",
            "true": "nodes_truenodeids",
            "false": "nodes_falsenodeids",
            "true_leaf": "nodes_trueleafs",
            "false_leaf": "nodes_falseleafs",
            "targets": "leaf_targetids",
            "roots": "tree_roots",
        }
        integers = {key: np.asarray(node.attr(name), np.int64) for key, name in names.items()}
        modes = np.asarray(node.attr("nodes_modes")).astype(np.int64)
        if modes.size and not 0 <= modes.min() <= modes.max() <= _MEMBER:
            raise InvalidNode("nodes_modes has a mode that is not known")
        self.count = len(integers["roots"])
        self.depth = _depth(integers)
        self.modes = set(modes.tolist())
        missing = node.attr("nodes_missing_value_tracks_true", None)
        self.tracks_missing = missing is not None and any(missing)
        integers |= {"modes": modes, "missing": np.asarray(missing or np.zeros(len(modes)), np.int64)}
        members = np.asarray(node.attr("membership_values", np.zeros(0, np.float32)))
        integers |= _ranges(modes, members)
        for key, array in integers.items():
            self._add(key, array)
        self._add("splits", np.asarray(node.attr("nodes_splits")))
        self._add("weights", np.asarray(node.attr("leaf_weights")))
        if members.size:
            self._add("members", members)

    def _add(self, key: str, array: np.ndarray) -> None:
        self._tables[key] = self.b.value(self.b.constant(array, name=key)), array.dtype.name

    def read(self, key: str, place: Scalar) -> Scalar:
        """One entry of a table."""
        table, dtype = self._tables[key]
        return self.b.element(table, dtype, [place])

    def decide(self, value: Scalar, place: Scalar, compute: str) -> Scalar:
        """Whether a node sends ``value`` to its true branch."""
        mode = self.read("modes", place)
        split = convert(self.read("splits", place), compute)
        result = constant(False, "bool")
        for number, compare in enumerate(_COMPARE):
            if number in self.modes:
                result = result | ((mode == number) & compare(value, split))
        if _MEMBER in self.modes:
            low, high = (convert(self.read(key, place), "index") for key in ("member_from", "member_to"))

            def probe(i: Scalar, found: ir.Value) -> ir.Value:
                return (Scalar(found, "bool") | (convert(self.read("members", i), compute) == value)).value

            found = Scalar(for_range(low, high, [constant(False, "bool").value], probe)[0], "bool")
            result = result | ((mode == _MEMBER) & found)
        if self.tracks_missing:
            result = result | (scalars.is_nan(value) & (self.read("missing", place) != 0))
        return result


def _depth(tables: dict[str, np.ndarray]) -> int:
    """The number of nodes on the longest way from a root to a leaf."""
    level, depth = set(tables["roots"].tolist()), 0
    while level:
        depth += 1
        if depth > len(tables["true"]) + 1:
            raise InvalidNode("the nodes form a cycle")
        level = {
            int(tables[branch][n]) for n in level for branch in ("true", "false") if not tables[f"{branch}_leaf"][n]
        }
    return depth


def _ranges(modes: np.ndarray, members: np.ndarray) -> dict[str, np.ndarray]:
    """Where each membership node's values lie: they come in the nodes' order, ended by NaN each."""
    low, high = np.zeros(len(modes), np.int64), np.zeros(len(modes), np.int64)
    ends = np.flatnonzero(np.isnan(members))
    nodes = np.flatnonzero(modes == _MEMBER)
    if len(ends) != len(nodes):
        raise InvalidNode(f"membership_values has {len(ends)} sets for {len(nodes)} nodes")
    high[nodes] = ends
    low[nodes] = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else []
    return {"member_from": low, "member_to": high}
