from __future__ import annotations

import numpy as np
import pytest

from rillet import schedule
from rillet.errors import CompileError
from tests.support.flow_text import FlowKernel, module
from tests.support.ir_check import check, lower, main_text

F = FlowKernel("tensor<8xf32>", ("tensor<8xf32>",))


def assert_converts(text: str, **constants: np.ndarray) -> None:
    program = lower(text, schedule.passes(), until="convert-to-stream", constants=constants)
    check(main_text(program), text)


def test_dispatch_scalars_and_constants() -> None:
    assert_converts(
        module(
            {"f": FlowKernel("tensor<8xf32>, tensor<4xf32>, i32, i1, f32, index", ("tensor<8xf32>",))},
            """
            // CHECK: "stream.view_check"(%arg0) {argument = 0 : i64, dims = array<i64: 8>, dtype = 1 : i64}
            // CHECK: %[[X:.*]] = "stream.import_view"(%arg0)
            // CHECK: %[[W:.*]] = "stream.constant"() {symbol = "w"}
            // CHECK: %[[Y:.*]] = "stream.alloc"(%c32) {lifetime = "external"}
            // CHECK: "stream.dispatch"(%c-3_i64, %c1_i64, %c1069547520_i64, %c7_i64, %[[X]], %[[W]], %[[Y]],
            // CHECK-SAME: %c0, %c0, %c0, %c32, %c16, %c32)
            // CHECK-SAME: access = ["read", "read", "write"], entry = @kernels::@f
            // CHECK: "stream.export_view"(%[[Y]], %c8) {dtype = 1 : i64
            func.func @main(%x: tensor<8xf32> {rillet.name = "x"}) -> tensor<8xf32> {
              %w = ml_program.global_load_const @w : tensor<4xf32>
              %a = arith.constant -3 : i32
              %b = arith.constant true
              %c = arith.constant 1.5 : f32
              %d = arith.constant 7 : index
              %0 = func.call @f(%x, %w, %a, %b, %c, %d)
                  : (tensor<8xf32>, tensor<4xf32>, i32, i1, f32, index) -> tensor<8xf32>
              return %0 : tensor<8xf32>
            }
            """,
            {"w": "tensor<4xf32>"},
        ),
        w=np.zeros(4, np.float32),
    )


def test_views_are_free() -> None:
    assert_converts(
        module(
            {"f": F},
            """
            // CHECK: %[[X:.*]] = "stream.import_view"
            // CHECK: "stream.dispatch"(%[[X]], %{{.*}}, %c48, %c0, %c32, %c32)
            func.func @main(%x: tensor<5x4xf32>) -> tensor<8xf32> {
              %c12 = arith.constant 12 : index
              %0 = "flow.slice"(%x, %c12) {operandSegmentSizes = array<i32: 1, 1, 0>}
                  : (tensor<5x4xf32>, index) -> tensor<2x4xf32>
              %1 = "flow.reshape"(%0) {operandSegmentSizes = array<i32: 1, 0>} : (tensor<2x4xf32>) -> tensor<8xf32>
              %2 = func.call @f(%1) : (tensor<8xf32>) -> tensor<8xf32>
              return %2 : tensor<8xf32>
            }
            """,
        )
    )


def test_results_that_need_a_copy() -> None:
    """An input, a second use of a result, and a part of something."""
    assert_converts(
        module(
            {"f": F},
            """
            // CHECK: "stream.dispatch"({{.*}}, %[[Y:.*]], %c0, %c0, %c32, %c32)
            // CHECK: "stream.export_view"(%[[Y]]
            // CHECK: %[[SECOND:.*]] = "stream.alloc"
            // CHECK: "stream.copy"(%[[SECOND]], %c0, %[[Y]], %c0, %c32)
            // CHECK: "stream.export_view"(%[[SECOND]]
            // CHECK: %[[INPUT:.*]] = "stream.alloc"
            // CHECK: "stream.copy"(%[[INPUT]]
            // CHECK: "stream.export_view"(%[[INPUT]]
            // CHECK: %[[PART:.*]] = "stream.alloc"(%c8)
            // CHECK: "stream.copy"(%[[PART]], %c0, %[[Y]], %c4, %c8)
            // CHECK: "stream.export_view"(%[[PART]]
            func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2xf32>) {
              %0 = func.call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
              %c1 = arith.constant 1 : index
              %1 = "flow.slice"(%0, %c1) {operandSegmentSizes = array<i32: 1, 1, 0>}
                  : (tensor<8xf32>, index) -> tensor<2xf32>
              return %0, %0, %x, %1 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2xf32>
            }
            """,
        )
    )


