"""The helpers, compiled for this machine, against its own arithmetic and exact fractions."""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from rillet.codegen.cpu.object_code import call_stack, elf, helpers, object_file
from rillet.targets import get

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or shutil.which("cc") is None, reason="needs a C compiler for x86-64"
)
FLAGS = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-ffreestanding", "-fno-builtin", "-fPIC", "-shared")
CHECKS = ("-fsanitize=undefined", "-fno-sanitize-recover=all")
C_TYPES: dict[type, type] = {
    np.int32: ctypes.c_int32,
    np.uint32: ctypes.c_uint32,
    np.int64: ctypes.c_int64,
    np.uint64: ctypes.c_uint64,
    np.float32: ctypes.c_float,
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    path = tmp_path_factory.mktemp("helpers") / "helpers.so"
    subprocess.run(["cc", *FLAGS, *CHECKS, *helpers.SOURCES, "-o", path], check=True)
    return ctypes.CDLL(str(path))


def function(library: ctypes.CDLL, name: str, result: type, *arguments: type) -> Callable[..., int | float]:
    found = library[name]
    found.restype, found.argtypes = C_TYPES[result], [C_TYPES[a] for a in arguments]
    return found


def bits(values: object) -> np.ndarray:
    return np.asarray(values, np.float64).view(np.uint64)


def doubles() -> np.ndarray:
    """All kinds of numbers, and numbers near each other and near rounding's ties."""
    random = np.random.default_rng(0)
    special = [0.0, 1.0, 1.5, 2.0, 3.0, 0.1, np.inf, np.nan, 5e-324, 2.2250738585072014e-308, 2.225073858507201e-308]
    special += [
        1.7976931348623157e308,
        2.0**52,
        2.0**53,
        2.0**53 - 1,
        2.0**63,
        2.0**64,
        2.0**31,
        2147483647.5,
        0.5,
        1 - 2.0**-53,
    ]
    special += [1 + 2.0**-52, 3.4028234663852886e38, 3.4028235677973366e38, 1.401298464324817e-45, 7e-46, 2.0**-149]
    any_bits = random.integers(0, 1 << 64, 300, np.uint64).view(np.float64)
    near = (1 + random.integers(0, 8, 100) * 2.0**-52) * 2.0 ** random.integers(-3, 4, 100)
    found = np.concatenate([special, any_bits, near, random.integers(-(10**6), 10**6, 50).astype(float)])
    return np.concatenate([found, -found])


def pairs() -> tuple[np.ndarray, np.ndarray]:
    values, random = doubles(), np.random.default_rng(1)
    special = values[:27]
    a, b = (x.ravel() for x in np.meshgrid(np.concatenate([special, -special]), special))
    return np.concatenate([a, random.choice(values, 4000)]), np.concatenate([b, random.choice(values, 4000)])


def same(got: np.ndarray, wanted: np.ndarray) -> None:
    """Equal bits, but for what a NaN looks like."""
    got, wanted = got.view(np.float64), np.asarray(wanted, np.float64)
    different = (got.view(np.uint64) != wanted.view(np.uint64)) & ~(np.isnan(got) & np.isnan(wanted))
    assert not different.any(), (np.flatnonzero(different)[:5], got[different][:5], wanted[different][:5])


@pytest.mark.parametrize(
    ("name", "operation"), [("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide)]
)
def test_arithmetic(library: ctypes.CDLL, name: str, operation: np.ufunc) -> None:
    helper = function(library, f"__{name}df3", np.uint64, np.uint64, np.uint64)
    a, b = pairs()
    got = [helper(x, y) for x, y in zip(bits(a).tolist(), bits(b).tolist(), strict=True)]
    with np.errstate(all="ignore"):
        same(np.array(got, np.uint64), operation(a, b))


def test_root(library: ctypes.CDLL) -> None:
    root = library.sqrt
    root.restype, root.argtypes = ctypes.c_double, [ctypes.c_double]
    values = doubles()
    with np.errstate(all="ignore"):
        same(np.array([root(x) for x in values.tolist()]), np.sqrt(values))


def test_multiply_and_add_round_once(library: ctypes.CDLL) -> None:
    fused = library.fma
    fused.restype, fused.argtypes = ctypes.c_double, [ctypes.c_double] * 3
    random = np.random.default_rng(2)
    values = doubles()
    finite = values[np.isfinite(values) & (abs(values) < 1e150)]
    a, b, c = (random.choice(finite, 3000) for _ in range(3))
    c[::3] = -(a * b)[::3]  # what is left is the product's own error
    for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True):
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        if exact != 0:
            assert fused(x, y, z) == float(exact), (x, y, z)
    assert (
        np.isnan(fused(np.inf, 0.0, 1.0))
        and np.isnan(fused(np.inf, 1.0, -np.inf))
        and fused(np.inf, 1.0, 1.0) == np.inf
    )
    assert np.copysign(1, fused(-1.0, 0.0, -0.0)) == -1 and np.copysign(1, fused(1.0, 1.0, -1.0)) == 1


RELATIONS = {
    "eq": (np.equal, lambda c: c == 0),
    "ne": (np.not_equal, lambda c: c != 0),
    "lt": (np.less, lambda c: c < 0),
    "le": (np.less_equal, lambda c: c <= 0),
    "gt": (np.greater, lambda c: c > 0),
    "ge": (np.greater_equal, lambda c: c >= 0),
    "unord": (lambda a, b: np.isnan(a) | np.isnan(b), lambda c: c != 0),
}


@pytest.mark.parametrize("name", RELATIONS)
def test_comparisons(library: ctypes.CDLL, name: str) -> None:
    helper = function(library, f"__{name}df2", np.int32, np.uint64, np.uint64)
    relation, holds = RELATIONS[name]
    a, b = pairs()
    got = [holds(helper(x, y)) for x, y in zip(bits(a).tolist(), bits(b).tolist(), strict=True)]
    np.testing.assert_array_equal(got, relation(a, b))


INTEGERS = {
    np.int64: [
        *(0, 1, -1, 2, 3, 7, 10, -10, 1 << 31, (1 << 31) - 1, 1 << 32, (1 << 32) + 1, -(1 << 32)),
        *((1 << 53) + 1, (1 << 63) - 1, -(1 << 63)),
    ],
    np.uint64: [
        *(0, 1, 2, 3, 7, 10, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 32) + 1, (1 << 53) + 1),
        *(1 << 63, (1 << 64) - 1, (1 << 64) - 1025),
    ],
}


def integers(dtype: type) -> list[int]:
    random = np.random.default_rng(3)
    info = np.iinfo(dtype)
    wide = random.integers(info.min, info.max, 600, dtype, endpoint=True)
    narrow = wide >> random.integers(0, 63, 600).astype(dtype)
    return [*INTEGERS[dtype], *wide.tolist(), *narrow.tolist()]


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_division(library: ctypes.CDLL, dtype: type) -> None:
    prefix = "__u" if dtype is np.uint64 else "__"
    quotient = function(library, f"{prefix}divdi3", dtype, dtype, dtype)
    remainder = function(library, f"{prefix}moddi3", dtype, dtype, dtype)
    values = integers(dtype)
    others = INTEGERS[dtype] + values[::29] + values[::-31]
    for a in values:
        for b in others:
            if b == 0 or (a == -(1 << 63) and b == -1):
                continue
            whole = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            assert quotient(a, b) == whole and remainder(a, b) == a - whole * b, (a, b)


@pytest.mark.parametrize(
    ("dtype", "name"),
    [(np.int64, "__floatdi"), (np.uint64, "__floatundi"), (np.int32, "__floatsi"), (np.uint32, "__floatunsi")],
)
def test_floats_of_integers(library: ctypes.CDLL, dtype: type, name: str) -> None:
    wide = np.int64 if dtype in (np.int64, np.int32) else np.uint64
    values = np.array(integers(wide), wide).astype(dtype)
    to_double = function(library, f"{name}df", np.uint64, dtype)
    same(np.array([to_double(v) for v in values.tolist()], np.uint64), values.astype(np.float64))
    if dtype in (np.int64, np.uint64):
        to_single = function(library, f"{name}sf", np.float32, dtype)
        np.testing.assert_array_equal(
            np.array([to_single(v) for v in values.tolist()], np.float32), values.astype(np.float32)
        )


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int32, np.uint32])
def test_integers_of_floats(library: ctypes.CDLL, dtype: type) -> None:
    """Toward zero; saturated, but below 0 unsigned ones wrap around."""
    info, size = np.iinfo(dtype), np.iinfo(dtype).bits
    suffix, unsigned = "di" if size == 64 else "si", "uns" if info.min == 0 else ""
    of_double = function(library, f"__fix{unsigned}df{suffix}", dtype, np.uint64)
    values = np.concatenate([doubles(), np.random.default_rng(4).uniform(-1, 1, 300) * 2.0**40])

    def wanted(value: float) -> int:
        if np.isnan(value):
            return 0
        whole = int(np.clip(value, -1e30, 1e30))
        return max(whole, -(1 << 63)) % (1 << size) if whole < 0 and unsigned else min(max(whole, info.min), info.max)

    for value in values.tolist():
        assert of_double(int(bits(value))) == wanted(value), value
    if size == 64:
        of_single = function(library, f"__fix{unsigned}sfdi", dtype, np.float32)
        with np.errstate(all="ignore"):
            singles = values.astype(np.float32).tolist()
        for value in singles:
            assert of_single(value) == wanted(value), value


