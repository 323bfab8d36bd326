"""Encoding: what instructions functions become, and when references are released."""

from __future__ import annotations

import pytest

from rillet import hal, schedule, vm
from rillet.errors import CompileError
from rillet.ir import Program
from rillet.ir.image import Image
from rillet.vm.bytecode import ImportTable, encode_function
from rillet.vm.disassemble import decode, disassemble
from tests.support.flow_text import FlowKernel, module
from tests.support.ir_check import check, lower

F = FlowKernel("tensor<8xf32>", ("tensor<8xf32>",))


def compiled(main: str) -> Image:
    program = lower(module({"f": F}, main), [*schedule.passes(), *hal.passes(), *vm.passes()])
    return vm.encode(program)


def listing(image: Image) -> str:
    return "\n".join(disassemble(f, image.imports, image.functions) for f in image.functions)


def encoded(text: str) -> str:
    """One function in vm form, encoded."""
    program = Program.parse(text)
    program.module.operation.verify()
    table = ImportTable()
    function = encode_function(program.module.body.operations[0].operation, table)
    return disassemble(function, table.used)


def test_static_program() -> None:
    image = compiled(
        """
        func.func @main(%x: tensor<8xf32> {rillet.name = "x"}) -> (tensor<8xf32> {rillet.name = "y"}) {
          %0 = func.call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
          return %0 : tensor<8xf32>
        }
        """
    )
    check(
        listing(image),
        """
        // CHECK: __init() -> ()
        // CHECK: r0 = hal.cmd.create(i{{[0-9]+}}, i{{[0-9]+}})
        // CHECK: hal.cmd.dispatch(i{{[0-9]+}}; r0)
        // CHECK: hal.cmd.end(r0)
        // CHECK: global.store.ref 0, r0
        // CHECK: return
        // CHECK: main(r) -> (r)
        // CHECK: hal.view.check({{.*}}; r0)
        // CHECK: r0 = hal.view.buffer(r0)
        // CHECK: r1 = hal.buffer.allocate(
        // CHECK: hal.execute(r{{[0-9]+}}, r0, r1)
        // CHECK-NEXT: return r2
        """,
    )
    assert [e.name for e in image.exports] == ["main"]
    assert image.exports[0].function == 1
    assert image.exports[0].inputs[0].dims == (8,)


def test_memory_of_an_iteration_is_released_in_it() -> None:
    image = compiled(
        """
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
        """
    )
    check(
        listing(image),
        """
        // CHECK: main(r) -> (r)
        // CHECK: branch.if
        // CHECK: r[[NEW:[0-9]+]] = hal.buffer.transient(
        // CHECK: hal.execute(
        // CHECK: null.ref
        // CHECK: add
        // CHECK: mov.ref r{{[0-9]+}}, r[[NEW]]
        // CHECK: branch @
        """,
    )


def test_moves_on_one_side_of_a_branch() -> None:
    text = encoded(
        """
        func.func @main(%c: i64, %a: i64, %b: i64, %r: !vm.ref, %s: !vm.ref) -> (i64, i64, !vm.ref, !vm.ref) {
          %t = "vm.test"(%c) : (i64) -> i1
          cf.cond_br %t, ^loop(%a, %b, %r, %s : i64, i64, !vm.ref, !vm.ref),
                         ^loop(%b, %a, %s, %r : i64, i64, !vm.ref, !vm.ref)
        ^loop(%x: i64, %y: i64, %p: !vm.ref, %q: !vm.ref):
          return %x, %y, %p, %q : i64, i64, !vm.ref, !vm.ref
        }
        """
    )
    # One side fits as it is; the other swaps through scratch registers, and lets go of the reference in its own.
    check(
        text,
        """
        // CHECK: main(iiirr) -> (iirr)
        // CHECK: branch.if i0
        // CHECK: mov i3
        // CHECK: mov.ref r2
        // CHECK: null.ref r2
        // CHECK: return i{{.}}, i{{.}}, r{{.}}, r{{.}}
        """,
    )


def test_results_that_nobody_needs_are_released() -> None:
    text = encoded(
        """
        func.func @main(%n: i64) -> !vm.ref {
          %a = "vm.call"(%n, %n) {callee = "hal.buffer.transient", operandSegmentSizes = array<i32: 2, 0>,
              resultSegmentSizes = array<i32: 0, 1>} : (i64, i64) -> !vm.ref
          %b = "vm.call"(%n, %n) {callee = "hal.buffer.transient", operandSegmentSizes = array<i32: 2, 0>,
              resultSegmentSizes = array<i32: 0, 1>} : (i64, i64) -> !vm.ref
          return %b : !vm.ref
        }
        """
    )
    check(
        text,
        """
        // CHECK: r0 = hal.buffer.transient(i0, i0)
        // CHECK-NEXT: null.ref r0
        // CHECK-NEXT: r0 = hal.buffer.transient(i0, i0)
        // CHECK-NEXT: return r0
        """,
    )


def test_literals_of_64_bits() -> None:
    text = encoded(
        """
        func.func @main() -> (i64, i64) {
          %a = "vm.const"() {value = -9223372036854775808 : i64} : () -> i64
          %b = "vm.const"() {value = 81985529216486895 : i64} : () -> i64
          return %a, %b : i64, i64
        }
        """
    )
    assert "const i0, -9223372036854775808" in text
    assert "const i1, 81985529216486895" in text


def test_an_operation_without_an_encoding() -> None:
    with pytest.raises(CompileError, match=r"'arith\.constant' has no encoding"):
        encoded("func.func @main() -> i64 { %0 = arith.constant 0 : i64\n return %0 : i64 }")


def test_an_unknown_opcode() -> None:
    with pytest.raises(ValueError, match="unknown opcode 999 at word 0"):
        list(decode([999]))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%0 = arith.constant 0 : i64", "'arith.constant' is left after vm"),
        ('%0 = "vm.global_load_ref"() {ordinal = 0 : i64} : () -> !vm.ref\n%1 = arith.constant 1 : i8', "is left"),
    ],
)
def test_spec(body: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        vm.check(Program.parse(f"func.func @main() {{\n {body}\n return\n }}"))
