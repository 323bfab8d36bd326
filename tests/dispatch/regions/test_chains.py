"""Which contractions one behind the other become one dispatch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from torch_mlir import ir

from rillet import dispatch, targets
from rillet.codegen.cpu.strategies import choose
from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.ir import Program, make_context
from rillet.ir.kernels import functions, kernel_texts
from rillet.ir.structured import structured, walk
from tests.support import optimize_graphs as graphs
from tests.support.inline_kernels import inlined
from tests.support.onnx_interpreter import evaluate
from tests.support.optimize_graphs import Graph
from tests.support.stages import passes
from tests.support.targets import with_machine

SCRATCH = 256 * 1024
Build = Callable[[Graph, str], str | Sequence[str]]


def formed(build: Build, shape: Sequence[int | str], scratch: int = SCRATCH) -> Program:
    program = graphs.program(build, shape)
    target = with_machine(targets.get("x86-64-v3"), l2_bytes=2 * scratch)
    for step in passes("optimize", "dispatch", target=target):
        step(program)
        program.module.operation.verify()
    dispatch.check(program)
    return program


def kinds(program: Program) -> Counter[str]:
    calls = [str(op.attributes["callee"])[1:] for op in walk(program.main()) if op.name == "func.call"]
    return Counter(name.split("_")[0] for name in calls)


def heads(g: Graph, x: str, count: int, depth: int, order: Sequence[int]) -> str:
    shape = g.array(np.array([0, 0, count, depth], np.int64))
    return g("Transpose", g("Reshape", x, shape), perm=list(order))


def attention(g: Graph, x: str) -> str:
    """Four heads over [batch, positions, 64], without projections behind it."""
    q, k, v = (g("MatMul", x, g.weights(64, 64)) for _ in range(3))
    keys = heads(g, k, 4, 16, (0, 2, 3, 1))
    scores = g("Mul", g("MatMul", heads(g, q, 4, 16, (0, 2, 1, 3)), keys), g.array(np.float32(0.25)))
    context = g("MatMul", g("Softmax", scores, axis=-1), heads(g, v, 4, 16, (0, 2, 1, 3)))
    return g("Reshape", g("Transpose", context, perm=[0, 2, 1, 3]), g.array(np.array([0, 0, 64], np.int64)))


def over_pixels(g: Graph, x: str) -> str:
    """Two heads of 16 channels between convolutions; the pixels of 8 x 12 are columns of queries, keys and values."""
    shape = g.array(np.array([1, 2, 16, 96], np.int64))
    q, k, v = (g("Reshape", g.conv(x, 32, 32, 1), shape) for _ in range(3))
    scores = g("Softmax", g("MatMul", g("Transpose", q, perm=[0, 1, 3, 2]), k), axis=-1)
    y = g("MatMul", v, g("Transpose", scores, perm=[0, 1, 3, 2]))
    return g.conv(g("Reshape", y, g.array(np.array([1, 32, 8, 12], np.int64))), 32, 32, 1)


def test_attention_over_pixels_is_one_dispatch() -> None:
    assert kinds(formed(over_pixels, (1, 32, 8, 12)))["chain"] == 1


def test_attention_is_one_dispatch() -> None:
    assert kinds(formed(attention, (1, 96, 64))) == {"matmul": 3, "elementwise": 1, "chain": 1}
    assert kinds(formed(attention, (1, 96, 64), scratch=0)) == {"matmul": 5, "elementwise": 1, "rows": 1}


@pytest.mark.parametrize("shape", [(1, 96, 64), ("n", 40, 64), ("n", "s", 64)])
def test_results_are_the_same(shape: tuple[int | str, ...]) -> None:
    x = np.random.default_rng(1).standard_normal([3 if isinstance(e, str) else e for e in shape]).astype(np.float32)
    program = formed(attention, shape)
    assert kinds(program)["chain"] == 1
    (expected,) = evaluate(graphs.program(attention, shape), [x])
    (actual,) = evaluate(inlined(program), [x])
    np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-6 * np.abs(expected).max())


def test_stages_are_not_fused_into_each_other() -> None:
    """The softmax's division stays out of the second product's body."""
    program = formed(attention, (1, 96, 64))
    (chain,) = [f for name, f in functions(program).items() if name.startswith("chain")]
    views = [v for op in walk(chain) if (v := structured(op)) is not None and not all(v.parallel)]
    assert [len(v.inputs) for v in views] == [2, 1, 1, 2]
    assert len(list(chain.regions[0].blocks[0].operations)[-1].operands) == 1


def test_rows_of_unknown_length_are_bounded() -> None:
    """Only where the number of rows is unknown too, and asserted by the host."""
    program = formed(attention, ("n", "s", 64))
    assert kinds(program)["chain"] == 1
    (check,) = [op for op in walk(program.main()) if op.name == "cf.assert" and "a kernel can hold" in str(op)]
    assert "rows of {0} elements are longer than {1}" in str(check)


def test_scores_that_are_a_result_are_not_chained() -> None:
    def both(g: Graph, x: str) -> list[str]:
        scores = g("MatMul", x, g.weights(32, 48))
        return [scores, g("MatMul", g("Relu", scores), g.weights(48, 16))]

    assert "chain" not in kinds(formed(both, (64, 32)))


def test_two_results_of_the_last_product_are_not_chained() -> None:
    def both(g: Graph, x: str) -> list[str]:
        last = g("MatMul", g("Relu", g("MatMul", x, g.weights(64, 128))), g.weights(128, 64))
        return [last, g("Tanh", last)]

    assert "chain" not in kinds(formed(both, (256, 64)))


def test_two_products_are_chained_while_both_right_hand_sides_are_small() -> None:
    def layers(width: int) -> Build:
        return lambda g, x: g("MatMul", g("Relu", g("MatMul", x, g.weights(64, width))), g.weights(width, 64))

    assert kinds(formed(layers(128), (256, 64))) == {"chain": 1}
    # A block would read 2 MB of weights to keep 256 KB of tiles out of memory.
    assert kinds(formed(layers(4096), (256, 64))) == {"matmul": 2}


def test_what_is_added_behind_a_chain_keeps_its_memory() -> None:
    """Code generation has a kernel for the chain, which it would not with a result that may overwrite an argument."""

    def residual(g: Graph, x: str) -> str:
        h = g("Relu", x)
        y = g("MatMul", g("Relu", g("MatMul", h, g.weights(64, 128))), g.weights(128, 64))
        return g("Add", y, g("Sigmoid", x))

    program = formed(residual, (256, 64))
    assert kinds(program) == {"elementwise": 1, "chain": 1}
    ((name, function),) = [(n, f) for n, f in functions(program).items() if n.startswith("chain")]
    assert "flow.may_alias" not in function.attributes
    (text,) = [text for other, text in kernel_texts(program) if other == name]
    with make_context():
        assert choose(KernelFunction(ir.Module.parse(text)), targets.get("x86-64-v3")).strategy.name == "chain"


def test_few_rows_read_their_keys_once() -> None:
    """All queries are one block, so that no right-hand side is read again, however large it is."""

    def queries(g: Graph, x: str) -> str:
        keys = g("MatMul", g.weights(1, 1024, 64), g.weights(64, 64))
        scores = g("MatMul", x, g("Transpose", keys, perm=[0, 2, 1]))
        return g("MatMul", g("Softmax", scores, axis=-1), keys)

    assert kinds(formed(queries, (1, 8, 64)))["chain"] == 1
    assert kinds(formed(queries, (1, 60, 64), scratch=15 * 1024 * 4))["chain"] == 0


def test_tiles_must_fit_the_scratch_memory() -> None:
    assert "chain" in kinds(formed(attention, (1, 96, 64), scratch=16 * 96 * 4))
    assert "chain" not in kinds(formed(attention, (1, 96, 64), scratch=16 * 96 * 4 - 1))


def test_one_row_is_no_chain() -> None:
    def layers(g: Graph, x: str) -> str:
        return g("MatMul", g("Relu", g("MatMul", x, g.weights(64, 128))), g.weights(128, 64))

    assert kinds(formed(layers, (1, 64))) == {"matmul": 2}


def test_a_product_on_the_right_is_no_chain() -> None:
    def squares(g: Graph, x: str) -> str:
        return g("MatMul", g.weights(64, 64), g("MatMul", x, g.weights(32, 48)))

    assert "chain" not in kinds(formed(squares, (64, 32)))
