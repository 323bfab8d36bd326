"""TfIdfVectorizer on integers: counts of n-grams (those of strings are not supported)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from torch_mlir import ir

from rillet.frontends.building.conversions import convert
from rillet.frontends.building.loops import for_range, scalar_of, store
from rillet.frontends.building.scalars import Scalar, constant, minimum, select
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.registry import op


@op("TfIdfVectorizer", since=9)
def tf_idf_vectorizer(node: Node, x: Tensor) -> Tensor:
    """The number of times that each n-gram of the pool occurs in a row.

    Its items are 1 to max_skip_count + 1 places apart, the same distance between all of them.

    Mode IDF gives the n-gram's weight where it occurs, TFIDF the weight times the count. Raises InvalidNode for an
    unknown mode, and UnsupportedFeature for strings.
    """
    b = node.b
    if node.has("pool_strings"):
        raise UnsupportedFeature("n-grams of strings", "number the strings before the model")
    mode = node.attr("mode")
    if mode not in ("TF", "IDF", "TFIDF"):
        raise InvalidNode(f"mode '{mode}' is not one of TF, IDF, TFIDF")
    places = np.asarray(node.attr("ngram_indexes"), np.int64)
    width = int(places.max()) + 1
    weights = np.zeros(width, np.float32)
    weights[places] = np.asarray(node.attr("weights", None) or np.ones(len(places)), np.float32)
    rows = x.shape[0] if x.rank == 2 else 1
    length = x.shape[-1] if x.rank else 1
    matrix = b.reshape(x, [rows, length])
    source = b.value(matrix)
    counts = b.init(0, "float32", [rows, width])
    number = 0
    for size, grams in _grams(node):
        if grams.shape[0] and node.attr("min_gram_length") <= size <= node.attr("max_gram_length"):
            table = b.value(b.constant(grams, name="ngrams"))
            targets = b.value(b.constant(places[number : number + len(grams)], name="places"))
            # Single items have no distance between them, so they are counted once.
            skips = node.attr("max_skip_count") + 1 if size > 1 else 1
            counts = _count(node, source, matrix, counts, table, targets, grams.shape, skips)
        number += len(grams)
    total = b.tensor(counts, "float32", [rows, width])
    factors = b.constant(weights, name="weights")

    def weigh(count: Scalar, weight: Scalar) -> Scalar:
        if mode == "TF":
            return count
        return count * weight if mode == "TFIDF" else select(count > 0.0, weight, 0.0)

    result = b.map(weigh, total, factors)
    return result if x.rank == 2 else b.reshape(result, [width])


def _grams(node: Node) -> list[tuple[int, np.ndarray]]:
    """The pool by size of n-gram: [count, size] each."""
    pool = np.asarray(node.attr("pool_int64s"), np.int64)
    bounds = [*node.attr("ngram_counts"), len(pool)]
    return [(size, pool[first:last].reshape(-1, size)) for size, (first, last) in enumerate(pairwise(bounds), 1)]


def _count(
    node: Node,
    source: ir.Value,
    matrix: Tensor,
    counts: ir.Value,
    table: ir.Value,
    targets: ir.Value,
    shape: tuple[int, ...],
    skips: int,
) -> ir.Value:
    b = node.b
    count, size = shape
    rows, length = matrix.shape
    last = scalar_of(length) - 1

    def gram(row: Scalar, skip: Scalar, start: Scalar, g: Scalar, result: ir.Value) -> ir.Value:
        match = constant(True, "bool")
        for k in range(size):
            at = start + skip * k
            item = convert(b.element(source, matrix.dtype, [row, minimum(at, last)]), "int64")
            match = match & (at <= last) & (item == b.element(table, "int64", [g, k]))
        place = convert(b.element(targets, "int64", [g]), "index")
        old = b.element(result, "float32", [row, place])
        return store(old + convert(match, "float32"), "float32", result, [row, place])

    def starts(row: Scalar, skip: Scalar, start: Scalar, result: ir.Value) -> ir.Value:
        return for_range(0, count, [result], lambda g, inner: gram(row, skip, start, g, inner))[0]

    def distances(row: Scalar, skip: Scalar, result: ir.Value) -> ir.Value:
        return for_range(0, length, [result], lambda start, inner: starts(row, skip, start, inner))[0]

    def one_row(row: Scalar, result: ir.Value) -> ir.Value:
        return for_range(1, skips + 1, [result], lambda skip, inner: distances(row, skip, inner))[0]

    return for_range(0, rows, [counts], one_row)[0]
