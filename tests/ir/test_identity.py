"""Operations as keys of dictionaries and sets."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

import pytest
from torch_mlir import ir

from rillet.ir import Program, identity
from tests.support.paths import ROOT

SOURCE = ROOT / "src" / "rillet"

_TEXT = """
func.func @main(%a: f32, %b: f32) -> f32 {
  %x = arith.addf %a, %b : f32
  %y = arith.addf %a, %b : f32
  %z = arith.mulf %x, %y : f32
  return %z : f32
}"""


@pytest.fixture
def block() -> Iterator[ir.Block]:
    program = Program.parse(_TEXT)
    with program.context, ir.Location.unknown():
        yield program.main().regions[0].blocks[0]


def _replace_operand(block: ir.Block) -> None:
    block.operations[2].operands[0] = block.arguments[0]


def _set_attribute(block: ir.Block) -> None:
    block.operations[2].attributes["mark"] = ir.UnitAttr.get()


def _move(block: ir.Block) -> None:
    block.operations[1].move_before(block.operations[0])


@pytest.mark.parametrize("change", [_replace_operand, _set_attribute, _move])
def test_an_entry_is_found_after_any_change(block: ir.Block, change: Callable[[ir.Block], None]) -> None:
    operations = [view.operation for view in block.operations]
    number = {op: n for n, op in enumerate(operations)}
    change(block)
    assert [number[op] for op in operations] == [0, 1, 2, 3]
    assert set(operations) == set(number)


def test_an_operation_and_its_view_are_one_key(block: ir.Block) -> None:
    """Python has any number of objects for an operation."""
    for view in block.operations:
        again = next(v for v in block.operations if v == view)
        assert again is not view
        assert {view: 1, view.operation: 2, again: 3} == {again.operation: 3}
    maker = block.operations[0]
    assert {maker.results[0].owner, maker, maker.operation} == {maker}


def test_equal_operations_are_two_keys(block: ir.Block) -> None:
    first, second = block.operations[0], block.operations[1]
    assert first.name == second.name and list(first.operands) == list(second.operands)
    assert len({first, second}) == 2


def test_an_erased_operation_has_no_key(block: ir.Block) -> None:
    op = block.operations[2].operation
    op.results[0].replace_all_uses_with(block.arguments[0])
    op.erase()
    with pytest.raises((RuntimeError, ReferenceError)):
        hash(op)


def test_whoever_makes_a_context_has_the_hash() -> None:
    """Operations need a context, which ``rillet.ir`` alone makes, and importing it sets the hash."""
    makers = [
        str(file.relative_to(SOURCE))
        for file in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "Context"
    ]
    assert makers == ["ir/context.py"]
    assert ir.Operation.__hash__ is ir.OpView.__hash__ is identity._hash
