"""Reads forests from the attributes of ONNX's tree ensembles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.ml.tree_forest import (
    LEAF,
    MEMBER,
    MODES,
    Forest,
    Weights,
    check_lengths,
    forest_of,
)

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.floating]


def forest_of_nodes(node: Node, kind: str) -> Forest:
    """The forest of a TreeEnsembleRegressor (``kind`` "target") or TreeEnsembleClassifier ("class").

    A tree's root is the first of its nodes, and trees go by their numbers. Raises InvalidNode for lists that are
    missing or of different lengths, an unknown mode, a node given twice, and one that is not there.
    """
    names = ("treeids", "nodeids", "featureids", "modes", "truenodeids", "falsenodeids")
    lists = {f"nodes_{name}": node.attr(f"nodes_{name}", None) for name in names}
    values = _floats(node, "nodes_values")
    check_lengths({**lists, "nodes_values": values})
    tracks = node.attr("nodes_missing_value_tracks_true", None) or np.zeros(len(values))
    check_lengths({"nodes_values": values, "nodes_missing_value_tracks_true": tracks})
    modes = _modes(lists["nodes_modes"])
    tree, number, feature, true, false = (
        np.asarray(lists[f"nodes_{name}"], np.int64)
        for name in ("treeids", "nodeids", "featureids", "truenodeids", "falsenodeids")
    )
    finder = _Finder(tree, number)
    branches = np.flatnonzero(modes != LEAF)
    firsts, seconds = np.zeros((2, len(modes)), np.int64)
    firsts[branches] = finder.find(tree[branches], true[branches], "the true branch of a node")
    seconds[branches] = finder.find(tree[branches], false[branches], "the false branch of a node")
    roots = np.unique(tree, return_index=True)[1]
    weights = _weights(node, kind, finder)
    return forest_of(modes, feature, values, np.asarray(tracks) != 0, firsts, seconds, roots, weights)


def _floats(node: Node, name: str) -> Floats:
    """A list of floats, or the tensor that takes its place."""
    if node.has(f"{name}_as_tensor"):
        return np.asarray(node.attr(f"{name}_as_tensor")).reshape(-1)
    return np.asarray(node.attr(name, []), np.float32)


def _modes(names: Sequence[str]) -> Integers:
    numbers = {name: number for number, name in enumerate(MODES) if number != MEMBER}
    unknown = sorted(set(names) - set(numbers))
    if unknown:
        raise InvalidNode(f"nodes_modes has '{unknown[0]}', which is not one of {', '.join(numbers)}")
    return np.array([numbers[name] for name in names], np.int64)


def _weights(node: Node, kind: str, finder: _Finder) -> Weights:
    lists = {f"{kind}_{name}": node.attr(f"{kind}_{name}", None) for name in ("treeids", "nodeids", "ids")}
    values = _floats(node, f"{kind}_weights")
    check_lengths({**lists, f"{kind}_weights": values})
    tree, number, target = (np.asarray(entries, np.int64) for entries in lists.values())
    return Weights(finder.find(tree, number, "a weight"), target, values)


class _Finder:
    """Finds nodes by their tree and their number within it. Raises InvalidNode for a node that is given twice."""

    def __init__(self, tree: Integers, number: Integers):
        self._trees, self._numbers = np.unique(tree), np.unique(number)
        keys = self._key(tree, number)
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]
        twice = np.flatnonzero(self._keys[1:] == self._keys[:-1])
        if twice.size:
            place = self._order[twice[0]]
            raise InvalidNode(f"node {number[place]} of tree {tree[place]} is given twice")

    def find(self, tree: Integers, number: Integers, what: str) -> Integers:
        """The positions of nodes. Raises InvalidNode for one that is missing, to which ``what`` leads."""
        known = np.isin(tree, self._trees) & np.isin(number, self._numbers)
        keys = np.where(known, self._key(tree, number), -1)
        places = np.minimum(np.searchsorted(self._keys, keys), max(len(self._keys) - 1, 0))
        missing = np.flatnonzero(self._keys[places] != keys if len(self._keys) else np.ones(len(keys), bool))
        if missing.size:
            lost = missing[0]
            raise InvalidNode(f"{what} leads to node {number[lost]} of tree {tree[lost]}, which is missing")
        return self._order[places]

    def _key(self, tree: Integers, number: Integers) -> Integers:
        return np.searchsorted(self._trees, tree) * len(self._numbers) + np.searchsorted(self._numbers, number)


def forest_of_leaves(node: Node) -> Forest:
    """The forest of a TreeEnsemble, whose nodes and leaves are apart.

    Raises InvalidNode for lists of different lengths, an unknown mode, a position out of range, and sets that are
    missing.
    """
    names = ("featureids", "truenodeids", "falsenodeids", "trueleafs", "falseleafs")
    lists = {f"nodes_{name}": np.asarray(node.attr(f"nodes_{name}"), np.int64) for name in names}
    splits = np.asarray(node.attr("nodes_splits"))
    modes = np.asarray(node.attr("nodes_modes")).astype(np.int64)
    tracks = node.attr("nodes_missing_value_tracks_true", None) or np.zeros(len(splits))
    check_lengths({**lists, "nodes_splits": splits, "nodes_modes": modes, "nodes_missing_value_tracks_true": tracks})
    targets, values = np.asarray(node.attr("leaf_targetids"), np.int64), np.asarray(node.attr("leaf_weights"))
    check_lengths({"leaf_targetids": targets, "leaf_weights": values})
    if modes.size and not 0 <= modes.min() <= modes.max() <= MEMBER:
        raise InvalidNode("nodes_modes has a mode that is not known")
    feature, true, false, true_leaf, false_leaf = lists.values()
    roots, count = np.asarray(node.attr("tree_roots"), np.int64), len(modes)
    _check_range("tree_roots", roots, count, "nodes")
    children = []
    for name, place, leaf in (("true", true, true_leaf != 0), ("false", false, false_leaf != 0)):
        _check_range(f"nodes_{name}nodeids", place[~leaf], count, "nodes")
        _check_range(f"nodes_{name}nodeids", place[leaf], len(values), "leaves")
        children.append(place + leaf * count)  # leaves follow the nodes
    # A tree that is one leaf is a node with this leaf on both sides.
    ends = np.full(len(values), LEAF)
    unused = np.zeros(len(values), np.int64)
    return forest_of(
        np.append(modes, ends),
        np.append(feature, unused),
        np.append(splits, unused.astype(splits.dtype)),
        np.append(np.asarray(tracks) != 0, unused != 0),
        np.append(children[0], unused),
        np.append(children[1], unused),
        roots,
        Weights(count + np.arange(len(values)), targets, values),
        _sets(node, int((modes == MEMBER).sum()), splits.dtype),
    )


def _check_range(name: str, values: Integers, count: int, what: str) -> None:
    wrong = values[(values < 0) | (values >= count)]
    if wrong.size:
        raise InvalidNode(f"{name} has {wrong[0]}, and there are {count} {what}")


def _sets(node: Node, count: int, dtype: np.dtype) -> list[Floats]:
    """The set of each membership node: they come in the nodes' order, ended by NaN each."""
    members = np.asarray(node.attr("membership_values", np.zeros(0))).astype(dtype)
    ends = np.flatnonzero(np.isnan(members))
    if len(ends) != count:
        raise InvalidNode(f"membership_values has {len(ends)} sets for {count} nodes")
    return [part[~np.isnan(part)] for part in np.split(members, ends + 1)[:-1]] if count else []
