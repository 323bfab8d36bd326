from __future__ import annotations

import pytest

from rillet import schedule
from rillet.errors import CompileError
from rillet.ir import Program

ATTRIBUTES = "module attributes {stream.segments = [], stream.entries = [], stream.arena_bytes = 0 : i64}"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%0 = tensor.empty() : tensor<4xf32>", "'tensor.empty' is left"),
        ('%0 = "stream.constant"() {symbol = "a"} : () -> !stream.resource', "constant is left unpacked"),
        (
            "%c = arith.constant 0 : index\n%p = arith.constant 0 : i64\n"
            '%0 = "stream.alloc"(%c) {lifetime = "transient"} : (index) -> !stream.resource\n'
            '"stream.fill"(%p, %0, %c, %c) {pattern_size = 1 : i64} : (i64, !stream.resource, index, index) -> ()',
            "'stream.fill' is outside stream.execute",
        ),
        (
            "%c = arith.constant 0 : index\n"
            '%0 = "stream.alloc"(%c) {lifetime = "transient"} : (index) -> !stream.resource\n'
            '%1 = "stream.transfer"(%0, %c, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0>, '
            "resultSegmentSizes = array<i32: 1, 0>} : (!stream.resource, index, index) -> !stream.resource",
            "a transfer signals no fence",
        ),
        ("%0 = arith.constant dense<0.0> : tensor<4xf32>", "'arith.constant' has a tensor"),
    ],
)
def test_what_may_not_be_left(body: str, message: str) -> None:
    program = Program.parse(f"{ATTRIBUTES} {{ func.func @main() {{\n {body}\n return\n }} }}")
    with pytest.raises(CompileError, match=message):
        schedule.check(program)


def test_the_layout_is_recorded() -> None:
    with pytest.raises(CompileError, match=r"lacks 'stream\.segments'"):
        schedule.check(Program.parse("func.func @main() { return }"))
