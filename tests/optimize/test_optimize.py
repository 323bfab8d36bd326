"""The optimizer changes no result: whole small models before and after."""

from __future__ import annotations

import numpy as np
import pytest

from rillet import optimize
from rillet.ir.structured import copy_permutation, structured, walk
from tests.support import optimize_graphs as graphs
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
    "channels last": (graphs.channels_last_blocks, (1, 3, 16, 16), (1, 3, 16, 16)),
    "pool first": (graphs.pool_first, ("n", 3, "h", 16), (1, 3, 16, 16)),
}


@pytest.mark.parametrize("case", CASES)
def test_results_are_the_same(case: str) -> None:
    build, declared, shape = CASES[case]
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    expected = evaluate(graphs.program(build, declared), [x])
    program = graphs.program(build, declared)
    for step in passes("optimize"):
        step(program)
        program.module.operation.verify()
    optimize.check(program)
    for actual, reference in zip(evaluate(program, [x]), expected, strict=True):
        assert actual.shape == reference.shape
        np.testing.assert_allclose(actual, reference, rtol=0, atol=2e-6 * np.abs(reference).max())


@pytest.mark.parametrize(
    ("case", "remaining"),
    [
        ("residual", 1),
        ("mobile", 2),
        ("shuffle", 3),
        ("encoder", 1),
        ("segmentation", 2),
        ("channels last", 1),
        ("pool first", 2),
    ],
)
def test_transpositions_remain_only_where_the_model_needs_them(case: str, remaining: int) -> None:
    """At the edges; before a flatten (mobile); a channel shuffle (shuffle); after attention (encoder)."""
    build, declared, _ = CASES[case]
    program = graphs.program(build, declared)
    for step in passes("optimize"):
        step(program)
    assert sum(copy_permutation(op) is not None for op in walk(program.main())) == remaining


def test_windows_before_a_convolution_read_what_lies_as_they_write_it() -> None:
    program = graphs.program(graphs.pool_first, ("n", 3, "h", 16))
    for step in passes("optimize"):
        step(program)
    views = [v for op in walk(program.main()) if (v := structured(op)) is not None and v.is_windowed]
    assert len(views) == 2
    for view in views:  # channels come last, where no window moves
        assert [isinstance(e, int) for e in view.input_maps[0]] == [True, False, False, True]


def test_batch_normalization_disappears() -> None:
    program = graphs.program(graphs.residual, (1, 3, 32, 32))
    for step in passes("optimize"):
        step(program)
    text = program.module.operation.get_asm(enable_debug_info=False)
    assert text.count("arith.mulf") == 4  # three convolutions and the classifier
