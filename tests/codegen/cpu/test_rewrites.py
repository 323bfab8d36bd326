"""The rewrites before a strategy is chosen: their order, that each has its kernel, and the loop that runs them."""

from __future__ import annotations

import pytest
from torch_mlir import ir

from rillet import targets
from rillet.codegen.cpu.rewrites import REWRITES, rewritten
from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.ir import make_context
from tests.support.kernel_harness import generic, kernel_text

_MAPS = "(h,g,o,c)->(h,g,c)", "(h,g,o,c)->(c,g,o)", "(h,g,o,c)->(h,g,o)"


def _grouped(element: str) -> str:
    """Four groups of four columns; integers are summed in 32 bits."""
    total, add, widen = ("f32", "f", "") if element == "f32" else ("i32", "i", f"arith.extsi %x : {element} to i32")
    x, w, out = f"tensor<8x4x4x{element}>", f"tensor<4x4x4x{element}>", f"tensor<8x4x4x{total}>"
    factors = ("%x", "%y")
    lines = []
    if widen:
        lines = [f"%p = {widen}", f"%q = {widen.replace('%x', '%y')}"]
        factors = ("%p", "%q")
    lines += [f"%m = arith.mul{add} {factors[0]}, {factors[1]} : {total}", f"%s = arith.add{add} %t, %m : {total}"]
    root = generic(
        "|".join(_MAPS),
        "pppr",
        f"%a, %b:{x}, {w}",
        f"%init:{out}",
        f"%x: {element}, %y: {element}, %t: {total}",
        "\n".join(lines),
        f"%s:{total}",
    )
    zero = "0.0" if total == "f32" else "0"
    same = "(h,g,o)->(h,g,o)"
    after = generic(
        f"{same}|{same}",
        "ppp",
        f"%0:{out}",
        "%f:tensor<8x4x4xf32>",
        f"%x: {total}, %t: f32",
        "%v = arith.negf %x : f32" if total == "f32" else "%v = arith.sitofp %x : i32 to f32",
        "%v:f32",
    )
    body = f"""
%zero = arith.constant {zero} : {total}
%e = tensor.empty() : {out}
%f = tensor.empty() : tensor<8x4x4xf32>
%init = linalg.fill ins(%zero : {total}) outs(%e : {out}) -> {out}
%0 = {root}
%1 = {after}
return %1 : tensor<8x4x4xf32>"""
    return kernel_text("grouped", f"%a: {x}, %b: {w}", "tensor<8x4x4xf32>", body)


def _two_negations() -> str:
    """Two results that start from one empty tensor."""
    t = "tensor<8xf32>"
    body = f"%e = tensor.empty() : {t}\n"
    for name, argument in (("%0", "%a"), ("%1", "%b")):
        body += f"{name} = " + generic(
            "(i)->(i)|(i)->(i)",
            "p",
            f"{argument}:{t}",
            f"%e:{t}",
            "%x: f32, %t: f32",
            "%v = arith.negf %x : f32",
            "%v:f32",
        )
        body += "\n"
    return kernel_text("both", f"%a: {t}, %b: {t}", f"{t}, {t}", body + f"return %0, %1 : {t}, {t}")


CASES = {
    "unshare-empties": (_two_negations(), "x86-64-v3", "tensor.empty", 2),
    "merge-group-columns": (_grouped("f32"), "x86-64-v3", "floordiv", 1),
    "sum-in-floats": (_grouped("i8"), "riscv32imf", "arith.mulf", 1),
}


def test_order() -> None:
    assert [rewrite.name for rewrite in REWRITES] == ["unshare-empties", "merge-group-columns", "sum-in-floats"]


@pytest.mark.parametrize("name", CASES)
def test_each_has_a_kernel_that_it_changes_once(name: str) -> None:
    text, target, made, count = CASES[name]
    machine = targets.get(target).machine
    (rewrite,) = (r for r in REWRITES if r.name == name)
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        (nested,) = module.body.operations
        function = KernelFunction(ir.Module.parse(str(nested)))
        before = str(function.module)
        assert before.count(made) == count - 1
        assert rewrite.run(function, machine)
        function = function.analysed_anew()
        assert str(function.module).count(made) == count
        assert not rewrite.run(function, machine)


@pytest.mark.parametrize("name", CASES)
def test_the_loop_runs_them_and_analyses_what_they_change(name: str) -> None:
    text, target, made, count = CASES[name]
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        (nested,) = module.body.operations
        function = rewritten(KernelFunction(ir.Module.parse(str(nested))), targets.get(target).machine)
        assert str(function.module).count(made) == count
        assert function.ops == tuple(op.operation for op in function.block.operations)[:-1]


def test_a_kernel_that_needs_none_is_left_alone() -> None:
    t = "tensor<8xf32>"
    text = kernel_text("same", f"%a: {t}", t, f"return %a : {t}")
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        (nested,) = module.body.operations
        function = KernelFunction(ir.Module.parse(str(nested)))
        assert rewritten(function, targets.get("x86-64-v3").machine) is function
