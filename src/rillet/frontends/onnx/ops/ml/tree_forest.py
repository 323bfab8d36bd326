"""A forest as arrays: what every version of ONNX's tree ensembles comes to. Nothing here builds IR.

Any test becomes one of three: ``x <= t``, ``x < t`` and ``x == t``. The others exchange the children, and a test for
membership in a set becomes a search of the sorted set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rillet.frontends.errors import InvalidNode

Array: TypeAlias = npt.NDArray[np.generic]

# The tests of a node, in the order of TreeEnsemble's numbers.
LEQ, LT, GTE, GT, EQ, NEQ, MEMBER = range(7)
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF")
LEAF = MODES.index("LEAF")
_EXCHANGED = {GTE: LT, GT: LEQ, NEQ: EQ}  # the test that holds where the other one does not


@dataclass(frozen=True)
class Weights:
    """What leaves add to targets: one entry for each pair of a leaf and a target."""

    leaf: npt.NDArray[np.int64]  # a node
    target: npt.NDArray[np.int64]
    value: npt.NDArray[np.floating]


@dataclass(frozen=True)
class Forest:
    """The nodes of all trees. Of a leaf, only ``test`` matters."""

    test: npt.NDArray[np.int64]  # LEQ, LT, EQ or LEAF
    feature: npt.NDArray[np.int64]
    threshold: npt.NDArray[np.floating]
    nan_holds: npt.NDArray[np.bool_]  # whether the test holds for NaN
    first: npt.NDArray[np.int64]  # the child where the test holds
    second: npt.NDArray[np.int64]  # the other child
    roots: npt.NDArray[np.int64]  # of the trees
    weights: Weights


def check_lengths(lists: dict[str, Sequence[object] | Array | None]) -> None:
    """Raises InvalidNode for attributes that are missing or differ in length."""
    missing = [name for name, values in lists.items() if values is None]
    if missing:
        raise InvalidNode(f"attribute '{missing[0]}' is missing")
    (first, length), *rest = [(name, len(values)) for name, values in lists.items() if values is not None]
    for name, other in rest:
        if other != length:
            raise InvalidNode(f"{name} has {other} elements, and {first} {length}")


def forest_of(
    modes: npt.NDArray[np.int64],
    feature: npt.NDArray[np.int64],
    threshold: npt.NDArray[np.floating],
    nan_tracks_true: npt.NDArray[np.bool_],
    true: npt.NDArray[np.int64],
    false: npt.NDArray[np.int64],
    roots: npt.NDArray[np.int64],
    weights: Weights,
    members: Sequence[npt.NDArray[np.floating]] = (),
) -> Forest:
    """The forest of nodes whose ``modes`` are positions in ``MODES``; ``members``: the set of each MEMBER node.

    Raises InvalidNode for a negative feature and for nodes on a cycle.
    """
    nan_is_true = nan_tracks_true | (modes == NEQ)  # NaN is unequal to everything; no other test holds for it
    modes, threshold = _comparable(modes, threshold)
    exchanged = np.isin(modes, list(_EXCHANGED))
    test = modes.copy()
    for mode, opposite in _EXCHANGED.items():
        test[modes == mode] = opposite
    nodes: list[Any] = [
        test,
        feature,
        threshold,
        np.where(exchanged, ~nan_is_true, nan_is_true),
        np.where(exchanged, false, true),
        np.where(exchanged, true, false),
    ]
    if members:
        nodes = _searched(nodes, np.flatnonzero(modes == MEMBER), members)
    test, feature, threshold, nan_holds, first, second = nodes
    forest = Forest(test, feature, threshold, nan_holds, first, second, roots, weights)
    branches = forest.test != LEAF
    if branches.any() and forest.feature[branches].min() < 0:
        raise InvalidNode(f"a node tests feature {forest.feature[branches].min()}")
    _check_ends(forest)
    return forest


def _comparable(
    modes: npt.NDArray[np.int64], threshold: npt.NDArray[np.floating]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.floating]]:
    """The modes and thresholds without NaN: no number is less than -inf, and all are at least that."""
    is_nan = np.isnan(threshold) & (modes != LEAF) & (modes != MEMBER)
    always = np.where(modes == NEQ, GTE, LT)
    return np.where(is_nan, always, modes), np.where(is_nan, -np.inf, threshold).astype(threshold.dtype)


def _searched(nodes: list[Any], places: Array, members: Sequence[Array]) -> list[Any]:
    """The nodes with a search in place of each MEMBER node: tests of order, and one of equality at their end."""
    columns = [list(column) for column in nodes]

    def put(place: int | None, *values: object) -> int:
        """Write a node at ``place``, or behind the others."""
        if place is None:
            for column, value in zip(columns, values, strict=True):
                column.append(value)
            return len(columns[0]) - 1
        for column, value in zip(columns, values, strict=True):
            column[place] = value
        return place

    def search(values: Array, place: int | None, of: tuple[int, bool, int, int]) -> int:
        feature, nan_holds, true, false = of
        if len(values) == 1:
            return put(place, EQ, feature, values[0], nan_holds, true, false)
        middle = (len(values) - 1) // 2
        place = put(place, LEQ, feature, values[middle], nan_holds, 0, 0)
        columns[4][place] = search(values[: middle + 1], None, of)
        columns[5][place] = search(values[middle + 1 :], None, of)
        return place

    for place, values in zip(places, members, strict=True):
        _, feature, _, nan_holds, true, false = (column[place] for column in columns)
        if len(values):
            search(np.unique(values), int(place), (feature, nan_holds, true, false))
        else:  # nothing is a member of no set
            put(int(place), LT, feature, -np.inf, nan_holds, true, false)
    return [np.array(column, array.dtype) for column, array in zip(columns, nodes, strict=True)]


def reachable(forest: Forest) -> npt.NDArray[np.bool_]:
    """Whether a way from some root leads to each node."""
    found = np.zeros(len(forest.test), bool)
    level = np.unique(forest.roots)
    while len(level):
        found[level] = True
        branches = level[forest.test[level] != LEAF]
        below = np.unique(np.concatenate([forest.first[branches], forest.second[branches]]))
        level = below[~found[below]]
    return found


def _check_ends(forest: Forest) -> None:
    """Raises InvalidNode unless every way from a root ends at a leaf."""
    open_ = np.flatnonzero(reachable(forest) & (forest.test != LEAF))
    ends = forest.test == LEAF
    while len(open_):
        done = ends[forest.first[open_]] & ends[forest.second[open_]]
        if not done.any():
            raise InvalidNode(f"its nodes form a cycle, which node {open_[0]} of the lists leads to")
        ends[open_[done]] = True
        open_ = open_[~done]
