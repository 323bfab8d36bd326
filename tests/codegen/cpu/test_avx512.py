"""What AVX-512 code computes, on a processor that Bochs emulates. All cases run in one boot."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest

import models
from rillet import targets
from rillet.codegen.cache import default_directory
from rillet.codegen.library import compile_parts
from rillet.codegen.result import CodegenOptions
from rillet.driver.module_file import compile_to_bytes
from rillet.driver.options import CompileOptions
from rillet.frontends.registry import open_model
from rillet.targets import Target
from rillet.verify.difference import difference
from tests.support import bochs
from tests.support.attention_kernel import attention, attention_inputs, attention_reference
from tests.support.avx512_graphs import GRAPHS, parsed
from tests.support.kernel_texts import conv2d, conv2d_reference, depthwise, depthwise_reference, matmul, pack
from tests.support.math_kernels import FUNCTIONS, SPECIAL, text_of, ulps
from tests.support.pair_products import factors, pack_pairs, product

pytest.importorskip("onnxruntime")

from rillet.frontends.onnx.verification.oracles import OracleError, run_onnxruntime, run_reference

TARGET = targets.get("x86-64-v4")
NETWORKS = ("mnist_cnn", "mobilenet_v1_025", "resnet_8", "ds_cnn", "fc_autoencoder")
F32 = np.float32


@dataclass(frozen=True)
class Check:
    """Something to run, and what to say about what it gives: "" when that is right."""

    case: bochs.Case
    complaint: Callable[[list[np.ndarray]], str]


def of_model(model: onnx.ModelProto, feed: dict[str, np.ndarray]) -> Check:
    """Against ONNX Runtime and the reference evaluator: where they differ, or one cannot run, one is enough."""
    wanted = []
    for oracle in (run_onnxruntime, run_reference):
        with contextlib.suppress(OracleError):
            wanted.append([np.asarray(a) for a in oracle(model, feed).values()])
    file = compile_to_bytes(open_model(model), targets=[TARGET], options=CompileOptions(cache=default_directory()))

    def complaint(found: list[np.ndarray]) -> str:
        choices = [[difference(a, b) for b in each] for a, each in zip(found, zip(*wanted, strict=True), strict=True)]
        return "; ".join(str(c[0]) for c in choices if not any(d.agrees for d in c))

    return Check(bochs.ModuleCase(bytes(file), list(feed.values()), wanted[0]), complaint)


def of_kernel(
    text: str,
    arrays: list[np.ndarray],
    result: np.ndarray,
    complaint: Callable[[np.ndarray], str],
    target: Target = TARGET,
) -> Check:
    """``result``: what is in the result's memory before."""
    (kernel,) = compile_parts([("kernel", text)], target, CodegenOptions(), cache_directory=default_directory())
    return Check(bochs.KernelCase(kernel, target, arrays, [result]), lambda found: complaint(found[0]))


def near(text: str, arrays: list[np.ndarray], wanted: np.ndarray, relative: float = 1e-5) -> Check:
    """A kernel with one f32 result, which may be ``relative`` (to the largest) away from ``wanted``."""

    def complaint(found: np.ndarray) -> str:
        bad = np.argwhere(~(np.abs(found - wanted) <= relative * np.abs(wanted).max()))
        return f"{len(bad)} of {found.size} elements differ, the first at {bad[0]}" if len(bad) else ""

    return of_kernel(text, arrays, np.full(wanted.shape, np.nan, F32), complaint)


def equal(text: str, arrays: list[np.ndarray], wanted: np.ndarray, target: Target = TARGET) -> Check:
    """A kernel with one result, which is ``wanted``."""

    def complaint(found: np.ndarray) -> str:
        bad = np.argwhere(found != wanted)
        return f"{len(bad)} of {found.size} elements differ, the first at {bad[0]}" if len(bad) else ""

    return of_kernel(text, arrays, np.zeros_like(wanted), complaint, target)


