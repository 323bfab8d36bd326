"""Random forests as ONNX writes them, and what they compute, node by node."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "BRANCH_LEQ": operator.le,
    "BRANCH_LT": operator.lt,
    "BRANCH_GTE": operator.ge,
    "BRANCH_GT": operator.gt,
    "BRANCH_EQ": operator.eq,
    "BRANCH_NEQ": operator.ne,
}


def forest(
    trees: int,
    depth: int,
    features: int,
    *,
    modes: Sequence[str] = ("BRANCH_LEQ",),
    missing: Sequence[int] = (0,),
    targets: Callable[[np.random.Generator, int], Sequence[int]] = lambda random, tree: [0],
    kind: str = "target",
    seed: int = 0,
) -> dict[str, Any]:
    """Attributes of trees of uneven depth whose thresholds are small integers, so that features meet them.

    ``modes`` and ``missing`` are drawn from for each node; ``targets`` says which targets a leaf of a tree has weights
    for. Trees and nodes are numbered with gaps.
    """
    random = np.random.default_rng(seed)
    lists: dict[str, list[Any]] = {f"nodes_{n}": [] for n in ("treeids", "nodeids", "featureids", "values", "modes")}
    lists |= {f"nodes_{n}": [] for n in ("truenodeids", "falsenodeids", "missing_value_tracks_true")}
    lists |= {f"{kind}_{n}": [] for n in ("treeids", "nodeids", "ids", "weights")}

    def node(tree: int, number: int, level: int) -> int:
        """Append a node and those below it; returns the next free number."""
        leaf = level == depth or (level > 0 and random.random() < 0.2)
        values = [3 * tree, number, int(random.integers(features)), float(random.integers(-3, 4))]
        values += ["LEAF" if leaf else str(random.choice(modes)), 0, 0, int(random.choice(missing))]
        at = len(lists["nodes_modes"])
        for name, value in zip(list(lists)[:8], values, strict=True):
            lists[name].append(value)
        if leaf:
            for target in targets(random, tree):
                weight = float(np.float32(random.standard_normal()))
                for name, value in zip(
                    ("treeids", "nodeids", "ids", "weights"), (*values[:2], target, weight), strict=True
                ):
                    lists[f"{kind}_{name}"].append(value)
            return number + 2
        lists["nodes_truenodeids"][at] = number + 2
        lists["nodes_falsenodeids"][at] = middle = node(tree, number + 2, level + 1)
        return node(tree, middle, level + 1)

    for tree in range(trees):
        node(tree, 1, 0)
    return lists


def leaves(attributes: dict[str, Any], x: np.ndarray) -> list[list[tuple[int, int]]]:
    """The (tree, node) that each row reaches in each tree."""
    a = attributes
    place = {key: n for n, key in enumerate(zip(a["nodes_treeids"], a["nodes_nodeids"], strict=True))}
    roots = {tree: n for n, tree in reversed(list(enumerate(a["nodes_treeids"])))}

    def reached(row: np.ndarray, at: int, tree: int) -> tuple[int, int]:
        while (mode := a["nodes_modes"][at]) != "LEAF":
            value = row[a["nodes_featureids"][at]]
            holds = COMPARE[mode](value, a["nodes_values"][at])
            holds = holds or (value != value and a["nodes_missing_value_tracks_true"][at])
            at = place[tree, a["nodes_truenodeids" if holds else "nodes_falsenodeids"][at]]
        return tree, a["nodes_nodeids"][at]

    return [[reached(row, roots[tree], tree) for tree in sorted(roots)] for row in x]


def scores(
    attributes: dict[str, Any], x: np.ndarray, targets: int, aggregate: str = "SUM", kind: str = "target"
) -> np.ndarray:
    """The leaves' weights by target, [rows, targets] in float64; 0 where no leaf has one."""
    a = attributes
    weights: dict[tuple[int, int], list[tuple[int, float]]] = {}
    keys = zip(*(a[f"{kind}_{n}"] for n in ("treeids", "nodeids", "ids", "weights")), strict=True)
    for tree, number, target, weight in keys:
        weights.setdefault((tree, number), []).append((target, weight))
    combine: Callable[[list[float]], float] = {"MIN": min, "MAX": max}.get(aggregate, sum)
    result = np.zeros((len(x), targets))
    for row, reached in enumerate(leaves(attributes, x)):
        found: dict[int, list[float]] = {}
        for leaf in reached:
            for target, weight in weights.get(leaf, []):
                found.setdefault(target, []).append(weight)
        for target, values in found.items():
            result[row, target] = combine(values)
        if aggregate == "AVERAGE":
            result[row] /= len(reached)
    return result
