"""Contractions that are used in slices become one for each slice, where that pays; the results stay the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from rillet.ir.contraction import contraction
from rillet.ir.structured import copy_permutation, structured, walk
from rillet.optimize.layouts import sink_reshapes, sink_transposes
from tests.support import optimize_graphs as graphs
from tests.support.onnx_interpreter import evaluate
from tests.support.optimize_graphs import Graph

Build = Callable[[Graph, str], str | Sequence[str]]


def split(g: Graph, x: str, axis: int, *sizes: int) -> list[str]:
    """``x`` cut along ``axis`` into parts of ``sizes``."""
    ends = np.cumsum(sizes)
    return [
        g("Slice", x, *(g.array(np.array([v])) for v in (end - size, end, axis)))
        for size, end in zip(sizes, ends, strict=True)
    ]


def project(g: Graph, x: str, columns: int) -> str:
    return g("Add", g("MatMul", x, g.weights(16, columns)), g.weights(columns))


def attention(g: Graph, x: str) -> str:
    """Queries, keys and values by one product: cut apart after a transposition."""
    y = g("Reshape", project(g, x, 48), g.array(np.array([1, 12, 3, 2, 8])))
    y = g("Transpose", y, perm=[2, 0, 3, 1, 4])
    q, k, v = (g("Gather", y, g.array(np.array(i)), axis=0) for i in range(3))
    scores = g("Softmax", g("MatMul", q, g("Transpose", k, perm=[0, 1, 3, 2])), axis=-1)
    mixed = g("Transpose", g("MatMul", scores, v), perm=[0, 2, 1, 3])
    return g("Reshape", mixed, g.array(np.array([1, 12, 16])))


def within_heads(g: Graph, x: str) -> str:
    """Each of two heads has its query, key and value side by side."""
    y = g("Transpose", g("Reshape", project(g, x, 96), g.array(np.array([1, 12, 2, 48]))), perm=[0, 2, 1, 3])
    q, k, v = split(g, y, 3, 16, 16, 16)
    return g("MatMul", g("MatMul", q, g("Transpose", k, perm=[0, 1, 3, 2])), v)


def gate(g: Graph, x: str) -> str:
    """One half of the columns gates the other, through two operations."""
    a, b = split(g, project(g, x, 32), 2, 16, 16)
    return g("Mul", a, g("Sigmoid", b))


def unused_part(g: Graph, x: str) -> list[str]:
    first, _, third = split(g, project(g, x, 48), 2, 16, 16, 16)
    return [first, third]


def activated(g: Graph, x: str) -> list[str]:
    """A convolution whose activation reads its result twice, cut along the channels."""
    y = g.conv(x, 4, 32, 1)
    return split(g, g("Mul", y, g("Sigmoid", y)), 1, 16, 16)


def read_whole(g: Graph, x: str) -> list[str]:
    y = project(g, x, 32)
    return [*split(g, y, 2, 16, 16), g("Relu", y)]


def overlapping(g: Graph, x: str) -> list[str]:
    y = project(g, x, 48)
    return [split(g, y, 2, 32)[0], split(g, y, 2, 16, 32)[1]]


def narrow(g: Graph, x: str) -> list[str]:
    return split(g, project(g, x, 16), 2, 8, 8)


def deep(g: Graph, x: str) -> list[str]:
    """To read the left operand twice costs more than to copy the columns."""
    y = g("MatMul", g("Concat", *[x] * 8, axis=2), g.weights(128, 32))
    return split(g, y, 2, 16, 16)


def along_rows(g: Graph, x: str) -> list[str]:
    return split(g, project(g, x, 16), 1, 4, 8)


TOKENS, ROW, IMAGE = (1, 12, 16), (1, 1, 16), (1, 4, 6, 6)
# Name → model, its input, contractions and slices that are left.
CASES: dict[str, tuple[Build, Sequence[int | str], int, int]] = {
    "attention": (attention, TOKENS, 3 + 2, 0),
    "attention, cut within heads": (within_heads, TOKENS, 3 + 2, 0),
    "a gate": (gate, TOKENS, 2, 0),
    "a gate, any number of rows": (gate, (1, "rows", 16), 2, 0),
    "a part that nothing uses": (unused_part, TOKENS, 2, 0),
    "a convolution": (activated, IMAGE, 2, 0),
    "left alone: one row, whose slices are free": (gate, ROW, 1, 2),
    "left alone: read as a whole too": (read_whole, TOKENS, 1, 2),
    "left alone: overlapping slices": (overlapping, TOKENS, 1, 2),
    "left alone: less than a vector": (narrow, TOKENS, 1, 2),
    "left alone: a long sum": (deep, TOKENS, 1, 2),
    "left alone: slices of rows": (along_rows, TOKENS, 1, 2),
}


@pytest.mark.parametrize("case", CASES)
def test_results_are_the_same(case: str) -> None:
    build, shape, _, _ = CASES[case]
    x = np.random.default_rng(1).standard_normal([7 if isinstance(e, str) else e for e in shape]).astype(np.float32)
    expected = evaluate(graphs.program(build, shape), [x])
    for actual, reference in zip(evaluate(graphs.optimized(build, shape), [x]), expected, strict=True):
        assert actual.shape == reference.shape
        np.testing.assert_allclose(actual, reference, rtol=0, atol=2e-6 * np.abs(reference).max())


@pytest.mark.parametrize("case", CASES)
def test_contractions_are_split_where_it_pays(case: str) -> None:
    build, shape, contractions, slices = CASES[case]
    program = graphs.optimized(build, shape)
    views = [view for op in walk(program.main()) if (view := structured(op)) is not None]
    assert sum(contraction(view) is not None for view in views) == contractions
    assert sum(op.name == "tensor.extract_slice" for op in walk(program.main())) == slices


def test_parts_are_read_in_place() -> None:
    """What is left is the transposition behind the attention. Nothing moves to and fro."""
    program = graphs.optimized(attention, TOKENS)
    assert sum(copy_permutation(op) is not None for op in walk(program.main())) == 1
    assert not sink_transposes.sink(program)
    assert not sink_reshapes.sink(program)
