"""What follows from the inputs is not asserted; what does not is, once, before the operation that needs it."""

from __future__ import annotations

import pytest

from rillet import optimize
from rillet.ir import Program
from rillet.ir.structured import walk
from rillet.optimize import assertions
from tests.support.ir_check import lower
from tests.support.stages import passes

ADD = """
    %e = tensor.empty(%d) : tensor<?xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
        iterator_types = ["parallel"]} ins(%a, %b : tensor<?xf32>, tensor<?xf32>) outs(%e : tensor<?xf32>) {
      ^bb0(%p: f32, %q: f32, %r: f32):
        %s = arith.addf %p, %q : f32
        linalg.yield %s : f32
    } -> tensor<?xf32>"""


def messages(body: str, arguments: str, result: str) -> list[str]:
    """The messages of the assertions that ``@main`` gets. ``%d`` is the first extent of ``%a``."""
    program = Program.parse(f"""
      func.func @main({arguments}) -> {result} {{
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %d = tensor.dim %a, %c0 : tensor<?xf32>
        {body}
        return %y : {result}
      }}""")
    assertions.run(program, None)
    program.module.operation.verify()
    optimize.check(program)
    found = [op for op in walk(program.main()) if op.name == "cf.assert"]
    return [op.attributes["msg"].value.partition(": ")[2] for op in found]


def named(*dims: str) -> str:
    names = [f'%{"abc"[i]}: tensor<?xf32> {{rillet.dims = ["{d}"]}}' for i, d in enumerate(dims)]
    return ", ".join(names)


def test_dimensions_of_one_name_are_equal() -> None:
    assert messages(ADD, named("n", "n"), "tensor<?xf32>") == []


def test_dimensions_of_two_names_are_asserted_once() -> None:
    body = ADD + ADD.replace("%y", "%z").replace("%e", "%f")
    assert messages(body, named("n", "m"), "tensor<?xf32>") == ["dimensions {0} and {1} do not agree"]


def test_the_larger_of_two_is_not_always_the_first() -> None:
    body = """%n = tensor.dim %b, %c0 : tensor<?xf32>
        %m = arith.maxsi %d, %n : index
        %y = tensor.extract_slice %a[0] [%m] [1] : tensor<?xf32> to tensor<?xf32>"""
    found = messages(body, named("n", "m"), "tensor<?xf32>")
    assert found == ["{0} positions are needed of a dimension of {1}"]


def test_clamped_slices_are_inside() -> None:
    body = """%n = tensor.dim %b, %c0 : tensor<?xf32>
        %low = arith.minsi %n, %d : index
        %high = arith.maxsi %low, %d : index
        %size = arith.subi %high, %low : index
        %y = tensor.extract_slice %a[%low] [%size] [1] : tensor<?xf32> to tensor<?xf32>"""
    assert messages(body, named("n", "m"), "tensor<?xf32>") == []


def test_strided_windows_are_inside() -> None:
    body = """%c3 = arith.constant 3 : index
        %c2 = arith.constant 2 : index
        %free = arith.subi %d, %c3 : index
        %steps = arith.floordivsi %free, %c2 : index
        %size = arith.addi %steps, %c1 : index
        %k = tensor.empty() : tensor<3xf32>
        %e = tensor.empty(%size) : tensor<?xf32>
        %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i * 2 + j)>, affine_map<(i, j) -> (j)>,
            affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
            ins(%a, %k : tensor<?xf32>, tensor<3xf32>) outs(%e : tensor<?xf32>) {
          ^bb0(%p: f32, %q: f32, %r: f32):
            linalg.yield %p : f32
        } -> tensor<?xf32>"""
    assert messages(body, named("n"), "tensor<?xf32>") == []
    wider = body.replace("i * 2 + j", "i * 3 + j")
    assert messages(wider, named("n"), "tensor<?xf32>") == ["{0} positions are read of a dimension of {1}"]


def test_loops_that_fill_a_tensor_stay_inside() -> None:
    body = """%e = tensor.empty(%d) : tensor<?xf32>
        %one = tensor.empty() : tensor<1xf32>
        %y = scf.for %i = %c0 to %d step %c1 iter_args(%t = %e) -> tensor<?xf32> {
          %u = tensor.insert_slice %one into %t[%i] [1] [1] : tensor<1xf32> into tensor<?xf32>
          scf.yield %u : tensor<?xf32>
        }"""
    assert messages(body, named("n"), "tensor<?xf32>") == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%y = tensor.cast %a : tensor<?xf32> to tensor<4xf32>", "a dimension is {0}, but must be {1}"),
        (
            """%s = tensor.from_elements %c1 : tensor<1xindex>
            %y = tensor.reshape %a(%s) : (tensor<?xf32>, tensor<1xindex>) -> tensor<4xf32>""",
            "{0} elements cannot become {1}",
        ),
        (
            "%y = tensor.extract_slice %a[2] [4] [3] : tensor<?xf32> to tensor<4xf32>",
            # A constant goes to the right of a comparison, and its number with it.
            "{1} positions are needed of a dimension of {0}",
        ),
    ],
)
def test_messages(body: str, message: str) -> None:
    assert messages(body, named("n"), "tensor<4xf32>") == [message]


def test_static_programs_are_not_changed() -> None:
    text = """func.func @main(%a: tensor<4xf32>) -> tensor<2xf32> {
        %y = tensor.extract_slice %a[2] [2] [1] : tensor<4xf32> to tensor<2xf32>
        return %y : tensor<2xf32>
      }"""
    program = Program.parse(text)
    before = str(program.module)
    assertions.run(program, None)
    assert str(program.module) == before


def test_assertions_outlive_the_stage() -> None:
    program = lower(
        f"""
      func.func @main({named("n", "m")}) -> tensor<?xf32> {{
        %c0 = arith.constant 0 : index
        %d = tensor.dim %a, %c0 : tensor<?xf32>
        {ADD}
        return %y : tensor<?xf32>
      }}""",
        passes("optimize"),
    )
    assert [op.name for op in walk(program.main())].count("cf.assert") == 1


def test_what_is_asserted_behind_a_loop_is_not_known_inside() -> None:
    """The extent of the loop's result is not there yet when an iteration needs it."""
    step = ADD.replace("%y", "%n").replace("ins(%a, %b", "ins(%a, %c").replace("%e", "%f")
    body = f"""%one = arith.constant 1 : index
        %l = scf.for %i = %c0 to %d step %one iter_args(%c = %b) -> (tensor<?xf32>) {{
          {step}
          scf.yield %n : tensor<?xf32>
        }}
        {ADD.replace("ins(%a, %b", "ins(%a, %l")}"""
    found = messages(body, named("n", "m"), "tensor<?xf32>")
    assert found == ["dimensions {0} and {1} do not agree"] * 2
