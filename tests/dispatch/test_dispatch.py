"""Dispatch formation changes no result, and fuses what it should: whole small models, kernels inlined again."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from rillet import dispatch
from rillet.ir import Program
from rillet.ir.structured import walk
from tests.support import optimize_graphs as graphs
from tests.support.inline_kernels import inlined
from tests.support.onnx_interpreter import evaluate
from tests.support.stages import passes

CASES = {
    "residual": (graphs.residual, (1, 3, 32, 32), (1, 3, 32, 32)),
    "residual, dynamic batch": (graphs.residual, ("n", 3, 32, 32), (2, 3, 32, 32)),
    "mobile": (graphs.mobile, (1, 3, 16, 16), (1, 3, 16, 16)),
    "shuffle": (graphs.shuffle, (1, 3, 16, 16), (1, 3, 16, 16)),
    "encoder": (graphs.encoder, (1, 12, 16), (1, 12, 16)),
    "encoder, dynamic": (graphs.dynamic_encoder, ("b", "s", 16), (2, 5, 16)),
    "segmentation": (graphs.segmentation, (1, 3, 16, 16), (1, 3, 16, 16)),
}
KINDS = {
    # The first layout change and padding are one dispatch; the residual sum reads the padded value that pooling writes.
    "residual": {"transpose": 1, "conv": 3, "pool": 1, "reduce": 1, "matmul": 1, "rows": 1},
    "encoder": {"matmul": 4, "rows": 2, "chain": 2},  # attention; two products, one behind the other
    # Keys are packed for any number of rows.
    "encoder, dynamic": {"matmul": 3, "chain": 2, "insert": 2},
}


def formed(case: str) -> Program:
    build, declared, _ = CASES[case]
    program = graphs.program(build, declared)
    for step in passes("optimize", "dispatch"):
        step(program)
        program.module.operation.verify()
    dispatch.check(program)
    return program


@pytest.mark.parametrize("case", CASES)
def test_results_are_the_same(case: str) -> None:
    build, declared, shape = CASES[case]
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    expected = evaluate(graphs.program(build, declared), [x])
    for actual, reference in zip(evaluate(inlined(formed(case)), [x]), expected, strict=True):
        assert actual.shape == reference.shape
        np.testing.assert_allclose(actual, reference, rtol=0, atol=2e-6 * np.abs(reference).max())


@pytest.mark.parametrize("case", KINDS)
def test_what_is_fused(case: str) -> None:
    program = formed(case)
    calls = [str(op.attributes["callee"])[1:] for op in walk(program.main()) if op.name == "func.call"]
    assert Counter(name.split("_")[0] for name in calls) == KINDS[case]


@pytest.mark.parametrize("case", CASES)
def test_the_text_parses_again(case: str) -> None:
    program = formed(case)
    text = program.module.operation.get_asm(enable_debug_info=True)
    dispatch.check(Program.parse(text, program.constants))


def test_names_do_not_depend_on_the_run() -> None:
    first, second = (formed("mobile").module.operation.get_asm(enable_debug_info=True) for _ in range(2))
    assert first == second
