"""Chains of contractions and row-wise reductions over the same rows, in one kernel."""

from __future__ import annotations

import numpy as np
import pytest

from rillet.codegen.knobs import Knobs
from rillet.codegen.result import CodegenOptions
from tests.support.attention_kernel import attention, attention_inputs, attention_reference
from tests.support.kernel_harness import Kernel


@pytest.mark.parametrize(
    ("batch", "heads", "rows", "keys", "depth", "width"),
    [
        (1, 3, 70, 48, 16, 32),
        (2, 1, 5, 37, 7, 9),
        (1, 1, 2, 16, 8, 8),
        (2, 4, 12, 130, 33, 17),
        (1, 2, 200, 3, 4, 40),
        (2, 3, 160, 160, 4, 8),  # all scores would be more than L2 holds
    ],
)
@pytest.mark.parametrize("target", ["host", "x86-64-v2"])
def test_attention(batch: int, heads: int, rows: int, keys: int, depth: int, width: int, target: str) -> None:
    kernel = Kernel(attention(heads, rows, keys, depth, width, batch), target)
    assert kernel.compiled.strategy == "chain"
    arrays = attention_inputs(batch, heads, rows, keys, depth, width)
    (got,) = kernel(arrays, [((batch, rows, heads, width), np.float32)])
    np.testing.assert_allclose(got, attention_reference(*arrays), rtol=2e-5, atol=2e-6)


def test_attention_with_dynamic_batch_and_rows() -> None:
    kernel = Kernel(attention(2, "?", 40, 16, 24, "?"))
    assert kernel.compiled.strategy == "chain"
    for batch, rows in ((1, 1), (3, 64), (2, 131)):
        arrays = attention_inputs(batch, 2, rows, 40, 16, 24)
        (got,) = kernel(arrays, [((batch, rows, 2, 24), np.float32)], [batch, rows])
        np.testing.assert_allclose(got, attention_reference(*arrays), rtol=2e-5, atol=2e-6)


def test_attention_with_dynamic_keys() -> None:
    """Blocks have fewer rows the more keys there are, at last one."""
    kernel = Kernel(attention(2, "?", "?", 8, 16))
    assert kernel.compiled.strategy == "chain"
    room = kernel.target.machine.l2_bytes // 2
    for rows, keys in ((1, 1), (70, 64), (131, 37), (40, 2000), (9, room // 8), (5, room // 8 + 1), (3, 131072)):
        arrays = attention_inputs(1, 2, rows, keys, 8, 16)
        (got,) = kernel(arrays, [((1, rows, 2, 16), np.float32)], [rows, keys])
        np.testing.assert_allclose(got, attention_reference(*arrays), rtol=2e-4, atol=2e-5)


def test_infinite_mask_and_nan() -> None:
    """A row masked whole is not a number, and so are the others' results where v is not."""
    arrays = attention_inputs(1, 2, 20, 32, 8, 16)
    arrays[3][0, 5:] = -np.inf
    arrays[0][0, 3, 1] = np.nan
    (got,) = Kernel(attention(2, 20, 32, 8, 16))(arrays, [((1, 20, 2, 16), np.float32)])
    np.testing.assert_allclose(got, attention_reference(*arrays), rtol=2e-5, atol=2e-6)
    assert np.isnan(got[0, 3, 1]).all()


def test_scratch_holds_a_block_of_rows_only() -> None:
    """Two tiles of a block of at most 64 rows and a contraction's own scratch, not all 1024 x 256 scores."""
    kernel = Kernel(attention(1, 1024, 256, 16, 16))
    assert 16 * 256 * 4 <= kernel.compiled.local_memory_size <= kernel.target.machine.l2_bytes
    assert kernel.grid()[0] >= 16
    assert kernel.grid()[0] % 2 == 0  # two workers share them evenly


@pytest.mark.parametrize(
    "knobs",
    [
        Knobs(row_tiles=1),
        Knobs(row_tiles=1 << 24, stages=(Knobs(tile_rows=5, tile_vectors=1),)),
        Knobs(row_tiles=2, stages=(Knobs(rows_outer=0), Knobs(tile_rows=8, tile_vectors=2), Knobs(tile_rows=7))),
        Knobs(stages=(Knobs(unroll=5), Knobs(tile_rows=3, tile_vectors=1), Knobs(tile_vectors=1, rows_outer=1))),
        Knobs(stages=(Knobs(tile_rows=32), Knobs(), Knobs(), Knobs(tile_rows=3))),
    ],
)
def test_chains_take_any_choice(knobs: Knobs) -> None:
    kernel = Kernel(attention(3, 70, 48, 16, 33), "host", CodegenOptions(knobs=knobs))
    arrays = attention_inputs(1, 3, 70, 48, 16, 33)
    (got,) = kernel(arrays, [((1, 70, 3, 33), np.float32)])
    np.testing.assert_allclose(got, attention_reference(*arrays), rtol=2e-5, atol=2e-6)
    choice = kernel.compiled.choice
    assert choice is not None and choice.problem["rows"] == 70 and choice.problem["points"] == 3
    for number in range(3):
        asked, made = knobs.of_stage(number).given(), choice.knobs.of_stage(number).given()
        assert asked.items() <= made.items() and choice.stages[number].knobs.given() == made
    assert kernel.grid()[0] == -(-70 // (choice.problem["step"] * (choice.knobs.row_tiles or 0)))


def test_what_was_decided_about_a_chain_gives_the_same_kernel() -> None:
    first = Kernel(attention(2, 120, 48, 16, 32), "x86-64-v3").compiled
    assert first.choice is not None and len(first.choice.stages) == 3
    again = Kernel(attention(2, 120, 48, 16, 32), "x86-64-v3", CodegenOptions(knobs=first.choice.knobs)).compiled
    assert again.object == first.object


def test_chains_of_unknown_sizes_take_any_choice() -> None:
    knobs = Knobs(row_tiles=3, stages=(Knobs(tile_rows=5), Knobs(tile_rows=8), Knobs(tile_rows=3, tile_vectors=1)))
    kernel = Kernel(attention(2, "?", "?", 8, 16), "host", CodegenOptions(knobs=knobs))
    for rows, keys in ((1, 1), (70, 64), (131, 37)):
        arrays = attention_inputs(1, 2, rows, keys, 8, 16)
        (got,) = kernel(arrays, [((1, rows, 2, 16), np.float32)], [rows, keys])
        np.testing.assert_allclose(got, attention_reference(*arrays), rtol=2e-4, atol=2e-5)
