"""The choice of a strategy: the order, one plan for a kernel, and what planning leaves as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from torch_mlir import ir

from rillet import targets
from rillet.codegen.cpu import strategies
from rillet.codegen.cpu.contraction import strategy as contraction
from rillet.codegen.cpu.strategies import STRATEGIES, choose
from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.ir import make_context
from tests.support.kernel_harness import generic, kernel_text
from tests.support.kernel_texts import depthwise, matmul
from tests.support.walk_kernels import chain_lengths

TARGET = targets.get("x86-64-v3")


@contextmanager
def analysed(text: str) -> Iterator[KernelFunction]:
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        (nested,) = module.body.operations
        yield KernelFunction(ir.Module.parse(str(nested)))


def softmax_of_one_row() -> str:
    """[1, 1, 40], whose first axes are merged."""
    t, r = "tensor<1x1x40xf32>", "tensor<1x1xf32>"
    element, row = "(a,b,c)->(a,b,c)", "(a,b,c)->(a,b)"
    maximum = generic(
        f"{element}|{row}",
        "ppr",
        f"%x:{t}",
        f"%i0:{r}",
        "%v: f32, %m: f32",
        "%n = arith.maximumf %v, %m : f32",
        "%n:f32",
    )
    powers = generic(
        f"{element}|{row}|{element}",
        "ppp",
        f"%x, %max:{t}, {r}",
        f"%e:{t}",
        "%v: f32, %m: f32, %o: f32",
        "%d = arith.subf %v, %m : f32;%p = math.exp %d : f32",
        "%p:f32",
    )
    total = generic(
        f"{element}|{row}", "ppr", f"%exp:{t}", f"%i1:{r}", "%v: f32, %s: f32", "%n = arith.addf %v, %s : f32", "%n:f32"
    )
    shares = generic(
        f"{element}|{row}|{element}",
        "ppp",
        f"%exp, %sum:{t}, {r}",
        f"%e:{t}",
        "%v: f32, %s: f32, %o: f32",
        "%q = arith.divf %v, %s : f32",
        "%q:f32",
    )
    body = f"""
%ninf = arith.constant 0xFF800000 : f32
%zero = arith.constant 0.0 : f32
%e = tensor.empty() : {t}
%re = tensor.empty() : {r}
%i0 = linalg.fill ins(%ninf : f32) outs(%re : {r}) -> {r}
%i1 = linalg.fill ins(%zero : f32) outs(%re : {r}) -> {r}
%max = {maximum}
%exp = {powers}
%sum = {total}
%y = {shares}
return %y : {t}"""
    return kernel_text("softmax", f"%x: {t}", t, body)


def negation() -> str:
    t = "tensor<3x5xf32>"
    made = generic(
        "(i,j)->(i,j)|(i,j)->(i,j)",
        "pp",
        f"%x:{t}",
        f"%e:{t}",
        "%v: f32, %o: f32",
        "%n = arith.negf %v : f32",
        "%n:f32",
    )
    return kernel_text("negation", f"%x: {t}", t, f"%e = tensor.empty() : {t}\n%y = {made}\nreturn %y : {t}")


KERNELS: dict[str, Callable[[], str]] = {
    "contraction": lambda: matmul(8, 32, 16),
    "walk": lambda: chain_lengths(16, 3, 5),
    "windowed": lambda: depthwise(1, (9, 9), 16, (3, 3), 1, 1)[0],
    "rowwise": softmax_of_one_row,
    "elementwise": negation,
}


def test_order() -> None:
    names = [strategy.name for strategy in STRATEGIES]
    special = ["fourier", "chain", "winograd", "contraction", "walk", "windowed"]
    assert names == [*special, "rowwise", "elementwise", "fallback"]


@pytest.mark.parametrize("name", KERNELS)
def test_the_first_strategy_with_a_plan_takes_a_kernel(name: str) -> None:
    with analysed(KERNELS[name]()) as function:
        assert choose(function, TARGET).strategy.name == name


@pytest.mark.parametrize("name", KERNELS)
def test_planning_leaves_the_kernel_as_it_is(name: str) -> None:
    with analysed(KERNELS[name]()) as function:
        before = str(function.module)
        for strategy in STRATEGIES:
            strategy.plan(function, TARGET)
        assert str(function.module) == before


def test_a_contraction_is_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = []

    def make_plan(*arguments: object) -> object:
        plans.append(arguments)
        return made(*arguments)

    made = contraction.make_plan
    monkeypatch.setattr(contraction, "make_plan", make_plan)
    with analysed(matmul(8, 32, 16)) as function:
        choose(function, TARGET)
    assert len(plans) == 1


def test_dimensions_are_merged_for_a_strategy_that_asks_for_it() -> None:
    with analysed(negation()) as function:
        chosen = choose(function, TARGET)
        assert chosen.strategy.collapses
        assert [list(port.type.shape) for port in chosen.function.results] == [[15]]
    with analysed(matmul(8, 32, 16)) as function:
        chosen = choose(function, TARGET)
        assert not chosen.strategy.collapses
        assert chosen.function is function


def test_where_nothing_is_computed_a_general_strategy_is_chosen() -> None:
    with analysed(matmul(0, 32, 16)) as function:
        assert choose(function, TARGET).strategy in strategies.GENERAL
