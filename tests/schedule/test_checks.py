from __future__ import annotations

import re

from rillet import hal, schedule, vm
from rillet.vm import encode
from tests.support.flow_text import FlowKernel, module
from tests.support.ir_check import check, lower, main_text

F = FlowKernel("tensor<?xf32>, index", ("tensor<?xf32>",), ((1,),))
TEXT = module(
    {"f": F},
    """
    func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
      %c0 = arith.constant 0 : index
      %a = tensor.dim %x, %c0 : tensor<?xf32>
      %b = tensor.dim %y, %c0 : tensor<?xf32>
      %same = arith.cmpi eq, %a, %b : index
      cf.assert %same, "'{}': {1} is not {0}"
      %0 = func.call @f(%x, %a) : (tensor<?xf32>, index) -> tensor<?xf32>
      %1 = func.call @f(%0, %a) : (tensor<?xf32>, index) -> tensor<?xf32>
      return %0, %1 : tensor<?xf32>, tensor<?xf32>
    }
    """,
)


def test_assertions_and_sizes_are_checked_once() -> None:
    program = lower(TEXT, schedule.passes(), until="convert-to-stream")
    check(
        main_text(program),
        """
        // CHECK-DAG: %[[A:.*]] = "stream.view_dim"(%arg0)
        // CHECK-DAG: %[[B:.*]] = "stream.view_dim"(%arg1)
        // CHECK: %[[SAME:.*]] = arith.cmpi eq, %[[A]], %[[B]]
        // CHECK: "stream.assert"(%[[SAME]], %[[B]], %[[A]]) {message = "'{}': {} is not {}"}
        // CHECK: "stream.check_size"(%[[A]]) {factor = 65536 : i64, message = "line {{[0-9:]+}}",
        // CHECK: "stream.dispatch"
        // CHECK-NOT: "stream.check_size"
        """,
    )


def test_messages_reach_the_module_file() -> None:
    program = lower(TEXT, [*schedule.passes(), *hal.passes()])
    text = main_text(program)
    assert text.index('"hal.check_assert"') < text.index('"hal.execute"')
    assert text.index('"hal.check_size"') < text.index('"hal.execute"')
    for step in vm.passes():
        step(program)
    image = encode(program)
    assert image.messages[0] == "'{}': {} is not {}"
    assert re.fullmatch(r"line \d+:\d+", image.messages[1])
    assert {i.name for i in image.imports} >= {"hal.check.assert", "hal.check.size"}
