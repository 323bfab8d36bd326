from __future__ import annotations

from rillet import schedule
from tests.support.flow_text import FlowKernel, module
from tests.support.ir_check import check, lower, main_text

F = FlowKernel("tensor<8xf32>", ("tensor<8xf32>",))
ADD = FlowKernel("tensor<8xf32>, tensor<8xf32>", ("tensor<8xf32>",), may_alias=(0, 0, 0, 1))
PUT = FlowKernel("tensor<8xf32>, tensor<f32>, index", ("tensor<8xf32>",), tied=(0, 0))
KERNELS = {"f": F, "add": ADD, "put": PUT}


def assert_schedules(main: str, until: str = "in-place-after-loops") -> None:
    text = module(KERNELS, main)
    check(main_text(lower(text, schedule.passes(), until=until)), text)


def test_a_result_takes_the_memory_of_a_dying_argument() -> None:
    """%0 is needed again, so %1's memory is taken; it becomes the result's."""
    assert_schedules(
        """
        // CHECK: %[[A:.*]] = "stream.alloc"(%c32) {lifetime = "transient"}
        // CHECK: "stream.dispatch"(%{{.*}}, %[[A]], {{.*}} entry = @kernels::@f
        // CHECK: %[[B:.*]] = "stream.alloc"(%c32) {lifetime = "external"}
        // CHECK: "stream.dispatch"(%[[A]], %[[B]], {{.*}} entry = @kernels::@f
        // CHECK: "stream.dispatch"(%[[A]], %[[B]], %[[B]], {{.*}} entry = @kernels::@add
        // CHECK: "stream.dispatch"(%[[A]], {{.*}} entry = @kernels::@f
        // CHECK: "stream.export_view"(%[[B]]
        func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
          %0 = func.call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
          %1 = func.call @f(%0) : (tensor<8xf32>) -> tensor<8xf32>
          %2 = func.call @add(%0, %1) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
          %3 = func.call @f(%0) : (tensor<8xf32>) -> tensor<8xf32>
          return %2, %3 : tensor<8xf32>, tensor<8xf32>
        }
        """
    )


def test_inputs_are_never_overwritten() -> None:
    assert_schedules(
        """
        // CHECK: %[[X:.*]] = "stream.import_view"
        // CHECK: %[[Y:.*]] = "stream.alloc"
        // CHECK: "stream.dispatch"(%[[X]], %[[X]], %[[Y]],
        func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
          %0 = func.call @add(%x, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
          return %0 : tensor<8xf32>
        }
        """
    )


def test_an_argument_that_is_read_twice_is_not_overwritten() -> None:
    assert_schedules(
        """
        // CHECK: %[[A:.*]] = "stream.alloc"
        // CHECK: %[[B:.*]] = "stream.alloc"
        // CHECK: "stream.dispatch"(%[[A]], %[[A]], %[[B]],
        func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
          %0 = func.call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
          %1 = func.call @add(%0, %0) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
          return %1 : tensor<8xf32>
        }
        """
    )


def test_the_original_of_an_update_survives_when_it_is_needed() -> None:
    assert_schedules(
        """
        // CHECK: %[[A:.*]] = "stream.alloc"
        // CHECK: %[[B:.*]] = "stream.alloc"
        // CHECK: "stream.copy"(%[[B]], %c0, %[[A]], %c0, %c32)
        // CHECK-NOT: stream.copy
        func.func @main(%x: tensor<8xf32>, %v: tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>) {
          %c0 = arith.constant 0 : index
          %0 = func.call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
          %1 = func.call @put(%0, %v, %c0) : (tensor<8xf32>, tensor<f32>, index) -> tensor<8xf32>
          %2 = func.call @put(%1, %v, %c0) : (tensor<8xf32>, tensor<f32>, index) -> tensor<8xf32>
          return %0, %2 : tensor<8xf32>, tensor<8xf32>
        }
        """
    )


def test_an_accumulator_is_updated_in_place() -> None:
    """The loop passes the memory round unchanged, so it is no loop-carried value at all in the end."""
    assert_schedules(
        """
        // CHECK: %[[A:.*]] = "stream.alloc"(%c32) {lifetime = "external"}
        // CHECK: scf.for
        // CHECK-NOT: stream.copy
        // CHECK: "stream.dispatch"(%{{.*}}, %[[A]], %{{.*}}, %[[A]],
        // CHECK: "stream.export_view"(%[[A]]
        func.func @main(%x: tensor<8xf32>, %v: tensor<f32>) -> tensor<8xf32> {
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %c8 = arith.constant 8 : index
          %0 = func.call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
          %r = scf.for %i = %c0 to %c8 step %c1 iter_args(%a = %0) -> tensor<8xf32> {
            %1 = func.call @put(%a, %v, %i) : (tensor<8xf32>, tensor<f32>, index) -> tensor<8xf32>
            scf.yield %1 : tensor<8xf32>
          }
          return %r : tensor<8xf32>
        }
        """
    )


def test_an_accumulator_that_starts_as_an_input_is_copied_once() -> None:
    assert_schedules(
        """
        // CHECK: %[[A:.*]] = "stream.alloc"
        // CHECK: "stream.copy"(%[[A]], %c0, %{{.*}}, %c0, %c32)
        // CHECK: scf.while
        // CHECK-NOT: stream.copy
        // CHECK: return
        func.func @main(%x: tensor<8xf32>, %v: tensor<f32>) -> tensor<8xf32> {
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %c8 = arith.constant 8 : index
          %r:2 = scf.while (%a = %x, %i = %c0) : (tensor<8xf32>, index) -> (tensor<8xf32>, index) {
            %more = arith.cmpi slt, %i, %c8 : index
            scf.condition(%more) %a, %i : tensor<8xf32>, index
          } do {
          ^bb0(%a: tensor<8xf32>, %i: index):
            %1 = func.call @put(%a, %v, %i) : (tensor<8xf32>, tensor<f32>, index) -> tensor<8xf32>
            %2 = arith.addi %i, %c1 : index
            scf.yield %1, %2 : tensor<8xf32>, index
          }
          return %r#0 : tensor<8xf32>
        }
        """
    )


def test_a_carried_value_that_is_read_after_its_update_is_copied() -> None:
    assert_schedules(
        """
        // CHECK: scf.for
        // CHECK: stream.copy
        // CHECK: entry = @kernels::@put
        // CHECK: entry = @kernels::@f
        func.func @main(%x: tensor<8xf32>, %v: tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>) {
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %c8 = arith.constant 8 : index
          %r:2 = scf.for %i = %c0 to %c8 step %c1 iter_args(%a = %x, %b = %x) -> (tensor<8xf32>, tensor<8xf32>) {
            %1 = func.call @put(%a, %v, %i) : (tensor<8xf32>, tensor<f32>, index) -> tensor<8xf32>
            %2 = func.call @f(%a) : (tensor<8xf32>) -> tensor<8xf32>
            scf.yield %1, %2 : tensor<8xf32>, tensor<8xf32>
          }
          return %r#0, %r#1 : tensor<8xf32>, tensor<8xf32>
        }
        """
    )
