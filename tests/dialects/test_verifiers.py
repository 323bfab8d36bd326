from __future__ import annotations

import pytest
from torch_mlir import ir

from rillet.ir import Program

ALLOC = '%r = "stream.alloc"(%c) {lifetime = "transient"} : (index) -> !stream.resource'

TENSOR = "%t = arith.constant dense<0.0> : tensor<4xf32>"
SEGMENTS = "{{operandSegmentSizes = array<i32: {}>, resultSegmentSizes = array<i32: {}>}}"
EXECUTE = f'"stream.execute"() ({{{{ "stream.barrier"() : () -> () }}}}) {SEGMENTS}'
EXECUTE_ON = f'"stream.execute"(%f) ({{{{ "stream.barrier"() : () -> () }}}}) {SEGMENTS}'
NO_DIMS = "operandSegmentSizes = array<i32: 1, 0>"
NO_SLICE_DIMS = "operandSegmentSizes = array<i32: 1, 1, 0>"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('%r = "stream.alloc"(%c) {lifetime = "forever"} : (index) -> !stream.resource', "lifetime must be one of"),
        (
            f'{ALLOC}\n"stream.dispatch"(%r, %c) {{entry = @a, access = [], may_alias = array<i64>, '
            "operandSegmentSizes = array<i32: 0, 1, 1, 0>} : (!stream.resource, index) -> ()",
            "needs one offset, length and access",
        ),
        (
            f'{ALLOC}\n"stream.dispatch"(%r, %c, %c) {{entry = @a, access = ["peek"], may_alias = array<i64>, '
            "operandSegmentSizes = array<i32: 0, 1, 1, 1>} : (!stream.resource, index, index) -> ()",
            "access must be one of",
        ),
        (
            f'{ALLOC}\n"stream.dispatch"(%r, %c, %c) {{entry = @a, access = ["write"], may_alias = array<i64: 0, 1>, '
            "operandSegmentSizes = array<i32: 0, 1, 1, 1>} : (!stream.resource, index, index) -> ()",
            "may_alias must hold pairs of binding numbers below 1",
        ),
        (
            f'{ALLOC}\n"stream.dispatch"(%r, %c, %c) {{entry = @a, access = ["write"], may_alias = array<i64: 0, 0>, '
            "operandSegmentSizes = array<i32: 0, 1, 1, 1>} : (!stream.resource, index, index) -> ()",
            "may_alias must pair a binding that is written with one that is read",
        ),
        (
            f'{ALLOC}\n%i = arith.constant 0 : i64\n"stream.fill"(%i, %r, %c, %c) {{pattern_size = 3 : i64}} : '
            "(i64, !stream.resource, index, index) -> ()",
            "pattern_size must be one of 1, 2, 4, 8",
        ),
        (
            f'{TENSOR}\n%x = "flow.reshape"(%t) {{{NO_DIMS}}} : (tensor<4xf32>) -> tensor<2x3xf32>',
            "must have the same number of elements",
        ),
        (f'{TENSOR}\n%x = "flow.reshape"(%t) {{{NO_DIMS}}} : (tensor<4xf32>) -> tensor<4xi32>', "one element type"),
        (
            f'{TENSOR}\n%x = "flow.reshape"(%t) {{{NO_DIMS}}} : (tensor<4xf32>) -> tensor<?xf32>',
            "has 0 result dimensions for 1 dynamic extents",
        ),
        (
            f'{TENSOR}\n%x = "flow.slice"(%t, %c) {{{NO_SLICE_DIMS}}} : (tensor<4xf32>, index) -> tensor<8xf32>',
            "must not have more elements than the source",
        ),
        (f'{TENSOR}\n%x = "flow.load"(%t, %c) : (tensor<4xf32>, index) -> i32', "one element type"),
        (
            f'{TENSOR}\n%x = "flow.transfer"(%t) {{device = "cpu"}} : (tensor<4xf32>) -> tensor<?xf32>',
            "must have a ranked tensor as its source and a result of the same type",
        ),
        (f'{TENSOR}\n%x = "flow.transfer"(%t) {{device = 1}} : (tensor<4xf32>) -> tensor<4xf32>', "must name a device"),
        (
            f"%f = {EXECUTE.format(0, 1)} : () -> !stream.fence\n{EXECUTE_ON.format(1, 0)} : (!stream.fence) -> ()",
            "must signal one fence when it awaits any",
        ),
        (
            f"%f:2 = {EXECUTE.format(0, 2)} : () -> (!stream.fence, !stream.fence)",
            "and no more than one",
        ),
        (
            f'{ALLOC}\n%i = arith.constant 0 : i64\n"stream.execute"() ({{\n"stream.fill"(%i, %r, %c, %c) '
            "{pattern_size = 1 : i64, stream.device = 1 : i64} : (i64, !stream.resource, index, index) -> ()\n}) "
            "{operandSegmentSizes = array<i32: 0>, resultSegmentSizes = array<i32: 0>} : () -> ()",
            "may hold commands of its own device only",
        ),
        ('%x = "flow.load"(%c, %c) : (index, index) -> index', "takes and makes ranked tensors, not 'index'"),
        (f'%x = "flow.splat"(%c) {{{NO_DIMS}}} : (index) -> tensor<4xf32>', "one element type"),
        (
            '"stream.execute"() ({ %d = arith.constant 0 : index }) : () -> ()',
            "may hold commands and barriers only, not 'arith.constant'",
        ),
        (
            '%t = arith.constant 7 : i64\n%b = "hal.buffer_transient"(%t, %c) : (i64, index) -> !hal.buffer\n'
            '%v = "hal.buffer_load"(%b, %c, %t) : (!hal.buffer, index, i64) -> !hal.buffer',
            "must produce an integer or a float",
        ),
        ('%r = "stream.alloc"(%c) {lifetime = "transient"} : (index) -> index', "expected base type 'stream.resource'"),
        ('%x = "vm.add"(%c, %c) : (index, index) -> i64', "i64"),
    ],
)
def test_invalid_operations_are_refused(body: str, message: str) -> None:
    with pytest.raises(ir.MLIRError) as error:
        Program.parse(f"func.func @main(%c: index) {{\n {body}\n return\n }}")
    assert message in str(error.value)


def test_every_dialect_prints_what_it_parses() -> None:
    text = f"""
    func.func @main(%c: index, %i: i64, %v: !vm.ref) {{
      {ALLOC}
      "stream.execute"() ({{
        "stream.fill"(%i, %r, %c, %c) {{pattern_size = 4 : i64}} : (i64, !stream.resource, index, index) -> ()
        "stream.barrier"() : () -> ()
      }}) : () -> ()
      %b = "hal.buffer_allocate"(%i, %c) : (i64, index) -> !hal.buffer
      %s = "vm.add"(%i, %i) : (i64, i64) -> i64
      return
    }}
    """
    printed = str(Program.parse(text).module)
    assert str(Program.parse(printed).module) == printed