def test_other_floats(library: ctypes.CDLL) -> None:
    values = doubles()
    with np.errstate(all="ignore"):
        singles = values.astype(np.float32)
    narrow = function(library, "__truncdfsf2", np.uint32, np.uint64)
    got = np.array([narrow(b) for b in bits(values).tolist()], np.uint32).view(np.float32)
    same(got.astype(np.float64), singles.astype(np.float64))
    widen = function(library, "__extendsfdf2", np.uint64, np.uint32)
    same(np.array([widen(b) for b in singles.view(np.uint32).tolist()], np.uint64), singles.astype(np.float64))


@pytest.mark.parametrize("name", ["cortex-m4", "cortex-m55", "riscv32imf", "riscv32imf-ilp32f"])
def test_objects_for_a_processor(name: str) -> None:
    """They define what they are said to define, need nothing, and keep within the stack that is stated."""
    target = get(name)
    members = helpers.objects(helpers.names(target), target)
    assert [n for n, _ in members] == ["rillet_division.o", "rillet_conversions.o", "rillet_doubles.o"]
    assert not [s for _, blob in members for s in object_file.undefined_symbols(blob)]
    defined = {s.name for _, blob in members for s in elf.symbols(blob) if s.section and s.name}
    assert helpers.names(target) <= defined
    for _, blob in members:
        for symbol in helpers.names(target) & {s.name for s in elf.symbols(blob) if s.section}:
            assert call_stack.deepest(blob, symbol) <= helpers.STACK_BYTES, symbol
    assert helpers.names(get("x86-64-v3")) == frozenset()
