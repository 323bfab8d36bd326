"""Work counted for each kernel: of operands that are touched in part, the part."""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper
from torch_mlir import ir

from rillet import targets
from rillet.dispatch import stats
from rillet.driver.lowering import lower_until
from rillet.frontends.registry import open_model
from rillet.ir import Program
from rillet.ir.attributes import MACS

MODULE = """
module {{
  module @kernels {{
    module @k attributes {{flow.kernel}} {{
      func.func @k({arguments}) -> {result} {{
        {body}
      }}
    }}
  }}
  func.func private @k({types}) -> {result} attributes {{flow.kernel = @kernels::@k}}
  func.func @main({arguments}) -> {result} {{
    %r = call @k({names}) : ({types}) -> {result}
    return %r : {result}
  }}
}}
"""
TABLE = (
    {"table": "tensor<1000x8xf32>", "ids": "tensor<4xi64>"},
    "tensor<4x8xf32>",
    """
    %e = tensor.empty() : tensor<4x8xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
                         iterator_types = ["parallel", "parallel"]}
        ins(%ids : tensor<4xi64>) outs(%e : tensor<4x8xf32>) {
    ^bb0(%id: i64, %o: f32):
      %i = arith.index_cast %id : i64 to index
      %j = linalg.index 1 : index
      %v = tensor.extract %table[%i, %j] : tensor<1000x8xf32>
      linalg.yield %v : f32
    } -> tensor<4x8xf32>
    return %r : tensor<4x8xf32>""",
)
TAKE = (
    {"x": "tensor<1000xf32>"},
    "tensor<10xf32>",
    "%r = tensor.extract_slice %x[5] [10] [1] : tensor<1000xf32> to tensor<10xf32> return %r : tensor<10xf32>",
)
PART = (
    {"x": "tensor<10xf32>", "whole": "tensor<1000xf32>"},
    "tensor<1000xf32>",
    "%r = tensor.insert_slice %x into %whole[5] [10] [1] : tensor<10xf32> into tensor<1000xf32>"
    " return %r : tensor<1000xf32>",
)
PRODUCT = (
    {"a": "tensor<3x5xf32>", "b": "tensor<5x7xf32>", "c": "tensor<3x7xf32>"},
    "tensor<3x7xf32>",
    """
    %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
                                          affine_map<(m, n, k) -> (m, n)>],
                         iterator_types = ["parallel", "parallel", "reduction"]}
        ins(%a, %b : tensor<3x5xf32>, tensor<5x7xf32>) outs(%c : tensor<3x7xf32>) {
    ^bb0(%x: f32, %y: f32, %z: f32):
      %p = arith.mulf %x, %y : f32
      %s = arith.addf %z, %p : f32
      linalg.yield %s : f32
    } -> tensor<3x7xf32>
    return %r : tensor<3x7xf32>""",
)

# The product is added up in a loop inside of a kernel.
REPEATED = (
    PRODUCT[0],
    PRODUCT[1],
    """
    %zero = arith.constant 0 : index %six = arith.constant 6 : index %two = arith.constant 2 : index
    %s = scf.for %i = %zero to %six step %two iter_args(%d = %c) -> tensor<3x7xf32> {
    """
    + PRODUCT[2].replace("outs(%c", "outs(%d").replace("return %r", "scf.yield %r")
    + "} return %s : tensor<3x7xf32>",
)
LOOPS = """
  func.func @main(%a: tensor<3x5xf32>, %b: tensor<5x7xf32>, %c: tensor<3x7xf32>, %n: index) -> tensor<3x7xf32> {
    %zero = arith.constant 0 : index %one = arith.constant 1 : index
    %two = arith.constant 2 : index %ten = arith.constant 10 : index
    OPEN
    %r = func.call @k(%a, %b, %CARRIED) : (tensor<3x5xf32>, tensor<5x7xf32>, tensor<3x7xf32>) -> tensor<3x7xf32>
    CLOSE
  }
"""


