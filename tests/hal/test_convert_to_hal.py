from __future__ import annotations

import pytest

from rillet import hal, schedule
from rillet.errors import CompileError
from rillet.hal import convert_to_hal
from rillet.ir import Program
from rillet.ir.passes import Pass
from tests.support.flow_text import FlowKernel, module
from tests.support.ir_check import check, lower

F = FlowKernel("tensor<8xf32>", ("tensor<8xf32>",))
ROWS = FlowKernel("tensor<?xf32>, index", ("tensor<?xf32>",), ((1,),))
STATIC = module(
    {"unused": F, "f": F},
    """
    // CHECK-LABEL: func.func @__init()
    // CHECK: %[[C:.*]] = "hal.cmd_create"(%c0_i64, %c3_i64)
    // CHECK-NEXT: "hal.cmd_bind"(%[[C]], %c0_i64, %c0_i64, %c0, %c32, %c1_i64)
    // CHECK-NEXT: "hal.cmd_bind"(%[[C]], %c1_i64, %c1_i64, %c0, %c32, %c2_i64)
    // CHECK-NEXT: "hal.cmd_dispatch"(%[[C]], %c1_i64)
    // CHECK-NEXT: "hal.cmd_barrier"(%[[C]])
    // CHECK-NEXT: "hal.cmd_bind"(%[[C]], %c0_i64, %c1_i64
    // CHECK-NEXT: "hal.cmd_bind"(%[[C]], %c1_i64, %c2_i64
    // CHECK-NEXT: "hal.cmd_dispatch"(%[[C]], %c1_i64)
    // CHECK-NEXT: "hal.cmd_end"(%[[C]])
    // CHECK-NEXT: "hal.global_store"(%[[C]]) {ordinal = 0 : i64}
    // CHECK-LABEL: func.func @main
    // CHECK: "hal.view_check"(%arg0, %c0_i64, %c1_i64, %c1_i64, %c8_i64)
    // CHECK: %[[X:.*]] = "hal.view_buffer"(%arg0)
    // CHECK: %[[ARENA:.*]] = "hal.buffer_transient"(%c0_i64, %c64)
    // CHECK: %[[Y:.*]] = "hal.buffer_allocate"(%c0_i64, %c32)
    // CHECK: %[[G:.*]] = "hal.global_load"() {ordinal = 0 : i64}
    // CHECK: "hal.execute"(%[[G]], %[[X]], %[[ARENA]], %[[Y]])
    func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
      %0 = func.call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
      %1 = func.call @f(%0) : (tensor<8xf32>) -> tensor<8xf32>
      return %1 : tensor<8xf32>
    }
    """,
)


def test_static_regions_are_recorded_once() -> None:
    program = lower(STATIC, [*schedule.passes(), *hal.passes()])
    hal.check(program)
    check(str(program.module), STATIC)


def test_recording_at_each_call() -> None:
    passes = [
        *schedule.passes(),
        Pass("convert-to-hal", "hal", convert_to_hal.run, convert_to_hal.Options(record_once=False)),
    ]
    text = str(lower(STATIC, passes).module)
    assert "@__init" not in text
    assert "hal.cmd_create" in text


def test_dynamic_regions_are_recorded_where_they_run() -> None:
    text = module(
        {"f": ROWS},
        """
        // CHECK-NOT: @__init
        // CHECK: %[[N:.*]] = "hal.view_dim"(%arg0, %c0_i64)
        // CHECK: %[[BYTES:.*]] = arith.muli %[[N]], %c4
        // CHECK: %[[C:.*]] = "hal.cmd_create"(%c0_i64, %c2_i64)
        // CHECK: "hal.cmd_constants"(%[[C]], %{{.*}})
        // CHECK: "hal.cmd_bind"(%[[C]], %c0_i64, %c0_i64, %c0, %[[BYTES]], %c1_i64)
        // CHECK: "hal.execute"(%[[C]],
        func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
          %c0 = arith.constant 0 : index
          %n = tensor.dim %x, %c0 : tensor<?xf32>
          %0 = func.call @f(%x, %n) : (tensor<?xf32>, index) -> tensor<?xf32>
          return %0 : tensor<?xf32>
        }
        """,
    )
    check(str(lower(text, [*schedule.passes(), *hal.passes()]).module), text)


def test_control_flow_becomes_branches() -> None:
    text = module(
        {"f": F},
        """
        // CHECK-LABEL: @__init
        // CHECK: "hal.global_store"
        // CHECK-LABEL: @main
        // CHECK: cf.br ^[[HEAD:.*]](%c0, %{{.*}} : index, !hal.buffer)
        // CHECK: cf.cond_br %{{.*}}, ^[[BODY:.*]], ^[[EXIT:.*]]
        // CHECK: %[[NEW:.*]] = "hal.buffer_transient"
        // CHECK: "hal.execute"
        // CHECK: cf.br ^[[HEAD]](%{{.*}}, %[[NEW]] : index, !hal.buffer)
        func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %c9 = arith.constant 9 : index
          %r = scf.for %i = %c0 to %c9 step %c1 iter_args(%a = %x) -> tensor<8xf32> {
            %0 = func.call @f(%a) : (tensor<8xf32>) -> tensor<8xf32>
            scf.yield %0 : tensor<8xf32>
          }
          return %r : tensor<8xf32>
        }
        """,
    )
    check(str(lower(text, [*schedule.passes(), *hal.passes()]).module), text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("func.func @main(%c: index) { scf.execute_region { scf.yield }\n return }", "'scf.execute_region' is left"),
        ("module { module @kernels {} }", "'builtin.module' is left in the module"),
    ],
)
def test_spec(text: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        hal.check(Program.parse(text))
