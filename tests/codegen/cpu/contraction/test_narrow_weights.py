"""Products whose weights the body makes of integers that share bytes and of parameters for each block of the sum."""

from __future__ import annotations

import numpy as np
import pytest

from rillet import targets
from rillet.codegen.cpu import cost_model
from tests.support.kernel_harness import Kernel
from tests.support.kernel_texts import assert_close, narrow_product, pack
from tests.support.targets import with_machine


@pytest.mark.parametrize("target", ["host", "x86-64-v2"])
@pytest.mark.parametrize(
    ("m", "n", "blocks", "block"), [(1, 48, 3, 32), (5, 16, 1, 8), (8, 144, 4, 16), (29, 48, 3, 32)]
)
def test_weights_are_made_in_registers_or_in_scratch(target: str, m: int, n: int, blocks: int, block: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((m, blocks, block), np.float32)
    weights, zeros = rng.integers(0, 16, (blocks, block, n)), rng.integers(0, 16, (blocks, n))
    scales = rng.uniform(0.5, 1.5, (blocks, n)).astype(np.float32)
    packed = pack(weights.astype(np.uint8))
    kernel = Kernel(narrow_product(m, n, blocks, block), target)
    assert kernel.compiled.strategy == "contraction"
    arguments = [x, packed[..., ::2] | packed[..., 1::2] << 4, pack(scales), pack(zeros.astype(np.uint8))]
    [y] = kernel(arguments, [((m, n), np.float32)])
    wide = (weights - zeros[:, None]) * scales[:, None].astype(np.float64)
    assert_close(y, np.einsum("mbk,bkn->mn", x, wide))
    assert (kernel.compiled.local_memory_size > 0) == (m > 5)


@pytest.mark.parametrize("n", [16, 48])
def test_scalars_take_their_bits_out_of_a_byte(n: int) -> None:
    """Without vectors neighbours read the same byte."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((3, 2, 8), np.float32)
    weights, zeros = rng.integers(0, 16, (2, 8, n)), rng.integers(0, 16, (2, n))
    scales = rng.uniform(0.5, 1.5, (2, n)).astype(np.float32)
    packed = pack(weights.astype(np.uint8))
    scalar = with_machine(targets.get("x86-64-v2"), vector_bits=0)
    kernel = Kernel(narrow_product(3, n, 2, 8), scalar)
    assert kernel.compiled.strategy == "contraction"
    arguments = [x, packed[..., ::2] | packed[..., 1::2] << 4, pack(scales), pack(zeros.astype(np.uint8))]
    [y] = kernel(arguments, [((3, n), np.float32)])
    wide = (weights - zeros[:, None]) * scales[:, None].astype(np.float64)
    assert_close(y, np.einsum("mbk,bkn->mn", x, wide))


def test_other_bits_of_a_byte_are_no_elements() -> None:
    """A shift by anything but the column's place in the byte is computed as it is written, by another strategy."""
    text = narrow_product(3, 16, 2, 8).replace("%c4 = arith.constant 4", "%c4 = arith.constant 3")
    assert Kernel(text).compiled.strategy != "contraction"


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "host"])
def test_blocks_are_summed_before_they_are_scaled(target: str) -> None:
    """Sums of integers are exact, so that a result passes one rounding for each block of a part and one for each part,
    whatever the width of vectors. Scaled weights would pass one for each step of a part, all of them upwards here: near
    512 the floats are 2**-15 apart, and the scale is just above half of that beyond 1.
    """
    steps, block = 4096, 32
    blocks, part = steps // block, cost_model.SUM_STEPS // block
    scale = np.float32(1 + 2**-16 + 2**-23)
    weights, zeros = pack(np.ones((blocks, block, 16), np.uint8)), np.zeros((blocks, 16), np.uint8)
    scales = np.full((blocks, 16), scale)
    arguments = [np.ones((2, blocks, block), np.float32), weights[..., ::2] * 0x11, pack(scales), pack(zeros)]
    [y] = Kernel(narrow_product(2, 16, blocks, block), target)(arguments, [((2, 16), np.float32)])
    roundings = np.abs(y / (steps * np.float64(scale)) - 1).max() * 2**24
    assert roundings <= part + blocks // part  # scaled weights: 126
