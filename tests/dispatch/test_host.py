"""The host program: views, control flow, extents, memory that may be shared."""

from __future__ import annotations

import pytest

from rillet import dispatch
from tests.support.ir_check import check, lower
from tests.support.stages import passes


def main_of(text: str) -> str:
    program = lower(text, passes("dispatch"))
    dispatch.check(program)
    module = str(program.module)
    return module[: module.index("module @kernels")] if "module @kernels" in module else module


def test_views_cost_nothing() -> None:
    output = main_of("""
        func.func @main(%x: tensor<?x6xf32>, %i: tensor<i64>) -> (tensor<?x3x2xf32>, tensor<2x6xf32>, tensor<4xf32>) {
          %c0 = arith.constant 0 : index
          %d = tensor.dim %x, %c0 : tensor<?x6xf32>
          %y = tensor.expand_shape %x [[0], [1, 2]] output_shape [%d, 3, 2] : tensor<?x6xf32> into tensor<?x3x2xf32>
          %n = tensor.extract %i[] : tensor<i64>
          %o = arith.index_cast %n : i64 to index
          %z = tensor.extract_slice %x[%o, 0] [2, 6] [1, 1] : tensor<?x6xf32> to tensor<2x6xf32>
          %f = arith.sitofp %n : i64 to f32
          %e = tensor.empty() : tensor<4xf32>
          %s = linalg.fill ins(%f : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
          func.return %y, %z, %s : tensor<?x3x2xf32>, tensor<2x6xf32>, tensor<4xf32>
        }""")
    check(
        output,
        """
        // CHECK-NOT: call
        // CHECK-DAG: %[[D:.*]] = tensor.dim %arg0
        // CHECK-DAG: "flow.reshape"(%arg0, %[[D]])
        // CHECK-DAG: %[[N:.*]] = "flow.load"(%arg1
        // CHECK-DAG: %[[I:.*]] = arith.index_cast %[[N]]
        // CHECK-DAG: %[[O:.*]] = arith.muli %[[I]], %c6
        // CHECK: "flow.slice"(%arg0, %[[O]])
        // CHECK: "flow.splat"
        """,
    )


def test_a_strided_slice_is_a_dispatch() -> None:
    output = main_of("""
        func.func @main(%x: tensor<4x6xf32>) -> tensor<4x2xf32> {
          %y = tensor.extract_slice %x[0, 1] [4, 2] [1, 1] : tensor<4x6xf32> to tensor<4x2xf32>
          func.return %y : tensor<4x2xf32>
        }""")
    assert "call @slice_4x2" in output


def test_an_insertion_updates_its_destination() -> None:
    output = main_of("""
        func.func @main(%x: tensor<4x6xf32>, %u: tensor<4x2xf32>) -> tensor<4x6xf32> {
          %y = tensor.insert_slice %u into %x[0, 1] [4, 2] [1, 1] : tensor<4x2xf32> into tensor<4x6xf32>
          func.return %y : tensor<4x6xf32>
        }""")
    assert "flow.tied = array<i64: 0, 1>" in output


BRANCHES = """
    #id = affine_map<(d0) -> (d0)>
    func.func @main(%x: tensor<?xf32>, %p: tensor<i1>) -> tensor<?xf32> {
      %c = tensor.extract %p[] : tensor<i1>
      %y = scf.if %c -> tensor<?xf32> {
        %c0 = arith.constant 0 : index
        %d = tensor.dim %x, %c0 : tensor<?xf32>
        %e = tensor.empty(%d) : tensor<?xf32>
        %u = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
            ins(%x : tensor<?xf32>) outs(%e : tensor<?xf32>) {
        ^bb0(%a: f32, %b: f32):
          %r = arith.negf %a : f32
          linalg.yield %r : f32
        } -> tensor<?xf32>
        scf.yield %u : tensor<?xf32>
      } else {
        scf.yield %x : tensor<?xf32>
      }
      %c0 = arith.constant 0 : index
      %d = tensor.dim %y, %c0 : tensor<?xf32>
      %e = tensor.empty(%d) : tensor<?xf32>
      %z = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
          ins(%y : tensor<?xf32>) outs(%e : tensor<?xf32>) {
      ^bb0(%a: f32, %b: f32):
        %r = math.sqrt %a : f32
        linalg.yield %r : f32
      } -> tensor<?xf32>
      func.return %z : tensor<?xf32>
    }"""


def test_branches_stay_on_the_host() -> None:
    check(
        main_of(BRANCHES),
        """
        // CHECK: %[[C:.*]] = "flow.load"
        // CHECK: %[[Y:.*]] = scf.if %[[C]]
        // CHECK: func.call @elementwise_D{{.*}}(%arg0
        // CHECK: %[[D:.*]] = tensor.dim %[[Y]]
        // CHECK: call @elementwise_D{{.*}}(%[[Y]], %[[D]])
        """,
    )


ALIAS = """
    #id = affine_map<(d0, d1) -> (d0, d1)>
    #t = affine_map<(d0, d1) -> (d1, d0)>
    func.func @main(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {{
      %e = tensor.empty() : tensor<4x4xf32>
      %y = linalg.generic {{indexing_maps = [#id, {map}, #id], iterator_types = ["parallel", "parallel"]}}
          ins(%x, %w : tensor<4x4xf32>, tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {{
      ^bb0(%a: f32, %b: f32, %o: f32):
        %r = arith.addf %a, %b : f32
        linalg.yield %r : f32
      }} -> tensor<4x4xf32>
      func.return %y : tensor<4x4xf32>
    }}"""


@pytest.mark.parametrize(("map_", "pairs"), [("#id", "0, 0, 0, 1"), ("#t", "0, 0")])
def test_operands_read_in_place_may_be_overwritten(map_: str, pairs: str) -> None:
    assert f"flow.may_alias = array<i64: {pairs}>" in main_of(ALIAS.format(map=map_))
