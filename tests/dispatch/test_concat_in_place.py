"""Concatenations whose parts are written in place: what is left of them, and that results stay the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import rillet
from rillet import dispatch
from rillet.ir import Program
from rillet.ir.structured import walk
from tests.support import optimize_graphs as graphs
from tests.support.optimize_graphs import Graph
from tests.support.stages import passes

SHAPE = (1, 16, 20, 20)
Build = Callable[[Graph, str], str | list[str]]


def formed(build: Build) -> Program:
    program = graphs.program(build, SHAPE)
    for step in passes("optimize", "dispatch"):
        step(program)
    dispatch.check(program)
    return program


def kinds(build: Build) -> Counter[str]:
    program = formed(build)
    calls = [str(op.attributes["callee"])[1:] for op in walk(program.main()) if op.name == "func.call"]
    return Counter(name.split("_")[0] for name in calls)


def fire(g: Graph, x: str) -> str:
    """Two convolutions of one input, side by side."""
    x = g.conv(x, 16, 16, 1)
    y = g("Concat", g("Relu", g.conv(x, 16, 32, 1)), g("Relu", g.conv(x, 16, 24)), axis=1)
    return g.conv(y, 56, 16, 1)


def dense(g: Graph, x: str) -> str:
    """Each layer reads all that came before it, normalized."""
    x = g("MaxPool", g.conv(x, 16, 16, 1), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    for layer in range(4):
        channels = 16 + 8 * layer
        y = g.conv(g("Relu", g.norm(x, channels)), channels, 16, 1)
        x = g("Concat", x, g.conv(g("Relu", y), 16, 8), axis=1)
    return g("Relu", g.norm(x, 48))


def with_input(g: Graph, x: str) -> str:
    """One part is an input, which has to be copied."""
    y = g("Concat", x, g.conv(x, 16, 16), g.conv(x, 16, 16, 1), axis=1)
    return g.conv(y, 48, 8, 1)


def read_later(g: Graph, x: str) -> list[str]:
    """The first concatenation is read again after the second has been written: they cannot share memory."""
    first = g("Concat", g.conv(x, 16, 16), g.conv(x, 16, 16, 1), axis=1)
    part = g.conv(g("Relu", first), 32, 16, 1)
    second = g("Concat", first, part, axis=1)
    return [g("Conv", second, g.weights(8, 48, 1, 1)), g("Mul", first, g("Sigmoid", g.conv(second, 48, 32, 1)))]


def elementwise_parts(g: Graph, x: str) -> list[str]:
    y = g.conv(x, 16, 16)
    total = g("Concat", g("Sin", x), g("Mul", x, g.array(np.array(2.0, np.float32))), axis=1)
    return [g("MaxPool", total, kernel_shape=[2, 2]), y]


def rows(g: Graph, x: str) -> list[str]:
    """Along the first axis parts lie one behind the other."""
    y = g("Concat", g.conv(x, 16, 16), g.conv(x, 16, 16, 1), axis=0)
    return [g("Concat", y, g("Relu", g.conv(y, 16, 16)), axis=0)]


CASES = {f.__name__: f for f in (fire, dense, with_input, read_later, elementwise_parts, rows)}


def test_parts_are_written_by_what_makes_them() -> None:
    assert kinds(fire) == {"transpose": 2, "pad": 1, "conv": 4}
    program = formed(fire)
    text = program.module.operation.get_asm()
    assert "tensor.concat" not in text
    assert text.count("flow.tied") == 2  # one kernel and its declaration


def test_a_densely_connected_block_shares_one_tensor() -> None:
    found = kinds(dense)
    assert found["insert"] == 0
    assert found["slice"] == 2
    # The last concatenation is only normalized, and the normalization is what gets written.
    assert found["concat"] == 1


def test_one_part_may_need_a_copy() -> None:
    assert kinds(with_input)["concat"] == 0
    assert kinds(with_input)["insert"] == 1


def test_small_concatenations_are_left_alone() -> None:
    def small(g: Graph, x: str) -> str:
        x = g("MaxPool", x, kernel_shape=[5, 5], strides=[5, 5])
        return g.conv(g("Concat", g.conv(x, 16, 16), g.conv(x, 16, 16, 1), axis=1), 32, 16, 1)

    assert kinds(small)["concat"] == 1


def test_places_are_arguments_so_that_kernels_are_shared() -> None:
    def four(g: Graph, x: str) -> str:
        w = g.weights(16, 16, 3, 3)
        parts = [g("Conv", g("Sin", g("Mul", x, g.weights(16, 1, 1))), w, pads=[1] * 4) for _ in range(4)]
        return g.conv(g("Concat", *parts, axis=1), 64, 16, 1)

    program = formed(four)
    text = program.module.operation.get_asm()
    assert len({line for line in text.splitlines() if "func.func private @conv_20x20x16_3x3" in line}) == 2


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("threads", [1, 2])
def test_results_are_the_same(name: str, threads: int) -> None:
    model = graphs.model(CASES[name], SHAPE)
    compiled = rillet.compile(model, threads=threads)
    reference = ReferenceEvaluator(model)
    for seed in range(2):
        x = np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32)
        actual = list(compiled.run({"x": x}).values())
        for a, b in zip(actual, reference.run(None, {"x": x}), strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-5 * np.abs(b).max())
