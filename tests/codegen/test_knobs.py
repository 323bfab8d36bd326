"""Choices that overrule the cost model: every one gives a correct kernel, and what was decided is reported."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from rillet.codegen.knobs import LIMITS, Choice, Knobs
from rillet.codegen.result import CodegenOptions
from tests.support.kernel_harness import Kernel
from tests.support.kernel_texts import assert_close, depthwise, depthwise_reference, matmul, pack
from tests.support.softmax_kernels import softmax


@pytest.mark.parametrize(
    "knobs",
    [
        Knobs(tile_rows=1, tile_vectors=8),
        Knobs(tile_rows=4, tile_vectors=3, unroll=7),
        Knobs(tile_rows=32, tile_vectors=1, rows_outer=0),
        Knobs(unroll=64, rows_outer=1, row_tiles=1, column_tiles=1),
        Knobs(row_tiles=1 << 24, column_tiles=1 << 24),
        Knobs(reduction_block=5),
    ],
)
def test_contractions_take_any_choice(knobs: Knobs) -> None:
    m, n, k = 26, 41, 37
    rng = np.random.default_rng(0)
    a, b, bias = (rng.standard_normal(shape, np.float32) for shape in ((m, k), (k, n), (n,)))
    kernel = Kernel(matmul(m, n, k), "host", CodegenOptions(knobs=knobs))
    [y] = kernel([a, pack(b), bias], [((m, n), np.float32)])
    assert_close(y, np.maximum(a.astype(np.float64) @ b + bias, 0))
    choice = kernel.compiled.choice
    assert choice is not None
    followed = {name: value for name, value in knobs.given().items() if value < 1 << 20}
    if "rows_outer" in followed and not kernel.target.machine.broadcast_loads:
        followed["rows_outer"] = 1  # rows are copied there, which their loop outside does once
    assert followed.items() <= choice.knobs.given().items()
    assert choice.problem["rows"] == m and choice.problem["columns"] == n and choice.problem["steps"] == k


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(
    "knobs",
    [
        Knobs(tile_rows=1, tile_vectors=4),
        Knobs(tile_rows=5, tile_vectors=1, row_tiles=2, column_tiles=3),
        Knobs(tile_rows=3, tile_vectors=1, tile_lines=2, row_tiles=1),
        Knobs(tile_rows=2, tile_vectors=2, tile_lines=4, row_tiles=3),
        Knobs(tile_rows=7, tile_vectors=1, tile_lines=3),
    ],
)
def test_windows_take_any_choice(knobs: Knobs, stride: int) -> None:
    text, shape = depthwise(2, (13, 12), 40, (3, 3), stride, 1)
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 13, 12, 40), np.float32), rng.standard_normal((3, 3, 40), np.float32)
    bias = np.zeros(40, np.float32)
    kernel = Kernel(text, "host", CodegenOptions(knobs=knobs))
    assert kernel.compiled.strategy == "windowed"
    [y] = kernel([x, w, bias], [(shape, np.float32)])
    assert_close(y, np.maximum(depthwise_reference(x, w, stride, 1), 0))
    assert kernel.compiled.choice is not None
    assert knobs.given().items() <= kernel.compiled.choice.knobs.given().items()


def test_what_was_decided_gives_the_same_kernel() -> None:
    first = Kernel(matmul(64, 96, 48), "x86-64-v3").compiled
    assert first.choice is not None
    again = Kernel(matmul(64, 96, 48), "x86-64-v3", CodegenOptions(knobs=first.choice.knobs)).compiled
    assert again.object == first.object


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"tile": 4}, "there is no choice 'tile'; choices: tile_rows"),
        ({"tile_rows": 0}, "'tile_rows' must be a whole number from 1 to 32, not 0"),
        ({"unroll": 2.5}, "'unroll' must be a whole number from 1 to 64, not 2.5"),
        ({"rows_outer": True}, "'rows_outer' must be a whole number from 0 to 1, not True"),
        ({"tile_rows": 32, "tile_vectors": 8, "unroll": 9}, "times 'unroll' must be at most 2048, not 2304"),
        ({"stages": 3}, "'stages' must be a list of objects without stages of their own, not 3"),
        ({"stages": [{"stages": []}]}, "'stages' must be a list of objects without stages of their own"),
        ({"stages": [{}, {"unroll": 0}]}, "'unroll' must be a whole number from 1 to 64, not 0"),
    ],
)
def test_bad_choices_are_named(facts: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Knobs.parse(facts)


def test_limits_cover_every_choice() -> None:
    for name, (low, high) in LIMITS.items():
        assert Knobs.parse({name: low}).given() == {name: low} and Knobs.parse({name: high}).given() == {name: high}
    assert {field.name for field in dataclasses.fields(Knobs)} == {*LIMITS, "stages"}


def test_choices_of_stages_are_read_back() -> None:
    knobs = Knobs(row_tiles=3, stages=(Knobs(), Knobs(tile_rows=2)))
    assert knobs.given() == {"row_tiles": 3, "stages": [{}, {"tile_rows": 2}]}
    assert Knobs.parse(knobs.given()) == knobs
    assert knobs.of_stage(1).tile_rows == 2 and knobs.of_stage(2) == Knobs()
    assert knobs.with_stage(3, Knobs(unroll=4)).given()["stages"] == [{}, {"tile_rows": 2}, {}, {"unroll": 4}]
    choice = Choice({"rows": 4}, knobs, (Choice({}, Knobs()), Choice({"lanes": 8}, Knobs(tile_rows=2))))
    assert Choice.parse(choice.given()) == choice


@pytest.mark.parametrize("knobs", [Knobs(tile_rows=1, tile_vectors=1), Knobs(tile_rows=8, tile_vectors=8)])
def test_rows_take_any_choice(knobs: Knobs) -> None:
    kernel = Kernel(softmax(21, 75, 1), "host", CodegenOptions(knobs=knobs))
    assert kernel.compiled.strategy == "rowwise" and kernel.compiled.choice is not None
    assert kernel.compiled.choice.knobs == knobs
    x = np.random.default_rng(0).standard_normal((21, 75), np.float32)
    [y] = kernel([x], [((21, 75), np.float32)])
    assert_close(y, np.exp(x.astype(np.float64)) / np.exp(x.astype(np.float64)).sum(1, keepdims=True))
