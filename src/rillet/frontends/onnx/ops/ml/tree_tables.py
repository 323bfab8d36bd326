"""A forest as tables in memory, made to be walked fast.

A node is a *record* of two words of one width: its threshold, as bits; and from the lowest bit its feature, its flags,
a mark that tells leaves, and the position of its first child, with the second child right behind. So the next position
is the first child's, plus one where the test does not hold: no branch of the processor depends on the data. The
records of a tree lie together, level by level.

A leaf leads to itself: its threshold is a NaN, for which its test always comes out alike. So steps beyond a leaf do
nothing, and several walks may go side by side until the last of them ends. The NaN's low bits are the number of the
leaf's row of weights. Equal rows are kept once.

Where each tree has weights for one target only, a row is one weight, and a table of roots has a row for each target.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rillet.frontends.onnx.ops.ml.tree_forest import EQ, LEAF, LEQ, LT, Forest, Weights, reachable

_TESTS = (LEQ, LT, EQ)
_NAN = {32: 0x7FC00000, 64: 0x7FF8 << 48}  # the bits of NaN by the float's width; the low ones are free
_FREE = {32: 22, 64: 51}


@dataclass(frozen=True)
class Word:
    """How the second word of a record is laid out, from the lowest bit; ``width``: the bits of either word."""

    width: int
    feature: int  # bits
    tests: tuple[int, ...]  # the tests that occur; with several, a flag for each says which one a node makes
    nan: bool | None  # whether the tests hold for NaN; None: a flag says so for each node

    @property
    def nan_flag(self) -> int:
        """The place of the flag for NaN."""
        return self.feature + (len(self.tests) if len(self.tests) > 1 else 0)

    @property
    def mark(self) -> int:
        """The place of the mark of a leaf."""
        return self.nan_flag + (self.nan is None)

    @property
    def child(self) -> int:
        """The place of the first child's position."""
        return self.mark + 1

    @property
    def fails_at_leaf(self) -> bool:
        """Whether the test of a leaf comes out as not holding: without flags, and where it would not hold for NaN."""
        return len(self.tests) == 1 and self.nan is False


@dataclass(frozen=True)
class Tables:
    """A forest in memory. ``weights``: [rows, targets], with ``roots`` [trees]; or [rows], with [targets, trees]."""

    records: npt.NDArray[np.signedinteger]  # [nodes, 2]
    roots: npt.NDArray[np.int32]
    weights: npt.NDArray[np.floating]
    word: Word
    row_bits: int  # the low bits of a leaf's first word that are the number of its row


def tables_of(forest: Forest, targets: int, dtype: str, identity: float, *, has_nan: bool) -> Tables:
    """The tables of a forest that compares and sums in ``dtype``, to which thresholds and weights are rounded.

    ``identity`` is a leaf's weight for a target that it says nothing of; ``has_nan``: whether a feature may be NaN.
    """
    nodes, first_child, trees, starts = _laid_out(forest)
    weights = _of_leaves(forest)
    tree_targets = _one_target_each(weights, nodes, trees, len(forest.roots))
    numbers, rows = _weight_rows(weights, len(forest.test), targets, dtype, identity, whole=tree_targets is None)
    if tree_targets is not None:
        # Rows of roots are filled up with a leaf that adds nothing: the last record, and node -1.
        starts = _by_target(starts, tree_targets, targets, null=len(nodes))
        nodes, first_child = np.append(nodes, -1), np.append(first_child, 0)
    bits = np.dtype(dtype).itemsize * 8
    word = _word_for(forest, nodes, bits, len(rows), has_nan)
    records = _records(forest, nodes, first_child, _bits(forest.threshold.astype(dtype)), _NAN[bits] | numbers, word)
    return Tables(records, starts.astype(np.int32), rows, word, _FREE[bits])


def _of_leaves(forest: Forest) -> Weights:
    """The weights without those of branches, which no way ends at."""
    weights = forest.weights
    kept = forest.test[weights.leaf] == LEAF
    return Weights(weights.leaf[kept], weights.target[kept], weights.value[kept])


