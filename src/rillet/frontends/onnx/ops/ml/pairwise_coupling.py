"""The probabilities of classes from those of their pairs.

Source: T.-F. Wu, C.-J. Lin and R. C. Weng, Probability estimates for multi-class classification by pairwise coupling
(2004), algorithm 2, with libsvm's end: a change below 0.005 / classes, or 100 rounds.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from torch_mlir import ir

from rillet.frontends.building.conversions import convert
from rillet.frontends.building.loops import for_range, store
from rillet.frontends.building.scalars import Scalar, absolute, constant, maximum, select
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.onnx.node import Node

_ROUNDS = 100
_TOLERANCE = 0.005


def coupled(node: Node, pairs: Tensor, classes: int) -> Tensor:
    """[rows, classes] from [rows, pairs]: the probability of the first class of each pair, in lexicographic order."""
    b, dtype, rows = node.b, pairs.dtype, pairs.shape[0]
    q = b.value(_quadratic_form(node, pairs, classes))

    def one_row(row: Scalar, p: ir.Value, qp: ir.Value) -> list[ir.Value]:
        state = [p, qp, constant(False, "bool").value]
        return for_range(0, _ROUNDS, state, lambda _, *inner: _round(node, q, dtype, classes, row, *inner))[:2]

    start = [b.init(1.0 / classes, dtype, [rows, classes]), b.init(0, dtype, [rows, classes])]
    return b.tensor(for_range(0, rows, start, one_row)[0], dtype, [rows, classes])


def _quadratic_form(node: Node, pairs: Tensor, classes: int) -> Tensor:
    """[rows, classes, classes]: the form that the probabilities minimize.

    With r_ij the probability of i against j, it is the sum over j of r_ji² at (i, i) and -r_ji r_ij at (i, j).
    """
    b, dtype = node.b, pairs.dtype
    place, direct = np.zeros((classes, classes), np.int64), np.zeros((classes, classes), bool)
    for number, (i, j) in enumerate(combinations(range(classes), 2)):
        place[i, j] = place[j, i] = number
        direct[i, j] = True
    source = b.value(pairs)
    places, flags = (b.value(b.constant(table, name="pairs")) for table in (place, direct))

    def against(row: Scalar, i: Scalar, j: Scalar) -> Scalar:
        value = b.element(source, dtype, [row, convert(b.element(places, "int64", [i, j]), "index")])
        return select(b.element(flags, "bool", [i, j]), value, 1.0 - value)

    def body(at: list[Scalar]) -> Scalar:
        row, i, j = at
        other = against(row, j, i)
        return select(i == j, constant(0.0, dtype), other * other)

    squares = b.reduce(b.indexed(dtype, [pairs.shape[0], classes, classes], body), [2], 0, lambda v, acc: acc + v)
    diagonal = b.value(squares)

    def entry(at: list[Scalar]) -> Scalar:
        row, i, j = at
        product = against(row, j, i) * against(row, i, j)
        return select(i == j, b.element(diagonal, dtype, [row, i]), -product)

    return b.indexed(dtype, [pairs.shape[0], classes, classes], entry)


def _round(
    node: Node,
    q: ir.Value,
    dtype: str,
    classes: int,
    row: Scalar,
    p: ir.Value,
    qp: ir.Value,
    done: ir.Value,
) -> list[ir.Value]:
    """One round over all classes of a row; its loops are empty once the row is done."""
    b = node.b
    none, every = constant(0, "index"), constant(classes, "index")
    zero = constant(0.0, dtype).value

    def multiply(i: Scalar, qp: ir.Value, total: ir.Value) -> list[ir.Value]:
        def add(j: Scalar, acc: ir.Value) -> ir.Value:
            return (Scalar(acc, dtype) + b.element(q, dtype, [row, i, j]) * b.element(p, dtype, [row, j])).value

        value = Scalar(for_range(0, classes, [zero], add)[0], dtype)
        grown = Scalar(total, dtype) + b.element(p, dtype, [row, i]) * value
        return [store(value, dtype, qp, [row, i]), grown.value]

    qp, total = for_range(0, select(Scalar(done, "bool"), none, every), [qp, zero], multiply)

    def worst(i: Scalar, largest: ir.Value) -> ir.Value:
        error = absolute(b.element(qp, dtype, [row, i]) - Scalar(total, dtype))
        return maximum(Scalar(largest, dtype), error).value

    error = Scalar(for_range(0, classes, [zero], worst)[0], dtype)
    finished = Scalar(done, "bool") | (error < _TOLERANCE / classes)

    def improve(i: Scalar, p: ir.Value, qp: ir.Value, total: ir.Value) -> list[ir.Value]:
        form, own, all_ = b.element(q, dtype, [row, i, i]), b.element(qp, dtype, [row, i]), Scalar(total, dtype)
        step = (all_ - own) / form
        scale = step + 1.0
        p = store(b.element(p, dtype, [row, i]) + step, dtype, p, [row, i])

        def rescale(j: Scalar, p: ir.Value, qp: ir.Value) -> list[ir.Value]:
            moved = b.element(qp, dtype, [row, j]) + step * b.element(q, dtype, [row, i, j])
            share = b.element(p, dtype, [row, j]) / scale
            return [store(share, dtype, p, [row, j]), store(moved / scale, dtype, qp, [row, j])]

        p, qp = for_range(0, classes, [p, qp], rescale)
        after = (all_ + step * (step * form + own * 2.0)) / scale / scale
        return [p, qp, after.value]

    p, qp, _ = for_range(0, select(finished, none, every), [p, qp, total], improve)
    return [p, qp, finished.value]