def integers(target: Target) -> Iterator[tuple[str, Check]]:
    """Products of bytes: whole tiles, odd sums, the largest factors there are."""
    rng = np.random.default_rng(0)
    for m, n, k in ((13, 33, 65), (6, 16, 2), (29, 64, 130)):
        left, right = (rng.integers(-128, 128, s).astype(np.int8) for s in ((m, k), (k, n)))
        left[0], right[:, 0] = -128, -128
        exact = (left.astype(np.int32) - 127) @ right.astype(np.int32)
        text = product(m, n, k, factors("arith.extsi", "arith.extsi", 127, 0))
        yield f"product of integers {m}x{n}x{k}", equal(text, [left, pack_pairs(right)], exact, target)


def contractions() -> Iterator[tuple[str, Check]]:
    """Whole tiles, masked columns, rows that are left over, few and many steps."""
    rng = np.random.default_rng(0)
    for m, n, k in ((14, 32, 64), (26, 31, 13), (1, 40, 64), (7, 17, 3), (33, 65, 129), (5, 1, 9), (2, 200, 1)):
        a, b, bias = (rng.standard_normal(s, F32) for s in ((m, k), (k, n), (n,)))
        wanted = np.maximum(a.astype(np.float64) @ b + bias, 0)
        yield f"product {m}x{n}x{k}", near(matmul(m, n, k), [a, pack(b), bias], wanted)
    yield from integers(TARGET)
    for size, ic, oc, kernel, stride in (((11, 9), 6, 20, (3, 3), 1), ((12, 13), 3, 33, (5, 3), 2)):
        text, _ = conv2d(1, size, ic, oc, kernel, stride)
        x, w, bias = (rng.standard_normal(s, F32) for s in ((1, *size, ic), (*kernel, ic, oc), (oc,)))
        wanted = np.maximum(conv2d_reference(x, w, stride) + bias, 0)
        yield f"convolution, stride {stride}", near(text, [x, pack(w), bias], wanted)
    for stride, channels in ((1, 18), (1, 48), (2, 18), (2, 35)):
        text, _ = depthwise(1, (9, 12), channels, (3, 3), stride, 1)
        x, w, bias = (rng.standard_normal(s, F32) for s in ((1, 9, 12, channels), (3, 3, channels), (channels,)))
        wanted = np.maximum(depthwise_reference(x, w, stride, 1) + bias, 0)
        yield f"depthwise, stride {stride}, {channels} channels", near(text, [x, w, bias], wanted)
    for shape in ((1, 3, 70, 48, 16, 32), (2, 2, 5, 37, 7, 9)):
        batch, heads, rows, keys, depth, width = shape
        text, arrays = attention(heads, rows, keys, depth, width, batch), attention_inputs(*shape)
        yield f"attention {shape}", near(text, arrays, attention_reference(*arrays), 2e-5)


def functions() -> Iterator[tuple[str, Check]]:
    """Mathematical functions: errors in units in the last place, then special values and the smallest number."""
    rng = np.random.default_rng(0)
    for name, (reference, single, double, bound) in FUNCTIONS.items():
        for element, dtype, (low, high) in (("f32", F32, single), ("f64", np.float64, double)):
            if element == "f64" and name not in ("exp", "log", "tanh", "sqrt", "roundeven"):
                continue
            special = np.array([*SPECIAL, np.finfo(dtype).smallest_subnormal], dtype)
            x = np.concatenate([special, rng.uniform(low, high, 300).astype(dtype)])
            with np.errstate(all="ignore"):
                wanted = reference(x.astype(np.longdouble))  # type: ignore[operator]

            def complaint(found: np.ndarray, wanted: np.ndarray = wanted, bound: float = bound) -> str:
                off = ulps(found, wanted)
                return f"{off} units in the last place, more than {bound}" if off > bound else ""

            text = text_of(f"math.{name}", x.size, 1, element, element)
            yield f"{name} {element}", of_kernel(text, [x], np.zeros_like(x), complaint)


