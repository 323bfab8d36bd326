"""Assertions in the bodies of structured ops: the host makes them, or they are refused."""

import numpy as np
import pytest

import rillet
from rillet.errors import RunError, UnsupportedError

_MAP = "#map = affine_map<(d0, d1) -> (d0, d1)>\n"
_ROOT = """
func.func @main(%a: tensor<3x5xf32>) -> tensor<3x5xf32> {{
  %e = tensor.empty() : tensor<3x5xf32>
  %0 = linalg.generic {{indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]}}
      ins(%a : tensor<3x5xf32>) outs(%e : tensor<3x5xf32>) {{
  ^bb0(%x: f32, %o: f32):
    %z = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %c = arith.cmpf {predicate}, %x, %z : f32
    cf.assert %c, "{message}" {location}
    %1 = arith.divf %one, %x : f32
    linalg.yield %1 : f32
  }} -> tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}}"""


def _text(predicate: str = "oge", message: str = "a number is negative", location: str = "") -> str:
    return _MAP + _ROOT.format(predicate=predicate, message=message, location=location)


@pytest.mark.parametrize("threads", [1, 2])
def test_what_a_body_asserts_of_its_elements_fails_the_call_with_its_place(threads):
    module = rillet.compile(_text(), threads=threads)
    x = np.arange(1, 16, dtype=np.float32).reshape(3, 5)
    for _ in range(2):
        np.testing.assert_array_equal(module(x), 1 / x)
        x[2, 3] = -1
        with pytest.raises(RunError, match=r"line 11:5: a number is negative"):
            module(x)
        x[2, 3] = 19


def test_the_node_is_named_where_it_has_a_name():
    module = rillet.compile(_text(location='loc("block/root")'), threads=1)
    with pytest.raises(RunError, match=r"node 'block/root': a number is negative"):
        module(np.full((3, 5), -1, np.float32))


def test_a_division_by_zero_that_a_producer_does_not_trust_is_infinite():
    module = rillet.compile(_text("one", "unimplemented: tensor with zero element"), threads=1)
    x = np.zeros((3, 5), np.float32)
    np.testing.assert_array_equal(module(x), np.full((3, 5), np.inf, np.float32))


_GATHER = """
#in = affine_map<(d0, d1) -> (d0)>
#out = affine_map<(d0, d1) -> (d0, d1)>
func.func @main(%table: tensor<4x2xf32>, %i: tensor<?xi64>) -> tensor<?x2xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %i, %c0 : tensor<?xi64>
  %e = tensor.empty(%n) : tensor<?x2xf32>
  %0 = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["parallel", "parallel"]}
      ins(%i : tensor<?xi64>) outs(%e : tensor<?x2xf32>) {
  ^bb0(%x: i64, %o: f32):
    %zero = arith.constant 0 : i64
    %c = arith.cmpi sge, %x, %zero : i64
    cf.assert %c, "index must be larger or equal to 0"
    %row = arith.index_cast %x : i64 to index
    %column = linalg.index 1 : index
    %even = arith.constant 2 : i64
    %rest = arith.remsi %x, %even : i64
    %is = arith.cmpi eq, %rest, %zero : i64
    cf.assert %is, "rows are even"
    %1 = tensor.extract %table[%row, %column] : tensor<4x2xf32>
    linalg.yield %1 : f32
  } -> tensor<?x2xf32>
  return %0 : tensor<?x2xf32>
}"""


def test_kernels_check_what_they_read_and_dynamic_shapes_are_asserted_too():
    module = rillet.compile(_GATHER, threads=1)
    table = np.arange(8, dtype=np.float32).reshape(4, 2)
    for rows in ([], [2], [0, 2, 2]):
        np.testing.assert_array_equal(module(table, np.array(rows, np.int64)), table[np.array(rows, np.int64)])
    with pytest.raises(RunError, match="rows are even"):
        module(table, np.array([2, 3], np.int64))
    with pytest.raises(RunError):
        module(table, np.array([-2], np.int64))


_SUM = """
#in = affine_map<(d0) -> (d0)>
#out = affine_map<(d0) -> ()>
func.func @main(%a: tensor<5xf32>) -> tensor<f32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<f32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %0 = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["reduction"]}
      ins(%a : tensor<5xf32>) outs(%i : tensor<f32>) {
  ^bb0(%x: f32, %o: f32):
    %1 = arith.addf %x, %o : f32
    %c = arith.cmpf olt, %1, %x : f32
    cf.assert %c, "grows"
    linalg.yield %1 : f32
  } -> tensor<f32>
  return %0 : tensor<f32>
}"""
_BRANCH = """
#map = affine_map<(d0) -> (d0)>
func.func @main(%a: tensor<5xi1>, %b: tensor<5xi1>) -> tensor<5xi1> {
  %e = tensor.empty() : tensor<5xi1>
  %0 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel"]}
      ins(%a, %b : tensor<5xi1>, tensor<5xi1>) outs(%e : tensor<5xi1>) {
  ^bb0(%x: i1, %y: i1, %o: i1):
    scf.if %x {
      cf.assert %y, "inside"
    }
    linalg.yield %x : i1
  } -> tensor<5xi1>
  return %0 : tensor<5xi1>
}"""
_LOOP = """
func.func @main(%a: tensor<5xi32>) -> tensor<5xi32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %z = arith.constant 0 : i32
  %0 = scf.for %i = %c0 to %c5 step %c1 iter_args(%t = %a) -> tensor<5xi32> {
    %x = tensor.extract %t[%i] : tensor<5xi32>
    %c = arith.cmpi sge, %x, %z : i32
    cf.assert %c, "in a loop"
    %y = arith.addi %x, %x : i32
    %u = tensor.insert %y into %t[%i] : tensor<5xi32>
    scf.yield %u : tensor<5xi32>
  }
  return %0 : tensor<5xi32>
}"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_SUM, "cf.assert 'line 13:5': it asserts something of a value that the op accumulates"),
        (_BRANCH, "cf.assert 'line 9:7': it stands inside of a linalg.generic, where nothing can fail"),
        (_LOOP, "cf.assert 'line 10:5': it stands inside of a scf.for, where nothing can fail"),
    ],
)
def test_assertions_that_cannot_be_made_before_are_refused(text, message):
    with pytest.raises(UnsupportedError, match=f"{message}; assert it of the op's operands or results instead"):
        rillet.compile(text)
