from __future__ import annotations

import numpy as np
from torch_mlir import ir

from rillet import schedule
from tests.support.flow_text import FlowKernel, module
from tests.support.ir_check import check, lower, main_text


def test_equal_contents_share_bytes() -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((3, 5)).astype(np.float32)
    b = rng.standard_normal(100).astype(np.float32)
    names = {"a": "tensor<3x5xf32>", "b": "tensor<100xf32>", "c": "tensor<15xf32>"}
    text = module(
        {"f": FlowKernel("tensor<3x5xf32>, tensor<100xf32>, tensor<15xf32>", ("tensor<8xf32>",))},
        """
        // CHECK: %[[S:.*]] = "stream.segment"() {ordinal = 0 : i64}
        // CHECK: "stream.dispatch"(%[[S]], %[[S]], %[[S]], %{{.*}}, %c0, %c64, %c0, %c0, %c60, %c400, %c60, %c32)
        func.func @main() -> tensor<8xf32> {
          %a = ml_program.global_load_const @a : tensor<3x5xf32>
          %b = ml_program.global_load_const @b : tensor<100xf32>
          %c = ml_program.global_load_const @c : tensor<15xf32>
          %0 = func.call @f(%a, %b, %c) : (tensor<3x5xf32>, tensor<100xf32>, tensor<15xf32>) -> tensor<8xf32>
          return %0 : tensor<8xf32>
        }
        """,
        names,
    )
    program = lower(text, schedule.passes(), constants={"a": a, "b": b, "c": a.reshape(15).copy()})
    check(main_text(program), text)
    [layout] = ir.ArrayAttr(program.module.operation.attributes["stream.segments"])
    assert ir.IntegerAttr(ir.DictAttr(layout)["length"]).value == 64 + 448
    assert [ir.StringAttr(n).value for n in ir.ArrayAttr(ir.DictAttr(layout)["names"])] == ["a", "b"]


def test_constants_that_escape_or_are_read_by_the_host() -> None:
    text = module(
        {},
        """
        // CHECK: %[[S:.*]] = "stream.segment"
        // CHECK: "stream.load"(%[[S]], %c72) {dtype = 7
        // CHECK: "stream.subview"(%[[S]], %{{.*}}, %c8)
        func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %c1 = arith.constant 1 : index
          %c0_i64 = arith.constant 0 : i64
          %a = ml_program.global_load_const @a : tensor<2xf32>
          %b = ml_program.global_load_const @b : tensor<2xi64>
          %0 = "flow.load"(%b, %c1) : (tensor<2xi64>, index) -> i64
          %1 = arith.cmpi eq, %0, %c0_i64 : i64
          %2 = scf.if %1 -> tensor<2xf32> {
            scf.yield %a : tensor<2xf32>
          } else {
            scf.yield %x : tensor<2xf32>
          }
          return %2 : tensor<2xf32>
        }
        """,
        {"a": "tensor<2xf32>", "b": "tensor<2xi64>"},
    )
    constants = {"a": np.array([1, 2], np.float32), "b": np.array([3, 4], np.int64)}
    program = lower(text, schedule.passes(), constants=constants)
    check(main_text(program), text)


def test_no_constants() -> None:
    text = "func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }"
    program = lower(text, schedule.passes())
    assert len(ir.ArrayAttr(program.module.operation.attributes["stream.segments"])) == 0
