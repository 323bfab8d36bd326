"""Constants: which are written into the module, which stand beside it, and that both come back as they were."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from torch_mlir import ir

from rillet.ir import Program, constants

EMPTY = "func.func @main() { return }"


def made(array: np.ndarray, hint: str = "constant") -> tuple[Program, ir.Value]:
    """A program with this one constant."""
    program = Program.parse(EMPTY)
    block = program.main().regions[0].blocks[0]
    with program.context, ir.InsertionPoint.at_block_begin(block), ir.Location.unknown():
        value = constants.constant(program, array, hint)
    program.module.operation.verify()
    return program, value


@pytest.mark.parametrize(
    "array",
    [
        np.float32(1.5),
        np.full((2, 3), -7, np.int64),
        np.full(4, 200, np.uint8),  # more than a signed byte holds
        np.full(4, 2**64 - 1, np.uint64),
        np.array([True, True]),
        np.full((2, 2), 0.5, ml_dtypes.bfloat16),
    ],
    ids=lambda a: f"{a.dtype}",
)
def test_a_splat_is_written_into_the_module(array: np.ndarray) -> None:
    program, value = made(array)
    assert value.owner.name == "arith.constant" and len(program.constants) == 0
    back = constants.array_of(program, value)
    assert back is not None and back.shape == array.shape
    np.testing.assert_array_equal(back.astype(array.dtype), array)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.array([0.0, -0.0], np.float32),  # equal numbers, other bits
        np.zeros((2, 0), np.int32),
        np.ones(3, np.complex64),
        np.array([*[1] * 100, 2], np.int8),  # the corner does not show it
    ],
    ids=["numbers", "zeros of both signs", "nothing", "complex", "another at the end"],
)
def test_others_stand_beside_the_module_and_are_not_copied(array: np.ndarray) -> None:
    program, value = made(array, "w")
    assert constants.global_name(value) == "w"
    assert constants.array_of(program, value) is array
    assert "#ml_program.extern" in str(program.module)


def test_a_splat_of_nan_keeps_its_payload_only_where_all_have_it() -> None:
    one, other = np.array([0x7FC00000, 0x7FC00001], np.uint32).view(np.float32)
    assert constants.global_name(made(np.array([one, one]))[1]) is None
    assert constants.global_name(made(np.array([one, other]))[1]) is not None


def test_what_is_no_constant_is_none() -> None:
    program = Program.parse(
        "func.func @main(%x: tensor<2xf32>) -> f32 { %c = arith.constant 1.0 : f32 return %c : f32 }"
    )
    block = program.main().regions[0].blocks[0]
    assert constants.array_of(program, block.arguments[0]) is None and constants.global_name(block.arguments[0]) is None
    assert constants.array_of(program, block.operations[0].result) is None  # a scalar is no tensor
