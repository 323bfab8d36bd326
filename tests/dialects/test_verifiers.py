from __future__ import annotations

import pytest
from torch_mlir import ir

from rillet.ir import Program

ALLOC = '%r = "stream.alloc"(%c) {lifetime = "transient"} : (index) -> !stream.resource'


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
            '"stream.execute"() ({ %d = arith.constant 0 : index }) : () -> ()',
            "may hold commands and barriers only, not 'arith.constant'",
        ),
        (
            '%b = "hal.buffer_transient"(%c) : (index) -> !hal.buffer\n%t = arith.constant 7 : i64\n'
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
      %b = "hal.buffer_allocate"(%c) : (index) -> !hal.buffer
      %s = "vm.add"(%i, %i) : (i64, i64) -> i64
      return
    }}
    """
    printed = str(Program.parse(text).module)
    assert str(Program.parse(printed).module) == printed
