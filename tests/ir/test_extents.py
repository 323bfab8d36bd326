"""Extents derived from the ops that make tensors, and the parameters of ops that move elements."""

from __future__ import annotations

import pytest
from torch_mlir import ir

from rillet.ir.extents import Sizes, box, extent, extents, kept_axes, margins, padding_value, reassociation
from rillet.ir.structured import walk
from tests.support.structured_text import parsed

_OPS = {
    "empty": ("%t = tensor.empty(%n) : tensor<4x?xf32>", "tensor<4x?xf32>", [4, "%n"]),
    "splat": ("%t = tensor.splat %f[%n] : tensor<4x?xf32>", "tensor<4x?xf32>", [4, "%n"]),
    "fill": (
        "%e = tensor.empty(%n) : tensor<?xf32>\n"
        "%t = linalg.fill ins(%f : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>",
        "tensor<?xf32>",
        ["%n"],
    ),
    "cast": ("%t = tensor.cast %a : tensor<4x6xf32> to tensor<?x6xf32>", "tensor<?x6xf32>", [4, 6]),
    "slice": (
        "%t = tensor.extract_slice %a[0, 0] [1, %n] [1, 1] : tensor<4x6xf32> to tensor<?xf32>",
        "tensor<?xf32>",
        ["%n"],
    ),
    "expand": (
        "%e = tensor.empty(%n) : tensor<?xf32>\n"
        "%t = tensor.expand_shape %e [[0, 1]] output_shape [%n, 1] : tensor<?xf32> into tensor<?x1xf32>",
        "tensor<?x1xf32>",
        ["%n", 1],
    ),
    "reshape": (
        "%s = tensor.from_elements %n, %c6 : tensor<2xindex>\n"
        "%t = tensor.reshape %a(%s) : (tensor<4x6xf32>, tensor<2xindex>) -> tensor<?x?xf32>",
        "tensor<?x?xf32>",
        ["%n", 6],
    ),
    "a loop that inserts elements": (
        "%e = tensor.empty(%n) : tensor<?xf32>\n"
        "%t = scf.for %i = %c0 to %n step %c1 iter_args(%x = %e) -> tensor<?xf32> {\n"
        "  %y = tensor.insert %f into %x[%i] : tensor<?xf32>\n  scf.yield %y : tensor<?xf32>\n}",
        "tensor<?xf32>",
        ["%n"],
    ),
}


def _function(body: str, result: str) -> str:
    return f"""
    func.func @main(%a: tensor<4x6xf32>, %n: index, %f: f32) -> {result} {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c6 = arith.constant 6 : index
      {body}
      return %t : {result}
    }}"""


@pytest.mark.parametrize("case", _OPS)
def test_an_extent_is_what_the_op_says(case: str) -> None:
    body, type_, expected = _OPS[case]
    with parsed(_function(body, type_)) as main:
        block = main.regions[0].blocks[0]
        end = list(block.operations)[-1]
        with ir.InsertionPoint(end):
            assert extents(end.operands[0]) == [block.arguments[1] if e == "%n" else e for e in expected]


def test_pads_and_concatenations_add_up() -> None:
    body = """%e = tensor.empty(%n) : tensor<?xf32>
      %p = tensor.pad %e low[2] high[1] { ^bb0(%i: index):
        tensor.yield %f : f32
      } : tensor<?xf32> to tensor<?xf32>
      %t = tensor.concat dim(0) %p, %e : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>"""
    with parsed(_function(body, "tensor<?xf32>")) as main:
        end = list(main.regions[0].blocks[0].operations)[-1]
        before = len(main.regions[0].blocks[0].operations)
        with ir.InsertionPoint(end):
            found = extent(end.operands[0], 0)
        assert isinstance(found, ir.Value) and found.owner.name == "arith.addi"
        added = len(main.regions[0].blocks[0].operations) - before
        assert added == 3  # the constant 3 of both margins, and two additions


def test_known_extents_come_first() -> None:
    text = "func.func @main(%a: tensor<?x?xf32>, %n: index) { return }"
    with parsed(text) as main:
        block = main.regions[0].blocks[0]
        value, n = block.arguments
        with ir.InsertionPoint.at_block_begin(block):
            assert extents(value, {value: [7, n]}) == [7, n]
            asked = extent(value, 1)
        assert isinstance(asked, ir.Value) and asked.owner.name == "tensor.dim"


class _Elsewhere(Sizes):
    """Extents for a world in which every scalar is 5 and nothing else is known."""

    def scalar(self, operand: int | ir.Value) -> int:
        return operand if isinstance(operand, int) else 5

    def unknown(self, value: ir.Value, axis: int) -> int:
        raise LookupError(f"axis {axis}")


def test_another_world_brings_its_own_scalars() -> None:
    body = "%t = tensor.extract_slice %a[0, 0] [%n, %n] [1, 1] : tensor<4x6xf32> to tensor<?x?xf32>"
    with parsed(_function(body, "tensor<?x?xf32>")) as main:
        value = list(main.regions[0].blocks[0].operations)[-1].operands[0]
        assert [_Elsewhere().extent(value, axis) for axis in (0, 1)] == [5, 5]
    with parsed("func.func @main(%a: tensor<?xf32>) { return }") as main, pytest.raises(LookupError):
        _Elsewhere().extent(main.regions[0].blocks[0].arguments[0], 0)


def test_parameters_of_moving_ops() -> None:
    body = """%s = tensor.extract_slice %a[1, %n] [2, 1] [2, 1] : tensor<4x6xf32> to tensor<2xf32>
      %e = tensor.empty() : tensor<1x8xf32>
      %i = tensor.insert_slice %s into %e[0, 3] [1, 2] [1, 1] : tensor<2xf32> into tensor<1x8xf32>
      %p = tensor.pad %i low[0, %n] high[0, 2] { ^bb0(%x: index, %y: index):
        tensor.yield %f : f32
      } : tensor<1x8xf32> to tensor<1x?xf32>
      %t = tensor.collapse_shape %p [[0, 1]] : tensor<1x?xf32> into tensor<?xf32>"""
    with parsed(_function(body, "tensor<?xf32>")) as main:
        n, f = list(main.regions[0].blocks[0].arguments)[1:]
        ops = {op.name: op for op in walk(main)}
        assert box(ops["tensor.extract_slice"]) == ([1, n], [2, 1], [2, 1])
        assert box(ops["tensor.insert_slice"]) == ([0, 3], [1, 2], [1, 1])
        assert kept_axes(ops["tensor.extract_slice"]) == [0]
        assert kept_axes(ops["tensor.insert_slice"]) == [1]
        assert margins(ops["tensor.pad"]) == ([0, n], [0, 2])
        assert padding_value(ops["tensor.pad"]) == f
        assert reassociation(ops["tensor.collapse_shape"]) == [[0, 1]]