def conversions() -> Iterator[tuple[str, Check]]:
    """Every small float there is to f32 and back, and what rounds."""
    for name, dtype in (("f16", np.float16), ("bf16", ml_dtypes.bfloat16), ("f8E4M3FN", ml_dtypes.float8_e4m3fn)):
        bits = 8 * np.dtype(dtype).itemsize
        every = np.arange(1 << bits, dtype=np.uint32).astype(f"u{bits // 8}").view(dtype)
        wide = every.astype(F32)

        def same(found: np.ndarray, wanted: np.ndarray) -> str:
            with np.errstate(invalid="ignore"):  # about signaling not-a-numbers
                a, b = found.astype(np.float64), wanted.astype(np.float64)
            wrong = ~((a == b) & (np.signbit(a) == np.signbit(b)) | np.isnan(a) & np.isnan(b))
            return f"{wrong.sum()} of {a.size} differ, {a[wrong][0]} is not {b[wrong][0]}" if wrong.any() else ""

        text = text_of("arith.extf", every.size, 1, name, "f32", f"{name} to f32")
        yield f"{name} to f32", of_kernel(text, [every], np.zeros_like(wide), lambda y, w=wide: same(y, w))
        finite = np.unique(wide[np.isfinite(wide)].astype(np.float64))
        # Nearly in the middle: see bochs.py about the middle itself.
        middle = ((finite[1:] + finite[:-1]) / 2)[::5]
        x = np.concatenate([wide, *((middle * (1 + side)).astype(F32) for side in (-1e-4, 1e-4))])
        text = text_of("arith.truncf", x.size, 1, "f32", name, f"f32 to {name}")
        with np.errstate(invalid="ignore"):
            wanted = x.astype(dtype)
        yield f"f32 to {name}", of_kernel(text, [x], np.zeros_like(wanted), lambda y, w=wanted: same(y, w))


def checks() -> Iterator[tuple[str, Check]]:
    for name in NETWORKS:
        yield name, of_model(models.build(name), models.inputs(name))
    yield from contractions()
    yield from functions()
    yield from conversions()
    for name in GRAPHS:
        yield name, of_model(*parsed(name))


@pytest.mark.timeout(900)  # compiles and emulates a lot: under a minute on an idle machine
def test_results_are_right(tmp_path: Path) -> None:
    bochs.require()
    names, all_checks = zip(*checks(), strict=True)
    results = bochs.run([check.case for check in all_checks], bochs.WITH_AVX512, tmp_path)
    complaints = {}
    for name, check, result in zip(names, all_checks, results, strict=True):
        text = str(result) if isinstance(result, bochs.Failure) else check.complaint(result)
        if text:
            complaints[name] = text
    assert not complaints


def test_products_of_integers_are_right_where_one_instruction_adds_them(tmp_path: Path) -> None:
    bochs.require()
    names, all_checks = zip(*integers(targets.get("x86-64-v4-vnni")), strict=True)
    results = bochs.run([check.case for check in all_checks], bochs.WITH_VNNI, tmp_path)
    for name, check, result in zip(names, all_checks, results, strict=True):
        assert not isinstance(result, bochs.Failure) and not check.complaint(result), name


def test_code_is_chosen_by_what_the_processor_has(tmp_path: Path) -> None:
    """One without AVX-512 takes the other variant of a file, and says what it lacks where there is none."""
    bochs.require()
    model, feed = parsed("gelu")
    both, one = (
        compile_to_bytes(open_model(model), targets=chosen) for chosen in ([TARGET, targets.get("x86-64-v3")], [TARGET])
    )
    wanted = list(run_onnxruntime(model, feed).values())
    cases = [bochs.ModuleCase(bytes(file), list(feed.values()), wanted) for file in (both, one)]
    ran, refused = bochs.run(cases, "corei7_haswell_4770", tmp_path)
    assert not isinstance(ran, bochs.Failure)
    assert difference(ran[0], wanted[0]).agrees
    assert isinstance(refused, bochs.Failure)
    assert "compiled for x86-64-v4; this CPU lacks avx512f" in str(refused)