def _laid_out(
    forest: Forest,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The node of each record, the position of its first child (0 for a leaf), its tree; the roots' positions.

    A node that several others lead to is expanded once, so the records grow no faster than the nodes.
    """
    pairs = np.full(len(forest.test), -1)  # where a node's children lie
    nodes, trees = [forest.roots], [np.arange(len(forest.roots))]
    count = len(forest.roots)
    while len(nodes[-1]):
        is_new = (forest.test[nodes[-1]] != LEAF) & (pairs[nodes[-1]] < 0)
        parents, places = np.unique(nodes[-1][is_new], return_index=True)
        parents = parents[np.argsort(places)]  # in the order of their records
        pairs[parents] = count + 2 * np.arange(len(parents))
        count += 2 * len(parents)
        owners = trees[-1][is_new][np.sort(places)]
        nodes.append(np.stack([forest.first[parents], forest.second[parents]], 1).reshape(-1))
        trees.append(np.repeat(owners, 2))
    node, tree = np.concatenate(nodes), np.concatenate(trees)
    order = np.argsort(tree, kind="stable")  # pairs stay together, and levels in order
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    children = pairs[node[order]]
    first_child = np.where(children < 0, 0, place[np.maximum(children, 0)])
    return node[order], first_child, tree[order], place[: len(forest.roots)]


def _one_target_each(
    weights: Weights, nodes: npt.NDArray[np.int64], trees: npt.NDArray[np.int64], count: int
) -> npt.NDArray[np.int64] | None:
    """The only target that each tree has weights for, -1 for none; None where a tree has several, or a leaf does."""
    if len(np.unique(weights.leaf)) != len(weights.leaf):
        return None
    of_leaf = np.full(max(nodes.max(initial=0), weights.leaf.max(initial=0)) + 1, -1)
    of_leaf[weights.leaf] = weights.target
    found = of_leaf[nodes]
    low, high = np.full(count, np.iinfo(np.int64).max), np.full(count, -1)
    np.minimum.at(low, trees[found >= 0], found[found >= 0])
    np.maximum.at(high, trees, found)
    return high if ((low == high) | (high < 0)).all() else None


def _by_target(
    starts: npt.NDArray[np.int64], tree_targets: npt.NDArray[np.int64], targets: int, null: int
) -> npt.NDArray[np.int64]:
    """[targets, trees]: the roots of each target's trees; rows are filled up with ``null``."""
    groups = [starts[tree_targets == target] for target in range(targets)]
    table = np.full((targets, max(1, *map(len, groups))), null)
    for row, group in zip(table, groups, strict=True):
        row[: len(group)] = group
    return table


def _weight_rows(
    weights: Weights, nodes: int, targets: int, dtype: str, identity: float, *, whole: bool
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.floating]]:
    """For each node, and for a leaf that adds nothing, the number of its row of weights; and the rows.

    ``whole``: a row has a weight for each target; otherwise it is one weight, and leaves have one at most.
    """
    leaves, position = np.unique(weights.leaf, return_inverse=True)
    combine = {0.0: np.add, np.inf: np.minimum, -np.inf: np.maximum}[identity]
    # The last row is for leaves without weights.
    rows = np.full((len(leaves) + 1, targets if whole else 1), identity, np.float64)
    column = weights.target if whole else np.zeros_like(weights.target)
    combine.at(rows, (position, column), weights.value)  # type: ignore[arg-type]
    distinct, numbers = np.unique(rows.astype(dtype), axis=0, return_inverse=True)
    numbers = numbers.reshape(-1)
    of_node = np.full(nodes + 1, numbers[-1])
    of_node[leaves] = numbers[:-1]
    return of_node, distinct if whole else distinct[:, 0]


def _word_for(forest: Forest, nodes: npt.NDArray[np.int64], width: int, rows: int, has_nan: bool) -> Word:
    """The layout of the records' second word; twice as wide where something does not fit."""
    branches = reachable(forest) & (forest.test != LEAF)
    present = tuple(test for test in _TESTS if (forest.test[branches] == test).any())
    kinds = set(forest.nan_holds[branches].tolist()) if has_nan else set()
    nan = None if len(kinds) > 1 else next(iter(kinds), False)
    feature = int(forest.feature[branches].max(initial=0)).bit_length()
    word = Word(width, feature, present or (LEQ,), nan)
    fits = word.child + len(nodes).bit_length() < width and rows < 1 << _FREE[width]
    return word if fits else Word(64, feature, word.tests, nan)


def _records(
    forest: Forest,
    nodes: npt.NDArray[np.int64],
    first_child: npt.NDArray[np.int64],
    thresholds: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    word: Word,
) -> npt.NDArray[np.signedinteger]:
    """[nodes, 2]: the record of each node; node -1 is a leaf, whose first word is the last one of ``ends``."""
    is_leaf = (nodes < 0) | (forest.test[nodes] == LEAF)
    own = forest.feature[nodes] | first_child << word.child
    if len(word.tests) > 1:
        for number, test in enumerate(word.tests):
            own |= (forest.test[nodes] == test).astype(np.int64) << (word.feature + number)
    if word.nan is None:
        own |= forest.nan_holds[nodes].astype(np.int64) << word.nan_flag
    itself = np.arange(len(nodes)) - word.fails_at_leaf
    leaf = itself << word.child | 1 << word.mark | (1 << word.nan_flag if word.nan is None else 0)
    first, second = np.where(is_leaf, ends[nodes], thresholds[nodes]), np.where(is_leaf, leaf, own)
    return np.stack([first, second], 1).astype(f"int{word.width}")


def _bits(values: npt.NDArray[np.floating]) -> npt.NDArray[np.int64]:
    """The bits of floats."""
    return values.view(f"i{values.itemsize}").astype(np.int64)
