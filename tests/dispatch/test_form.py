"""Each message of the spec check."""

from __future__ import annotations

import pytest

from rillet import dispatch, optimize
from rillet.errors import CompileError
from rillet.ir import Program

KERNEL = """
  module @kernels {{
    module @k attributes {{flow.kernel}} {{
      func.func @k({arguments}) -> tensor<?xf32> {{ {body} }}
    }}
  }}
"""


def program(main: str, arguments: str = "", body: str = "") -> Program:
    return Program.parse("module {" + main + (KERNEL.format(arguments=arguments, body=body) if body else "") + "}")


MAIN = "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }"
RETURN = "return %a : tensor<?xf32>"


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            program(
                "func.func private @f(tensor<4xf32>) -> tensor<4xf32>"
                " func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {"
                "%y = call @f(%x) : (tensor<4xf32>) -> tensor<4xf32> return %y : tensor<4xf32> }"
            ),
            "@main calls @f, which is no kernel",
        ),
        (
            program(
                "func.func @main(%x: tensor<4xf32>) -> tensor<8xf32> {"
                "%y = tensor.concat dim(0) %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>"
                " return %y : tensor<8xf32> }"
            ),
            "'tensor.concat' on tensors is left in the host program",
        ),
        (
            program(
                "func.func @main(%x: tensor<4xf32>, %i: index) -> index { %c = arith.constant 0 : index"
                ' %y = "flow.reshape"(%x, %i) {operandSegmentSizes = array<i32: 1, 1>}'
                " : (tensor<4xf32>, index) -> tensor<?xf32>"
                " %d = tensor.dim %y, %c : tensor<?xf32> return %d : index }"
            ),
            "tensor.dim of a 'flow.reshape' is left in the host program",
        ),
        (program(MAIN, "%n: index, %a: tensor<?xf32>", RETURN), "has a scalar argument before a tensor"),
        (program(MAIN, "%a: tensor<?xf32>, %n: index", RETURN), "lacks the extents of a tensor at its edge"),
    ],
)
def test_flow_spec(bad: Program, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        dispatch.check(bad)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "func.func @f() { return } func.func @main() { return }",
            "function @f beside @main",
        ),
        (
            "func.func @main() -> tensor<2xf32> { %c = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>"
            " return %c : tensor<2xf32> }",
            "a constant that is not a splat must be an external global",
        ),
        (
            "ml_program.global private @w(#ml_program.extern<tensor<2xf32>>) : tensor<2xf32>"
            " func.func @main() { return }",
            "external constant @w has no array",
        ),
        (
            "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { %y = linalg.exp ins(%x : tensor<4xf32>)"
            " outs(%x : tensor<4xf32>) -> tensor<4xf32> return %y : tensor<4xf32> }",
            "'linalg.exp' is not part of the tensor form",
        ),
    ],
)
def test_tensor_spec(text: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        optimize.check(Program.parse("module {" + text + "}"))
