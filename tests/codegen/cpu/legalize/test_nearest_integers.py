"""Requantization by conversions that round to the nearest integer, on processors that have them."""

from __future__ import annotations

import pytest

from rillet import targets
from rillet.codegen.cpu.compile import compile_kernel
from rillet.codegen.result import CodegenOptions
from tests.support.kernel_harness import generic, kernel_text

_KEEP = CodegenOptions(keep_intermediates=True)
_INSTRUCTIONS = {"cortex-m4": ["vcvtr.s32.f32", "qadd", "ssat"], "cortex-m55": ["vcvtn.s32.f32", "vqadd.s32"]}


def assembly(target: str, source: str, zero: float = -5.0, low: float = -128.0) -> str:
    """Of a kernel that quantizes scaled elements of ``source``."""
    convert = "%f = arith.sitofp %x : i32 to f32" if source == "i32" else "%f = arith.mulf %x, %x : f32"
    body = f"""{convert}
%scale = arith.constant 3.0e-2 : f32
%zero = arith.constant {zero} : f32
%low = arith.constant {low} : f32
%high = arith.constant 127.0 : f32
%g = arith.mulf %f, %scale : f32
%r = math.roundeven %g : f32
%s = arith.addf %r, %zero : f32
%t = arith.minimumf %s, %high : f32
%b = arith.maximumf %t, %low : f32
%i = arith.fptosi %b : f32 to i32
%n = arith.trunci %i : i32 to i8"""
    maps = "(i) -> (i)|(i) -> (i)"
    text = f"""%e = tensor.empty() : tensor<64xi8>
%0 = {generic(maps, "p", f"%a : tensor<64x{source}>", "%e : tensor<64xi8>", f"%x: {source}, %o: i8", body, "%n : i8")}
return %0 : tensor<64xi8>"""
    name = f"%a: tensor<64x{source}>"
    return compile_kernel(kernel_text("q", name, "tensor<64xi8>", text), targets.get(target), _KEEP).assembly


@pytest.mark.parametrize("target", _INSTRUCTIONS)
def test_scaled_integers_are_rounded_as_they_are_converted(target: str) -> None:
    text = assembly(target, "i32")
    assert all(instruction in text for instruction in _INSTRUCTIONS[target])
    assert "vcmp" not in text and "vrintn" not in text


def test_riscv_rounds_to_nearest() -> None:
    assert "fcvt.w.s" in assembly("riscv32imf", "i32") and "rtz" not in assembly("riscv32imf", "i32")


@pytest.mark.parametrize("target", [*_INSTRUCTIONS, "riscv32imf"])
def test_floats_may_be_no_numbers(target: str) -> None:
    """They become the lowest integer, which the conversion would not make of them."""
    text = assembly(target, "f32")
    assert not any(instruction in text for instruction in ("vcvtr", "vcvtn"))


@pytest.mark.parametrize(("zero", "low"), [(-5.5, -128.0), (-5.0, -100.25)])
def test_parts_of_integers_are_added_as_floats(zero: float, low: float) -> None:
    assert "vcvtr" not in assembly("cortex-m4", "i32", zero, low)
