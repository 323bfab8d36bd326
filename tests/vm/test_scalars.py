"""Host arithmetic, run by the C runtime and compared with Python's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from rillet import hal, schedule, vm
from rillet.errors import CompileError
from rillet.runtime import Module
from tests.support.c_kernels import load_program
from tests.support.ir_check import lower

INTERESTING = (0, 1, -1, 2, -2, 3, 7, -7, 100, -128, 127, 255, 1 << 20)


def build(operations: Sequence[tuple[str, str]], operand: str, count: int = 2) -> Module:
    """A program with one result for each (text with %a and %b as operands, result type)."""
    body, names, types = [], [], []
    for number, (text, type_) in enumerate(operations):
        body.append(f"%o{number} = {text}")
        splat = f'"flow.splat"(%o{number}) {{operandSegmentSizes = array<i32: 1, 0>}}'
        body.append(f"%t{number} = {splat} : ({type_}) -> tensor<{type_}>")
        names.append(f"%t{number}")
        types.append(f"tensor<{type_}>")
    arguments = ", ".join(f"%in_{n}: tensor<{operand}>" for n in "ab"[:count])
    loads = "\n".join(
        f'%{n} = "flow.load"(%in_{n}, %c0) : (tensor<{operand}>, index) -> {operand}' for n in "ab"[:count]
    )
    text = f"""
    func.func @main({arguments}) -> ({", ".join(types)}) {{
      %c0 = arith.constant 0 : index
      {loads}
      {chr(10).join(body)}
      return {", ".join(names)} : {", ".join(types)}
    }}"""
    program = lower(text, [*schedule.passes(), *hal.passes(), *vm.passes()])
    vm.check(program)
    return load_program(program, "KERNEL(none) { return 0; }", {})


def wrap(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def unsigned(value: int, bits: int) -> int:
    return value & ((1 << bits) - 1)


def truncate_divide(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_integers(bits: int) -> None:
    u: Callable[[int], int] = lambda v: unsigned(v, bits)  # noqa: E731
    cases: dict[str, Callable[[int, int], int]] = {
        "addi": lambda a, b: a + b,
        "subi": lambda a, b: a - b,
        "muli": lambda a, b: a * b,
        "andi": lambda a, b: a & b,
        "ori": lambda a, b: a | b,
        "xori": lambda a, b: a ^ b,
        "minsi": min,
        "maxsi": max,
        "minui": lambda a, b: a if u(a) < u(b) else b,
        "maxui": lambda a, b: b if u(a) < u(b) else a,
        "divsi": truncate_divide,
        "remsi": lambda a, b: a - truncate_divide(a, b) * b,
        "divui": lambda a, b: u(a) // u(b),
        "remui": lambda a, b: u(a) % u(b),
        "floordivsi": lambda a, b: a // b,
        "ceildivsi": lambda a, b: -(-a // b),
        "ceildivui": lambda a, b: -(-u(a) // u(b)),
    }
    type_ = f"i{bits}"
    run = build([(f"arith.{name} %a, %b : {type_}", type_) for name in cases], type_)
    dtype = np.dtype(f"int{bits}")
    values = [v for v in INTERESTING if wrap(v, bits) == v]
    for a in values:
        for b in values:
            if b == 0 or (b == -1 and a == -(1 << (bits - 1))):
                continue
            got = [int(v) for v in run(np.array(a, dtype), np.array(b, dtype))]
            assert got == [wrap(f(a, b), bits) for f in cases.values()], (a, b, dict(zip(cases, got, strict=True)))


@pytest.mark.parametrize("bits", [8, 32, 64])
def test_shifts(bits: int) -> None:
    type_ = f"i{bits}"
    run = build([(f"arith.{name} %a, %b : {type_}", type_) for name in ("shli", "shrsi", "shrui")], type_)
    for a in (v for v in INTERESTING if wrap(v, bits) == v):
        for b in (0, 1, 5, bits - 1):
            got = [int(v) for v in run(np.array(a, f"int{bits}"), np.array(b, f"int{bits}"))]
            expected = [a << b, a >> b, unsigned(a, bits) >> b]
            assert got == [wrap(v, bits) for v in expected], (a, b)


@pytest.mark.parametrize("bits", [8, 64])
def test_integer_comparisons(bits: int) -> None:
    u: Callable[[int], int] = lambda v: unsigned(v, bits)  # noqa: E731
    cases: dict[str, Callable[[int, int], bool]] = {
        "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
        "slt": lambda a, b: a < b, "sle": lambda a, b: a <= b, "sgt": lambda a, b: a > b, "sge": lambda a, b: a >= b,
        "ult": lambda a, b: u(a) < u(b), "ule": lambda a, b: u(a) <= u(b),
        "ugt": lambda a, b: u(a) > u(b), "uge": lambda a, b: u(a) >= u(b),
    }  # fmt: skip
    run = build([(f"arith.cmpi {name}, %a, %b : i{bits}", "i1") for name in cases], f"i{bits}")
    for a in (-128, -1, 0, 1, 127):
        for b in (-128, -1, 0, 1, 127):
            got = [bool(v) for v in run(np.array(a, f"int{bits}"), np.array(b, f"int{bits}"))]
            assert got == [f(a, b) for f in cases.values()], (a, b)


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_floats(kind: str) -> None:
    dtype = np.float32 if kind == "f32" else np.float64
    names = ("addf", "subf", "mulf", "divf", "minimumf", "maximumf")
    run = build([(f"arith.{name} %a, %b : {kind}", kind) for name in names], kind)
    values = [dtype(v) for v in (0.1, -0.3, 1e30, 3.0, -7.25, math.inf, math.nan, 0.0)]
    with np.errstate(all="ignore"):
        for a in values:
            for b in values:
                expected = [a + b, a - b, a * b, a / b, np.minimum(a, b), np.maximum(a, b)]
                np.testing.assert_array_equal(run(a, b), expected)


def test_float_comparisons() -> None:
    cases: dict[str, Callable[[float, float], bool]] = {
        "oeq": lambda a, b: a == b, "olt": lambda a, b: a < b, "ole": lambda a, b: a <= b,
        "ogt": lambda a, b: a > b, "oge": lambda a, b: a >= b, "one": lambda a, b: a < b or a > b,
        "ord": lambda a, b: a == a and b == b, "uno": lambda a, b: a != a or b != b,
        "ueq": lambda a, b: not (a < b or a > b), "une": lambda a, b: a != b,
        "ult": lambda a, b: not a >= b, "ule": lambda a, b: not a > b,
        "ugt": lambda a, b: not a <= b, "uge": lambda a, b: not a < b,
    }  # fmt: skip
    run = build([(f"arith.cmpf {name}, %a, %b : f64", "i1") for name in cases], "f64")
    for a in (1.0, 2.0, math.nan, -math.inf):
        for b in (1.0, 2.0, math.nan):
            got = [bool(v) for v in run(np.float64(a), np.float64(b))]
            assert got == [f(a, b) for f in cases.values()], (a, b)


def test_unary_floats_and_conversions() -> None:
    run = build(
        [
            ("math.absf %a : f32", "f32"),
            ("math.ceil %a : f32", "f32"),
            ("math.floor %a : f32", "f32"),
            ("math.trunc %a : f32", "f32"),
            ("arith.negf %a : f32", "f32"),
            ("arith.extf %a : f32 to f64", "f64"),
            ("arith.fptosi %a : f32 to i8", "i8"),
            ("arith.bitcast %a : f32 to i32", "i32"),
        ],
        "f32",
        count=1,
    )
    for a in (1.75, -1.75, 0.1, 100.5):
        x = np.float32(a)
        got = [v.item() for v in run(x)]
        bits = int(x.view(np.int32))
        value = x.item()
        rounded = [math.ceil(value), math.floor(value), math.trunc(value)]
        assert got == [abs(value), *rounded, -value, value, math.trunc(value), bits]


def test_integer_conversions() -> None:
    run = build(
        [
            ("arith.extsi %a : i16 to i64", "i64"),
            ("arith.extui %a : i16 to i64", "i64"),
            ("arith.trunci %a : i16 to i8", "i8"),
            ("arith.trunci %a : i16 to i1", "i1"),
            ("arith.sitofp %a : i16 to f32", "f32"),
            ("arith.uitofp %a : i16 to f64", "f64"),
        ],
        "i16",
        count=1,
    )
    for a in (0, 1, -1, 200, -300, 32767):
        got = [v.item() for v in run(np.array(a, np.int16))]
        wide = unsigned(a, 16)
        assert got == [a, wide, wrap(a, 8), bool(a & 1), float(a), float(wide)]


def test_booleans() -> None:
    run = build(
        [
            ("arith.andi %a, %b : i1", "i1"),
            ("arith.xori %a, %b : i1", "i1"),
            ("arith.extui %a : i1 to i64", "i64"),
            ("arith.extsi %a : i1 to i64", "i64"),
            ("arith.cmpi slt, %a, %b : i1", "i1"),
            ("arith.select %a, %b, %a : i1", "i1"),
        ],
        "i1",
    )
    for a in (False, True):
        for b in (False, True):
            got = [v.item() for v in run(np.array(a), np.array(b))]
            assert got == [a and b, a != b, int(a), -int(a), -int(a) < -int(b), b if a else a]


@pytest.mark.parametrize(
    ("operation", "type_", "message"),
    [
        ("math.exp %a : f32", "f32", "'math.exp' has no bytecode"),
        ("arith.uitofp %a : i64 to f32", "i64", "uint64 to float"),
    ],
)
def test_what_the_host_cannot_do(operation: str, type_: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        build([(operation, "f32")], type_, count=1)
