"""The kernels of a program after dispatch."""

from __future__ import annotations

from rillet.dialects import flow
from rillet.ir import Program
from rillet.ir.kernels import declarations, entry_facts, functions, kernel_texts, modules

_PROGRAM = """
module {
  func.func private @add(tensor<?xf32>, index) -> (tensor<?xf32> {flow.dims = array<i64: 1>}) attributes {
    flow.kernel = @kernels::@add, flow.tied = array<i64: 0, 0>, rillet.macs = 3 : i64, rillet.bytes = 16 : i64}
  func.func @main(%a: tensor<?xf32>, %n: index) -> tensor<?xf32> {
    %0 = call @add(%a, %n) : (tensor<?xf32>, index) -> tensor<?xf32> loc("node 'x'")
    return %0 : tensor<?xf32>
  }
  module @kernels {
    module @add attributes {flow.kernel} {
      func.func @add(%a: tensor<?xf32>, %n: index) -> tensor<?xf32> {
        return %a : tensor<?xf32>
      }
    }
  }
}"""


def test_a_kernel_has_a_module_a_function_and_a_declaration() -> None:
    program = Program.parse(_PROGRAM)
    assert list(modules(program)) == list(functions(program)) == list(declarations(program)) == ["add"]
    ((name, text),) = kernel_texts(program)
    assert name == "add" and text.startswith("module @add")


def test_facts_name_the_sources_of_the_calls() -> None:
    (facts,) = entry_facts(Program.parse(_PROGRAM))
    assert (facts.macs, facts.bytes) == (3, 16)
    assert "x" in facts.sources


def test_a_program_without_kernels() -> None:
    program = Program.parse("func.func @main() { return }")
    assert modules(program) == {} and kernel_texts(program) == [] and entry_facts(program) == ()


def test_attributes_of_a_declaration() -> None:
    program = Program.parse(_PROGRAM)
    declared = declarations(program)["add"]
    assert flow.dims(declared, "res_attrs", 0) == (1,)
    assert flow.dims(declared, "arg_attrs", 0) == ()
    assert flow.pairs(declared, flow.TIED) == [(0, 0)]
    assert flow.pairs(declared, flow.MAY_ALIAS) == []