def test_named_dimensions_are_checked_once_for_each_repetition() -> None:
    assert_converts(
        module(
            {},
            """
            // CHECK: %[[N:.*]] = "stream.view_dim"(%arg0) {axis = 0 : i64}
            // CHECK: %[[M:.*]] = "stream.view_dim"(%arg1) {axis = 1 : i64}
            // CHECK: "stream.check_dim"(%[[M]], %[[N]]) {argument = 1 : i64, axis = 1 : i64}
            // CHECK: "stream.export_view"(%{{.*}}, %c3, %[[N]])
            func.func @main(%x: tensor<?x4xf32> {rillet.dims = ["N", "4"]},
                            %y: tensor<3x?xi64> {rillet.dims = ["3", "N"]}) -> tensor<3x?xi64> {
              return %y : tensor<3x?xi64>
            }
            """,
        )
    )


def test_splats_small_and_large() -> None:
    program = lower(
        module(
            {},
            """
            func.func @main() -> (tensor<4xf32>, tensor<1000000xi16>, tensor<0xf32>) {
              %0 = arith.constant dense<2.5> : tensor<4xf32>
              %1 = arith.constant dense<-2> : tensor<1000000xi16>
              %2 = arith.constant dense<> : tensor<0xf32>
              return %0, %1, %2 : tensor<4xf32>, tensor<1000000xi16>, tensor<0xf32>
            }
            """,
        ),
        schedule.passes(),
        until="convert-to-stream",
    )
    np.testing.assert_array_equal(program.constants["splat"], np.full(4, 2.5, np.float32))
    check(
        main_text(program),
        """
        // CHECK: symbol = "splat"
        // CHECK: "stream.fill"(%c65534_i64, %{{.*}}, %c0, %c2000000) {pattern_size = 2 : i64}
        // CHECK: symbol = "empty"
        """,
    )


def test_updates_in_place_start_as_copies() -> None:
    put = FlowKernel("tensor<?xf32>, tensor<f32>, index, index", ("tensor<?xf32>",), ((3,),), tied=(0, 0))
    assert_converts(
        module(
            {"put": put},
            """
            // CHECK: %[[Y:.*]] = "stream.alloc"
            // CHECK: "stream.copy"(%[[Y]], %c0, %[[X:.*]], %c0, %[[LENGTH:.*]])
            // CHECK: "stream.dispatch"(%{{.*}}, %{{.*}}, %[[Y]], %{{.*}}, %[[Y]],
            // CHECK-SAME: access = ["read_write", "read", "read_write"]
            func.func @main(%x: tensor<?xf32>, %v: tensor<f32>) -> tensor<?xf32> {
              %c0 = arith.constant 0 : index
              %n = tensor.dim %x, %c0 : tensor<?xf32>
              %0 = func.call @put(%x, %v, %c0, %n) : (tensor<?xf32>, tensor<f32>, index, index) -> tensor<?xf32>
              return %0 : tensor<?xf32>
            }
            """,
        )
    )


def test_control_flow_carries_resources_and_extents() -> None:
    assert_converts(
        module(
            {},
            """
            // CHECK: scf.if %{{.*}} -> (!stream.resource, index) {
            // CHECK: %[[PART:.*]] = "stream.subview"(%{{.*}}, %c4, %{{.*}})
            // CHECK: scf.yield %[[PART]], %{{.*}} : !stream.resource, index
            func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
              %c0 = arith.constant 0 : index
              %c1 = arith.constant 1 : index
              %n = tensor.dim %x, %c0 : tensor<?xf32>
              %many = arith.cmpi sgt, %n, %c1 : index
              %r:2 = scf.if %many -> (tensor<?xf32>, index) {
                %m = arith.subi %n, %c1 : index
                %0 = "flow.slice"(%x, %c1, %m) {operandSegmentSizes = array<i32: 1, 1, 1>}
                    : (tensor<?xf32>, index, index) -> tensor<?xf32>
                scf.yield %0, %m : tensor<?xf32>, index
              } else {
                scf.yield %x, %n : tensor<?xf32>, index
              }
              return %r#0 : tensor<?xf32>
            }
            """,
        )
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "%0 = tensor.empty() : tensor<4xf32>\n %1 = tensor.cast %0 : tensor<4xf32> to tensor<?xf32>\n return",
            "'tensor.cast' on tensors is left in the host program",
        ),
        ("%0 = arith.constant dense<[1, 2]> : tensor<2xi32>\n return", "not a splat"),
    ],
)
def test_what_dispatch_should_have_removed(body: str, message: str) -> None:
    text = f"func.func @main() {{\n {body}\n }}"
    with pytest.raises(CompileError, match=message):
        lower(text, schedule.passes(), until="convert-to-stream")


def test_a_result_without_its_extents() -> None:
    text = module(
        {"f": FlowKernel("tensor<8xf32>", ("tensor<?xf32>",))},
        """
        func.func @main(%x: tensor<8xf32>) -> tensor<?xf32> {
          %0 = func.call @f(%x) : (tensor<8xf32>) -> tensor<?xf32>
          return %0 : tensor<?xf32>
        }
        """,
    )
    with pytest.raises(CompileError, match="result 0 of kernel 'f' lacks"):
        lower(text, schedule.passes(), until="convert-to-stream")
