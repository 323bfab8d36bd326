"""Fast Fourier transforms: results, their errors, and which kernels are transforms."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

import rillet
from rillet import targets
from rillet.codegen.cpu.compile import compile_kernel
from rillet.codegen.result import CompiledKernel
from rillet.driver.lowering import lower_until
from rillet.frontends.registry import open_model
from rillet.ir.kernels import kernel_texts
from tests.support.emulated import Emulator

TYPES = {"float16": TensorProto.FLOAT16, "float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE}
# The error of a float32 result relative to the root mean square, for each doubling of the length.
ERROR = 4e-8
CONVOLVED = 6e-8  # of a length with a large prime factor


def dft(
    rows: int | str, points: int, parts: int, *, dtype: str = "float32", length: int | None = None, **attributes: int
) -> ModelProto:
    nodes = [helper.make_node("DFT", ["x", "length" if length else "", "axis"], ["y"], **attributes)]
    x = helper.make_tensor_value_info("x", TYPES[dtype], [rows, points, parts])
    y = helper.make_tensor_value_info("y", TYPES[dtype], None)
    constants = [helper.make_tensor("axis", TensorProto.INT64, [], [1])]
    constants += [helper.make_tensor("length", TensorProto.INT64, [], [length])] if length else []
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def kernels(model: ModelProto, target: str = "host") -> list[CompiledKernel]:
    parts = kernel_texts(lower_until(open_model(model), "dispatch", target=targets.get(target)))
    return [compile_kernel(text, targets.get(target)) for _, text in parts]


def samples(rows: int, points: int, parts: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(points).standard_normal((rows, points, parts)).astype(dtype)


def defined(x: np.ndarray, *, inverse: int = 0, onesided: int = 0, length: int | None = None) -> np.ndarray:
    """The transform in float64, as the operator lays it out."""
    z = x[..., 0].astype(np.float64) + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
    if inverse and onesided:
        return np.fft.irfft(z, length or 2 * (z.shape[1] - 1), axis=1)[..., None]
    full = (np.fft.ifft if inverse else np.fft.fft)(z, length, axis=1)
    kept = full[:, : full.shape[1] // 2 + 1] if onesided else full
    return np.stack([kept.real, kept.imag], -1)


def error(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.sqrt(np.mean((found - wanted) ** 2) / np.mean(wanted**2)))


LENGTHS = [9, 14, 16, 17, 18, 25, 77, 169, 256, 480, 1009]
FORMS: dict[str, tuple[int, dict[str, int]]] = {
    "real": (1, {"onesided": 1}),
    "real, both sides": (1, {}),
    "complex": (2, {}),
    "complex, one side": (2, {"onesided": 1}),
    "inverse": (2, {"inverse": 1}),
    "inverse of real": (1, {"inverse": 1}),
}
CASES = [("real", n) for n in LENGTHS] + [("complex", n) for n in LENGTHS] + list(itertools.product(FORMS, [37, 60]))


def bound(length: int) -> float:
    return (CONVOLVED if length in (17, 37, 111, 202, 311, 482, 1009) else ERROR) * np.log2(length)


@pytest.mark.parametrize(("form", "length"), CASES)
def test_rows_side_by_side(form: str, length: int) -> None:
    parts, attributes = FORMS[form]
    module = rillet.compile(dft("n", length, parts, **attributes), threads=1, jobs=1)
    for rows in (1, 11):
        x = samples(rows, length, parts)
        found, wanted = module(x), defined(x, **attributes)
        assert found.shape == wanted.shape and found.dtype == np.float32
        assert error(found, wanted) < bound(length)


ONE_ROW = [("real", n) for n in (77, 128, 482, 1009)] + list(itertools.product(FORMS, [16, 60, 202, 243, 400]))


@pytest.mark.parametrize(("form", "length"), ONE_ROW)
def test_one_row(form: str, length: int) -> None:
    parts, attributes = FORMS[form]
    x = samples(1, length, parts)
    found = rillet.compile(dft(1, length, parts, **attributes), threads=1, jobs=1)(x)
    wanted = defined(x, **attributes)
    assert found.shape == wanted.shape
    assert error(found, wanted) < bound(length)


@pytest.mark.parametrize(
    ("length", "rows"), [(18, 9), (33, 9), (74, 9), (480, 9), (202, 1), (243, 1), (311, 1), (480, 1)]
)
def test_to_real_numbers(length: int, rows: int) -> None:
    attributes = {"inverse": 1, "onesided": 1}
    x = samples(rows, length // 2 + 1, 2)
    found = rillet.compile(dft(rows, x.shape[1], 2, length=length, **attributes), threads=1, jobs=1)(x)
    wanted = defined(x, length=length, **attributes)
    assert found.shape == wanted.shape
    assert error(found, wanted) < CONVOLVED * np.log2(length)


@pytest.mark.parametrize(("points", "length"), [(50, 64), (64, 50), (3, 32), (90, 21)])
@pytest.mark.parametrize("parts", [1, 2])
def test_sources_are_cut_or_filled_with_zeros(points: int, length: int, parts: int) -> None:
    x = samples(3, points, parts)
    found = rillet.compile(dft(3, points, parts, length=length), threads=1, jobs=1)(x)
    assert error(found, defined(x, length=length)) < ERROR * np.log2(length)


@pytest.mark.parametrize(("dtype", "bound"), [("float64", 2e-16), ("float16", 1e-3)])
@pytest.mark.parametrize("length", [30, 111, 256])
def test_other_types(dtype: str, bound: float, length: int) -> None:
    x = samples(5, length, 2, dtype)
    found = rillet.compile(dft(5, length, 2, dtype=dtype), threads=1, jobs=1)(x)
    assert found.dtype == dtype
    assert error(found.astype(np.float64), defined(x)) < bound * np.log2(length)


def test_structured_sources() -> None:
    length, model = 480, dft(4, 480, 1, onesided=1)
    t = np.arange(length)
    x = np.stack([np.ones(length), t == 7, np.cos(2 * np.pi * 31 * t / length), (-1.0) ** t]).astype(np.float32)
    found = rillet.compile(model, threads=1, jobs=1)(x[..., None])
    for row, wanted in zip(found, defined(x[..., None], onesided=1), strict=True):
        assert error(row, wanted) < ERROR * np.log2(length)


def defined_kernel_names(model: ModelProto, target: str = "host") -> list[str]:
    return [kernel.strategy for kernel in kernels(model, target)]


def stft(hop: int, length: int, window: np.ndarray, rows: int | str = 1) -> ModelProto:
    nodes = [helper.make_node("STFT", ["x", "hop", "w"], ["y"], onesided=1)]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, length])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    constants = [
        helper.make_tensor("hop", TensorProto.INT64, [], [hop]),
        helper.make_tensor("w", TensorProto.FLOAT, window.shape, window),
    ]
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("length", [64, 60])
def test_frames_and_window_are_read_by_the_transform(length: int) -> None:
    window = np.hanning(length).astype(np.float32)
    model = stft(20, 500, window, "n")
    assert defined_kernel_names(model) == ["fourier"]
    x = samples(2, 500, 1)[..., 0]
    frames = np.lib.stride_tricks.sliding_window_view(x, length, 1)[:, ::20] * window
    found = rillet.compile(model, threads=1, jobs=1)(x)
    wanted = defined(frames.reshape(-1, length, 1), onesided=1).reshape(found.shape)
    assert error(found, wanted) < ERROR * np.log2(length)


@pytest.mark.parametrize("length", [2, 7, 8])
def test_short_transforms_are_products(length: int) -> None:
    assert "fourier" not in defined_kernel_names(dft(8, length, 2))
    x = samples(8, length, 2)
    assert error(rillet.compile(dft(8, length, 2), threads=1, jobs=1)(x), defined(x)) < 1e-7


def test_the_definition_gives_the_same_sums() -> None:
    """Without the mark, a transform is computed by its body."""
    model = dft(2, 36, 2, inverse=1)
    ((_, text),) = kernel_texts(lower_until(open_model(model), "dispatch", target=targets.get("host")))
    assert text.count("rillet.fourier = {") == 1
    slow = compile_kernel(text.replace("rillet.fourier = {", "other = {"), targets.get("host"))
    assert slow.strategy != "fourier"


@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m55", "riscv32imf", "wasm32", "riscv64gcv", "x86-64-v4"])
@pytest.mark.parametrize("length", [480, 74])
def test_every_target_has_transforms(target: str, length: int) -> None:
    assert defined_kernel_names(dft(3, length, 1, onesided=1), target) == ["fourier"]


def test_results_on_another_processor(tmp_path: Path) -> None:
    emulator = Emulator(targets.get("aarch64"), tmp_path)
    if not emulator.present:
        pytest.skip(f"needs {emulator.qemu}")
    x = samples(5, 60, 1)
    (kernel,) = kernels(dft(5, 60, 1, onesided=1), "aarch64")
    *_, found = emulator.run(kernel, [x.reshape(5, 60), np.zeros((5, 62), np.float32)])
    assert error(found.reshape(5, 31, 2), defined(x, onesided=1)) < ERROR * np.log2(60)