@pytest.mark.parametrize(
    ("bounds", "runs"),
    [
        pytest.param(["%zero to %ten step %one"], 10, id="a loop"),
        pytest.param(["%one to %ten step %two"], 5, id="by a step that leaves a rest"),
        pytest.param(["%ten to %two step %one"], 0, id="that never runs"),
        pytest.param(["%zero to %two step %one", "%zero to %ten step %one"], 20, id="in a loop"),
        pytest.param(["%zero to %n step %one", "%zero to %ten step %one"], 10, id="in a loop that run time ends"),
        pytest.param(["%n to %ten step %one"], 1, id="that run time begins"),
    ],
)
def test_work_of_loops(bounds: list[str], runs: int) -> None:
    opened, closed, carried, result = [], [], "c", "r"
    for depth, bound in enumerate(bounds):
        opened.append(
            f"%l{depth} = scf.for %i{depth} = {bound} iter_args(%v{depth} = %{carried}) -> tensor<3x7xf32> {{"
        )
        carried = f"v{depth}"
    for depth in reversed(range(len(bounds))):
        closed.append(f"scf.yield %{result} : tensor<3x7xf32> }}")
        result = f"l{depth}"
    main = LOOPS.replace("OPEN", " ".join(opened)).replace("CARRIED", carried)
    main = main.replace("CLOSE", " ".join([*closed, f"return %{result} : tensor<3x7xf32>"]))
    text = _module(PRODUCT)
    program = Program.parse(text[: text.index("func.func @main")] + main + "}")
    stats.run(program, None)
    assert ir.IntegerAttr(program.module.operation.attributes["rillet.macs"]).value == runs * 3 * 5 * 7


@pytest.mark.parametrize(
    ("function", "macs", "size"),
    [
        pytest.param(TABLE, 0, 4 * (2 * 4 * 8) + 8 * 4, id="the rows taken from a table"),
        pytest.param(TAKE, 0, 4 * 2 * 10, id="a slice"),
        pytest.param(PART, 0, 4 * 2 * 10, id="a part written in place"),
        pytest.param(REPEATED, 3 * 3 * 5 * 7, 4 * (3 * 5 + 5 * 7 + 2 * 3 * 7), id="a loop in a kernel"),
        pytest.param(PRODUCT, 3 * 5 * 7, 4 * (3 * 5 + 5 * 7 + 2 * 3 * 7), id="whole operands"),
    ],
)
def test_work_of_one_dispatch(function: tuple[dict[str, str], str, str], macs: int, size: int) -> None:
    program = Program.parse(_module(function))
    stats.run(program, None)
    declaration = program.module.body.operations[1].operation
    found = [ir.IntegerAttr(declaration.attributes[f"rillet.{name}"]).value for name in ("macs", "bytes")]
    assert found == [macs, size]


def _module(function: tuple[dict[str, str], str, str]) -> str:
    """A program of one call of a kernel: its arguments, its result's type, and its body."""
    arguments, result, body = function
    return MODULE.format(
        arguments=", ".join(f"%{name}: {type_}" for name, type_ in arguments.items()),
        names=", ".join(f"%{name}" for name in arguments),
        types=", ".join(arguments.values()),
        result=result,
        body=body,
    )


@pytest.mark.parametrize(("of", "macs"), [("real", 5_120), ("complex", 10_240)])
def test_work_of_a_fourier_transform(of: str, macs: int) -> None:
    parts = 1 if of == "real" else 2
    node = helper.make_node("DFT", ["x"], ["y"], axis=1)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 256, parts])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 256, 2])
    model = helper.make_model(
        helper.make_graph([node], "g", [x], [y]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    program = lower_until(open_model(model), "dispatch", target=targets.get("x86-64-v2"))
    assert ir.IntegerAttr(program.module.operation.attributes[MACS]).value == macs
