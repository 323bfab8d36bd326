"""Permutations and reshapes in their cheapest form."""

from __future__ import annotations

import numpy as np
import pytest
from torch_mlir import ir

from rillet.ir import Program, shapes
from rillet.ir.structured import walk
from tests.support.onnx_interpreter import evaluate

MOVES = ("linalg.generic", "tensor.collapse_shape", "tensor.expand_shape")


def transposed(shape: tuple[int, ...], permutation: tuple[int, ...]) -> Program:
    """A program that returns its input, moved by ``shapes.transpose``."""
    source, result = (f"tensor<{'x'.join(map(str, s))}xf32>" for s in (shape, [shape[axis] for axis in permutation]))
    program = Program.parse(f"""
    func.func @main(%x: {source}) -> ({result} {{rillet.dtype = "float32"}}) {{
      %y = tensor.empty() : {result}
      return %y : {result}
    }}""")
    block = program.main().regions[0].blocks[0]
    *_, end = block.operations
    with program.context, ir.InsertionPoint(end), ir.Location.unknown():
        end.operation.operands[0] = shapes.transpose(block.arguments[0], permutation)
    program.module.operation.verify()
    return program


@pytest.mark.parametrize(
    ("shape", "permutation", "moves"),
    [
        ((2, 3, 4), (0, 1, 2), []),
        ((2, 3, 4), (2, 0, 1), ["linalg.generic"]),
        ((2, 1, 4), (1, 0, 2), ["tensor.collapse_shape", "tensor.expand_shape"]),  # only the axis of 1 moves
        ((1, 3, 1), (2, 1, 0), ["tensor.collapse_shape", "tensor.expand_shape"]),
        ((1, 1), (1, 0), ["tensor.collapse_shape", "tensor.expand_shape"]),
    ],
)
def test_a_transposition_moves_no_more_than_it_must(
    shape: tuple[int, ...], permutation: tuple[int, ...], moves: list[str]
) -> None:
    program = transposed(shape, permutation)
    assert [op.name for op in walk(program.main()) if op.name in MOVES] == moves
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    (found,) = evaluate(program, [x])
    np.testing.assert_array_equal(found, x.transpose(permutation))


def test_groups_of_axes() -> None:
    assert shapes.runs([2, 1, 3]) == [[0, 1], [2], [3, 4, 5]]
    assert shapes.attach_units([1, 5, 1, 1, 7, 1]) == [[0, 1, 2, 3], [4, 5]]
    assert shapes.attach_units([1, 1]) == []
