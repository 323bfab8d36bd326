"""Attention over the pixels of an image: what the layout of convolutions asks of a product turns its operands."""

from __future__ import annotations

import numpy as np

from rillet import optimize
from rillet.ir.contraction import contraction
from rillet.ir.structured import copy_permutation, structured, walk
from tests.support import optimize_graphs as graphs
from tests.support.onnx_interpreter import evaluate
from tests.support.optimize_graphs import Graph

SHAPE = (1, 16, 6, 5)
PIXELS = 6 * 5


def ints(g: Graph, *values: int) -> str:
    return g.array(np.array(values, np.int64))


def attention(g: Graph, x: str) -> str:
    """Two heads of 8 channels; pixels are columns of queries, keys and values."""
    q, k, v = (g("Reshape", g.conv(x, 16, 16, 1), ints(g, 1, 2, 8, PIXELS)) for _ in range(3))
    scores = g("Softmax", g("MatMul", g("Transpose", q, perm=[0, 1, 3, 2]), k), axis=-1)
    y = g("MatMul", v, g("Transpose", scores, perm=[0, 1, 3, 2]))
    return g.conv(g("Add", g("Reshape", y, ints(g, *SHAPE)), g.conv(x, 16, 16, 3, group=16)), 16, 16, 1)


def test_results_are_the_same() -> None:
    x = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)
    (expected,) = evaluate(graphs.program(attention, SHAPE), [x])
    program = graphs.optimized(attention, SHAPE)
    optimize.check(program)
    (actual,) = evaluate(program, [x])
    np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-6 * np.abs(expected).max())


def test_products_have_their_columns_last_and_nothing_is_transposed_between_them() -> None:
    program = graphs.optimized(attention, SHAPE)
    products = 0
    for op in walk(program.main()):
        view = structured(op)
        roles = contraction(view) if view is not None else None
        if view is not None and roles is not None and not roles.is_convolution:
            products += 1
            assert view.init_maps[0][-1] in roles.n
    assert products == 2
    copies = [p for op in walk(program.main()) if (p := copy_permutation(op)) is not None and p != tuple(range(len(p)))]
    assert len(copies) == 2  # of the input and the result
    elementwise = [v for op in walk(program.main()) if (v := structured(op)) is not None and v.is_elementwise]
    scores = [v for v in elementwise if v.op.results[0].type.shape == [1, 2, PIXELS, PIXELS]]
    assert scores
    assert all(v.input_maps[0] == v.init_maps[0] for v in scores)
