"""Math functions against numpy in extended precision: error in units of the last place, special values, conversions."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from rillet import targets
from rillet.codegen.cpu.legalize import passes
from rillet.codegen.math.arithmetic import Arithmetic
from tests.support.kernel_harness import Kernel, generic, kernel_text
from tests.support.math_kernels import DTYPES, FUNCTIONS, GELUS, NUMPY, SPECIAL, apply, gelu_kernel, ulps

TARGETS = ["x86-64-v2", "host"]


# op: (reference, range for f32, range for f64, ULP)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name: str, dtype: str, target: str) -> None:
    reference, single, double, bound = FUNCTIONS[name]
    low, high = single if dtype == "f32" else double
    rng = np.random.default_rng(0)
    tiny = 10.0 ** rng.uniform(-37 if dtype == "f32" else -300, 0, 300)
    values = np.concatenate([rng.uniform(low, high, 1500), tiny if low < 0 or low == 0 else tiny + max(low, 0)])
    x = values.astype(NUMPY[dtype])
    exact = reference(x.astype(np.longdouble))  # type: ignore[operator]
    assert ulps(apply(f"math.{name}", [x], dtype, target), exact) <= bound


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values(name: str, dtype: str, target: str) -> None:
    if name in ("acosh", "log", "log2", "log10", "rsqrt", "sqrt") and dtype == "f64" and target != "host":
        pytest.skip("the same formula as in f32")
    x = np.array([*SPECIAL, np.finfo(NUMPY[dtype]).smallest_subnormal], NUMPY[dtype])
    with np.errstate(all="ignore"):
        want = FUNCTIONS[name][0](x)  # type: ignore[operator]
    got = apply(f"math.{name}", [x], dtype, target)
    np.testing.assert_allclose(got, want, rtol=1e-6 if dtype == "f32" else 1e-14)
    ordinary = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[ordinary]), np.signbit(want[ordinary]))


@pytest.mark.parametrize("target", [*TARGETS, "x86-64-v3"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_hyperbolic_tangent(dtype: str, target: str) -> None:
    """x itself where that is the nearest number; never beyond 1, and exactly 1 where that is nearest."""
    tiny = 10.0 ** np.linspace(-320, -2, 60001)
    x = np.concatenate([np.linspace(0, 25, 60001), np.linspace(0, 0.5, 60001), tiny[tiny > 0]])
    x = np.concatenate([x, -x, [-0.0, 3e38, -3e38, np.inf, -np.inf, np.nan]]).astype(NUMPY[dtype])
    got = apply("math.tanh", [x], dtype, target)
    exact = np.tanh(x.astype(np.longdouble))
    assert ulps(got, exact) <= 2.5
    rounded = exact.astype(NUMPY[dtype])
    near = np.abs(x) < (3.4e-4 if dtype == "f32" else 7e-9)
    np.testing.assert_array_equal(got[near], x[near])
    np.testing.assert_array_equal(rounded[near], x[near])
    np.testing.assert_array_equal(np.signbit(got), np.signbit(x))
    assert np.nanmax(np.abs(got)) == 1 and (np.abs(got[np.abs(x) > 20]) == 1).all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_exponential_of_what_is_known_not_to_be_positive(dtype: str, target: str) -> None:
    low = -104 if dtype == "f32" else -746
    x = np.concatenate([np.linspace(low, 0, 20000), -(10.0 ** np.linspace(-30, 0, 300))]).astype(NUMPY[dtype])
    got = apply("math.exp", [x], dtype, target, attributes="{rillet.nonpositive}")
    assert ulps(got, np.exp(x.astype(np.longdouble))) <= 1.0
    special = np.array([0.0, -0.0, -np.inf, np.nan, -1e4, -1e30], NUMPY[dtype])
    got = apply("math.exp", [special], dtype, target, attributes="{rillet.nonpositive}")
    np.testing.assert_array_equal(got, [1, 1, 0, np.nan, 0, 0])


@pytest.mark.parametrize("target", [*TARGETS, "x86-64-v3"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_exponential_that_may_be_too_large_by_a_factor(dtype: str, target: str) -> None:
    """The factor makes every result a normal number; fewer steps where only quotients of sums are wanted, in f32."""
    low = -104 if dtype == "f32" else -740
    x = np.concatenate([np.linspace(low, 0, 100001), -(10.0 ** np.linspace(-30, 0, 300))]).astype(NUMPY[dtype])
    got = apply("math.exp", [x], dtype, target, attributes="{rillet.nonpositive, rillet.scaled}")
    factor = got[x == 0][0]
    assert np.frexp(factor)[0] == 0.5 and got.min() >= np.finfo(NUMPY[dtype]).smallest_normal
    exact = np.exp(x.astype(np.longdouble)) * np.longdouble(factor)
    near = x > -5
    assert ulps(got[near], exact[near]) <= 2.2
    assert ulps(got, exact) <= (6.0 if dtype == "f32" else 2.0)
    special = np.array([-np.inf, np.nan, -1e4, -3e38, -0.0], NUMPY[dtype])
    got = apply("math.exp", [special], dtype, target, attributes="{rillet.nonpositive, rillet.scaled}")
    np.testing.assert_allclose(got / factor, [0, np.nan, 0, 0, 1], atol=1e-44)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["exp", "exp2", "expm1", "tanh", "erf"])
def test_nan_with_a_payload_stays_nan(name: str, target: str) -> None:
    """The exponent is put together from the low bits of a sum with the argument, which a payload fills."""
    x = np.array([0x7FC00001, 0xFFC12345, 0x7FFFFFFF, 0xFFFFFFFF], np.uint32).view(np.float32)
    assert np.isnan(apply(f"math.{name}", [x], "f32", target)).all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_error_functions(dtype: str, target: str) -> None:
    from math import erf, erfc

    x = np.concatenate([np.linspace(-6, 6, 2001), 10.0 ** np.linspace(-30, 0, 300)]).astype(NUMPY[dtype])
    exact = np.array([erf(float(v)) for v in x], np.longdouble)
    assert ulps(apply("math.erf", [x], dtype, target), exact) <= (2.1 if dtype == "f32" else 2.5)
    positive = np.linspace(-5, 9, 2001).astype(NUMPY[dtype])
    exact = np.array([erfc(float(v)) for v in positive], np.longdouble)
    assert ulps(apply("math.erfc", [positive], dtype, target), exact) <= (0.51 if dtype == "f32" else 40)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], NUMPY[dtype])
    np.testing.assert_array_equal(apply("math.erf", [special], dtype, target), [np.nan, 1, -1, 0, -0.0])
    np.testing.assert_array_equal(apply("math.erfc", [special], dtype, target), [np.nan, 0, 2, 1, 1])


@pytest.mark.parametrize("target", [*TARGETS, "x86-64-v3"])
@pytest.mark.parametrize("form", GELUS)
def test_product_with_one_plus_erf(form: str, target: str) -> None:
    """Beyond the rounding of the result an error of 3 * 2^-24 of the factor, or 4 where multiply-adds round twice."""
    from math import erfc

    x = np.concatenate([np.linspace(0, 8, 20001), 10.0 ** np.linspace(-30, 0, 300)])
    x = np.concatenate([x, -x]).astype(np.float32)
    factor, scale = (2.0 if form in ("twice", "as it is") else 1.0), (1.0 if form == "as it is" else 0.5**0.5)
    exact = np.array([factor * float(v) / 2 * erfc(-float(v) * scale) for v in x])
    (got,) = Kernel(gelu_kernel(form, x.size), target)([x], [(x.shape, np.float32)])
    rounding = np.spacing(np.abs(exact).astype(np.float32)) / 2
    allowed = (3.0 if targets.get(target).machine.fma else 4.0) * 2**-24 * factor / 2 * np.abs(x)
    assert (np.abs(got - exact) <= allowed + rounding).all()
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, -1e4, -1e30, -3e38, 1e30, 1e-45, -1e-45], np.float32)
    kernel = Kernel(gelu_kernel(form, special.size), target)
    (got,) = kernel([special], [(special.shape, np.float32)])
    with np.errstate(all="ignore"):
        tiny = special[-2:] * np.float32(factor / 2)
    np.testing.assert_array_equal(got, [np.nan, np.inf, np.nan, 0, -0.0, 0, 0, 0, np.float32(factor * 1e30), *tiny])
    assert np.signbit(got[4]) and not np.signbit(got[3])


def test_one_plus_erf_in_doubles_is_computed_in_doubles() -> None:
    from math import erfc

    x = np.linspace(-6, 6, 1001)
    text = gelu_kernel("as it is", x.size).replace("f32", "f64")
    (got,) = Kernel(text)([x], [(x.shape, np.float64)])
    np.testing.assert_allclose(got, [v * erfc(-v) for v in x], rtol=0, atol=6 * 2.0**-51)


LOGISTICS = {  # 1 / (1 + e^z), and the sign of x in z
    "sigmoid": ("%z = arith.negf %x : f32;%e = math.exp %z : f32;%t = arith.addf %one, %e : f32", -1),
    "of the negative": ("%e = math.exp %x : f32;%t = arith.addf %e, %one : f32", 1),
}


def logistic_kernel(form: str, n: int, dtype: str) -> str:
    t = f"tensor<{n}xf32>"
    body = f"{LOGISTICS[form][0]};%s = arith.divf %one, %t : f32"
    made = generic("(d0)->(d0)|(d0)->(d0)", "p", f"%a:{t}", f"%i:{t}", "%x:f32,%o:f32", body, "%s:f32")
    text = f"%one = arith.constant 1.0 : f32\n%i = tensor.empty() : {t}\n%g = {made}\nreturn %g : {t}"
    return kernel_text("f", f"%a: {t}", t, text).replace("f32", dtype)


@pytest.mark.parametrize("target", [*TARGETS, "x86-64-v3"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("form", LOGISTICS)
def test_logistic_function(form: str, dtype: str, target: str) -> None:
    sign, limit = LOGISTICS[form][1], {"f32": 104, "f64": 746}[dtype]
    x = np.concatenate(
        [np.linspace(-limit, limit, 40001), np.linspace(-20, 20, 20001), 10.0 ** np.linspace(-30, 0, 99)]
    )
    x = np.concatenate([x, -x]).astype(NUMPY[dtype])
    (got,) = Kernel(logistic_kernel(form, x.size, dtype), target)([x], [(x.shape, NUMPY[dtype])])
    assert ulps(got, 1 / (1 + np.exp(sign * x.astype(np.longdouble)))) <= 2.5
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e4, -1e4, 3e38, -3e38], NUMPY[dtype])
    (got,) = Kernel(logistic_kernel(form, special.size, dtype), target)([special], [(special.shape, NUMPY[dtype])])
    np.testing.assert_array_equal(got, [np.nan, *(0 if sign * v > 0 else 1 if v else 0.5 for v in special[1:])])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_power(dtype: str, target: str) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.uniform(0, 20, 500).astype(NUMPY[dtype]), rng.uniform(-8, 8, 500).astype(NUMPY[dtype])
    got = apply("math.powf", [x, y], dtype, target)
    exact = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
    assert ulps(got, exact) <= (0.51 if dtype == "f32" else 60)
    grid = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 2.5, 1e30])
    x, y = (a.ravel().astype(NUMPY[dtype]) for a in np.meshgrid(grid, grid))
    with np.errstate(all="ignore"):
        want = np.power(x, y)
    np.testing.assert_allclose(apply("math.powf", [x, y], dtype, target), want, rtol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_two_argument_functions(dtype: str, target: str) -> None:
    grid = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.3, -0.3, 7.5, -1e5, 1e30], NUMPY[dtype])
    x, y = (a.ravel() for a in np.meshgrid(grid, grid))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(apply("math.atan2", [x, y], dtype, target), np.arctan2(x, y), rtol=1e-6)
        got, want = apply("arith.remf", [x, y], dtype, target), np.fmod(x, y)
    np.testing.assert_array_equal(got, want)
    tiny = np.finfo(NUMPY[dtype]).smallest_subnormal
    a, b = np.array([7 * tiny, 1.5, 1e30], NUMPY[dtype]), np.array([3 * tiny, 5 * tiny, 7 * tiny], NUMPY[dtype])
    np.testing.assert_array_equal(apply("arith.remf", [a, b], dtype, target), np.fmod(a, b))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_round_half_away(dtype: str) -> None:
    x = np.array([0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, 0.49999999999999994, 8388609.0, -0.2], NUMPY[dtype])
    want = np.trunc(x.astype(np.longdouble) + np.copysign(np.longdouble(0.5), x))
    np.testing.assert_array_equal(apply("math.round", [x], dtype, "host"), want.astype(NUMPY[dtype]))


@pytest.mark.parametrize("dtype", ["i32", "i64"])
def test_integer_power(dtype: str) -> None:
    x = np.array([2, -3, 7, 1, -1, -1, 0, 5, 3], NUMPY[dtype])
    n = np.array([10, 3, 0, -5, -3, -2, 4, 40, 19], NUMPY[dtype])
    want = np.array([int(a) ** int(b) if b >= 0 else int(a) ** (int(b) % 2) for a, b in zip(x, n, strict=True)], object)
    wrapped = np.array([(int(v) & ((1 << (8 * x.itemsize)) - 1)) for v in want], f"u{x.itemsize}").astype(NUMPY[dtype])
    np.testing.assert_array_equal(apply("math.ipowi", [x, n], dtype, "host"), wrapped)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("small", ["f16", "bf16", "f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ"])
def test_small_floats_extend_exactly(small: str, target: str) -> None:
    dtype = DTYPES[small]
    bits = np.arange(1 << (8 * np.dtype(dtype).itemsize), dtype=np.uint32)
    values = bits.astype(f"u{np.dtype(dtype).itemsize}").view(dtype)
    got = apply("arith.extf", [values], small, target, "f32", f"{small} to f32")
    np.testing.assert_array_equal(got, values.astype(np.float32))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("wide", ["f32", "f64"])
@pytest.mark.parametrize("small", ["f16", "bf16", "f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ"])
def test_small_floats_round_to_nearest_even(small: str, wide: str, target: str) -> None:
    dtype = np.dtype(DTYPES[small])
    every = np.arange(1 << min(16, 8 * dtype.itemsize), dtype=np.uint32).astype(f"u{dtype.itemsize}").view(dtype)
    exact = np.unique(every[np.isfinite(every.astype(np.float32))].astype(np.float64))
    between = (exact[1:] + exact[:-1]) / 2
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [exact, between, between * (1 + 1e-6), rng.uniform(exact[0], exact[-1], 500), [np.nan, np.inf, -np.inf]]
    )
    x = x[np.abs(x) <= np.float64(exact[-1])].astype(NUMPY[wide])
    got = apply("arith.truncf", [x], wide, target, small, f"{wide} to {small}")
    # Rounding to nearest even by searching the exact values, independent of any library's double rounding.
    order = np.searchsorted(exact, x.astype(np.float64))
    lower, upper = exact[np.maximum(order - 1, 0)], exact[np.minimum(order, len(exact) - 1)]
    middle = (lower + upper) / 2
    values = x.astype(np.float64)
    even = (lower.astype(dtype).view(f"u{dtype.itemsize}") & 1) == 0
    want = np.where(values < middle, lower, np.where(values > middle, upper, np.where(even, lower, upper)))
    np.testing.assert_array_equal(got.astype(np.float64), want)


@pytest.mark.parametrize("target", TARGETS)
def test_half_overflows_to_infinity(target: str) -> None:
    x = np.array([65504, 65519.99, 65520, 1e30, np.inf, -np.inf, -7e4, np.nan], np.float32)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(
            apply("arith.truncf", [x], "f32", target, "f16", "f32 to f16"), x.astype(np.float16)
        )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("small", ["f16", "bf16"])
def test_small_float_arithmetic_is_done_in_f32(small: str, target: str) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(37).astype(DTYPES[small]) for _ in range(2))
    want = (x.astype(np.float32) + y.astype(np.float32)).astype(DTYPES[small])
    np.testing.assert_array_equal(
        apply("arith.addf", [x, y], small, target).astype(np.float32), want.astype(np.float32)
    )
    want = np.tanh(x.astype(np.float32)).astype(DTYPES[small]).astype(np.float32)
    got = apply("math.tanh", [x], small, target).astype(np.float32)
    np.testing.assert_allclose(got, want, rtol=2e-2 if small == "bf16" else 2e-3)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("small", ["f16", "bf16"])
def test_small_floats_and_integers(small: str, target: str) -> None:
    x = np.array([0, 1, -7, 100, 2049, -30000], np.int32)
    got = apply("arith.sitofp", [x], "i32", target, small, f"i32 to {small}")
    np.testing.assert_array_equal(got.astype(np.float32), x.astype(DTYPES[small]).astype(np.float32))
    back = apply("arith.fptosi", [got], small, target, "i32", f"{small} to i32")
    np.testing.assert_array_equal(back, got.astype(np.float32).astype(np.int32))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["i8", "i32", "i64"])
def test_integer_division_never_traps(dtype: str, target: str) -> None:
    numpy_type = {"i8": np.int8, "i32": np.int32, "i64": np.int64}[dtype]
    low = np.iinfo(numpy_type).min
    grid = np.array([0, 1, -1, 2, -2, 7, -7, 100, low, -(low + 1)], numpy_type)
    n, d = (a.ravel() for a in np.meshgrid(grid, grid))
    with np.errstate(all="ignore"):
        floor, mod = np.floor_divide(n, d), np.fmod(n, d)
        unsigned = np.floor_divide(n.view(f"u{n.itemsize}"), d.view(f"u{n.itemsize}")).view(numpy_type)
    DTYPES[dtype] = numpy_type
    np.testing.assert_array_equal(apply("arith.floordivsi", [n, d], dtype, target), floor)
    np.testing.assert_array_equal(apply("arith.remsi", [n, d], dtype, target), mod)
    np.testing.assert_array_equal(apply("arith.divui", [n, d], dtype, target), unsigned)
    pairs = [(int(a), int(b)) for a, b in zip(n, d, strict=True)]
    exact = [0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a, b in pairs]
    np.testing.assert_array_equal(apply("arith.divsi", [n, d], dtype, target), wrap(exact, numpy_type))
    ceil = [0 if b == 0 else -(-a // b) for a, b in pairs]
    np.testing.assert_array_equal(apply("arith.ceildivsi", [n, d], dtype, target), wrap(ceil, numpy_type))


def wrap(values: list[int], dtype: type) -> np.ndarray:
    """Integers of any size, modulo the dtype's range."""
    return np.array([(v + 2**63) % 2**64 - 2**63 for v in values], np.int64).astype(dtype)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_trigonometric_functions_of_large_numbers(dtype: str, name: str, target: str) -> None:
    rng = np.random.default_rng(0)
    largest = np.finfo(NUMPY[dtype]).max
    magnitude = 2.0 ** rng.uniform(8, {"f32": 127.99, "f64": 1023.99}[dtype], 3000)
    middle = 2.0 ** rng.uniform(8, 40, 2000)  # where the ways to reduce them meet
    # The numbers of each format that come closest to a multiple of pi/2, and neighbours of multiples.
    closest = [16367173.0 * 2.0**72, 6381956970095103.0 * 2.0**797 if dtype == "f64" else 1.0]
    near = np.round(2.0 ** rng.uniform(8, 52, 1000)) * (np.pi / 2)
    x = np.concatenate([magnitude, middle, near, [largest, 2.0**10, 2.0**12, 2.0**20, 2.0**30], closest])
    x = np.concatenate([x, -x]).astype(NUMPY[dtype])
    exact = np.array([_exact(name, float(v)) for v in x], np.longdouble)
    bound = 1.0 if dtype == "f32" else FUNCTIONS[name][3]
    assert ulps(apply(f"math.{name}", [x], dtype, target), exact) <= bound
    mixed = np.array([np.inf, 1e30, 0.5, -np.inf, np.nan], NUMPY[dtype])
    got = apply(f"math.{name}", [mixed], dtype, target)
    np.testing.assert_array_equal(np.isnan(got), [True, False, False, True, True])
    assert ulps(got[1:3], np.array([_exact(name, float(v)) for v in mixed[1:3]], np.longdouble)) <= bound


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_trigonometric_functions_in_single_precision(name: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on targets that do not compute doubles."""
    monkeypatch.setattr(passes, "Arithmetic", lambda **facts: Arithmetic(**{**facts, "f64": False}))
    x = np.concatenate([2.0 ** np.random.default_rng(0).uniform(-20, 127.99, 4000), [16367173.0 * 2.0**72]])
    x = np.concatenate([x, -x]).astype(np.float32)
    exact = np.array([_exact(name, float(v)) for v in x], np.longdouble)
    assert ulps(apply(f"math.{name}", [x], "f32", target), exact) <= FUNCTIONS[name][3]


def _exact(name: str, x: float) -> np.longdouble:
    """The function of a float of any size, its argument reduced in whole numbers."""
    scale = 1300
    numerator, denominator = x.as_integer_ratio()
    right_angle = _pi(scale) // 2
    quadrant, rest = divmod((numerator << scale) // denominator + right_angle // 2, right_angle)
    rest -= right_angle // 2
    # An integer becomes a longdouble by way of a double, so in two parts.
    spare = max(0, abs(rest).bit_length() - 53)
    angle = np.ldexp(np.longdouble(rest >> spare), spare - scale)
    angle += np.ldexp(np.longdouble((rest & ((1 << spare) - 1)) >> max(0, spare - 53)), max(0, spare - 53) - scale)
    sine, cosine = ((np.sin(angle), np.cos(angle)), (np.cos(angle), -np.sin(angle)))[quadrant % 2]
    sign = -1 if quadrant % 4 >= 2 else 1
    return {"sin": sign * sine, "cos": sign * cosine, "tan": sine / cosine}[name]


@functools.cache
def _pi(bits: int) -> int:
    """pi times 2^bits, by Machin's formula."""

    def arctangent_of_inverse(n: int) -> int:
        term = total = (1 << bits + 16) // n
        for k in range(3, bits, 2):
            term //= -n * n
            total += term // k
        return total

    return 4 * (4 * arctangent_of_inverse(5) - arctangent_of_inverse(239)) >> 16
