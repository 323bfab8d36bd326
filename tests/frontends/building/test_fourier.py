"""Fourier transforms whose length only run time knows, or is too long for a kernel."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

import rillet
from rillet.frontends.building import fourier_long

FORMS: dict[str, tuple[int, dict[str, int]]] = {
    "real": (1, {"onesided": 1}),
    "complex": (2, {}),
    "inverse": (2, {"inverse": 1}),
    "to real numbers": (2, {"inverse": 1, "onesided": 1}),
}


def dft(
    parts: int, *, points: int | str = "t", length: bool = False, dtype: int = TensorProto.FLOAT, **attributes: int
) -> ModelProto:
    node = helper.make_node("DFT", ["x", "length" if length else "", "axis"], ["y"], **attributes)
    inputs = [helper.make_tensor_value_info("x", dtype, ["n", points, parts])]
    inputs += [helper.make_tensor_value_info("length", TensorProto.INT64, [])] if length else []
    y = helper.make_tensor_value_info("y", dtype, None)
    graph = helper.make_graph([node], "g", inputs, [y], [helper.make_tensor("axis", TensorProto.INT64, [], [1])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def defined(x: np.ndarray, length: int | None, *, inverse: int = 0, onesided: int = 0) -> np.ndarray:
    z = x[..., 0].astype(np.float64) + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
    if inverse and onesided:
        return np.fft.irfft(z, length, axis=1)[..., None]
    full = (np.fft.ifft if inverse else np.fft.fft)(z, length, axis=1)
    kept = full[:, : full.shape[1] // 2 + 1] if onesided else full
    return np.stack([kept.real, kept.imag], -1)


@pytest.mark.parametrize(
    ("form", "dtype", "error"),
    [*((form, TensorProto.FLOAT, 6e-8) for form in FORMS), ("inverse", TensorProto.DOUBLE, 2e-16)],
)
def test_lengths_of_samples(form: str, dtype: int, error: float) -> None:
    parts, attributes = FORMS[form]
    module = rillet.compile(dft(parts, dtype=dtype, **attributes), threads=1, jobs=1)
    for points in (2, 3, 7, 16, 33, 101, 256):
        x = np.random.default_rng(points).standard_normal((3, points, parts))
        x = x.astype(helper.tensor_dtype_to_np_dtype(dtype))
        found, wanted = module(x), defined(x, None, **attributes)
        assert found.shape == wanted.shape and found.dtype == x.dtype
        scale = np.sqrt(np.mean(wanted**2)) * np.log2(4 * points)  # the longest convolution that replaces it
        assert np.sqrt(np.mean((found - wanted) ** 2)) < error * scale


def test_lengths_that_an_input_gives() -> None:
    parts, attributes = FORMS["real"]
    module = rillet.compile(dft(parts, length=True, **attributes), threads=1, jobs=1)
    x = np.random.default_rng(0).standard_normal((2, 40, parts)).astype(np.float32)
    for length in (1, 6, 39, 40, 78, 131):
        found, wanted = module(x, np.array(length)), defined(x, length, **attributes)
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, atol=3e-6 * np.abs(wanted).max())


def test_the_ends_of_frequencies_of_real_samples_are_real() -> None:
    module = rillet.compile(dft(1, onesided=1), threads=1, jobs=1)
    found = module(np.arange(64, dtype=np.float32).reshape(2, 32, 1))
    assert not found[:, [0, 16], 1].any()


@pytest.mark.parametrize(
    ("form", "points"),
    [("real", 90), ("inverse", 51), ("to real numbers", 46), ("complex", 131)],  # the last one is a convolution
)
def test_lengths_that_no_kernel_takes(form: str, points: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fourier_long, "LONGEST", 20)
    parts, attributes = FORMS[form]
    x = np.random.default_rng(points).standard_normal((2, points, parts)).astype(np.float32)
    found = rillet.compile(dft(parts, points=points, **attributes), threads=1, jobs=1)(x)
    wanted = defined(x, None, **attributes)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, atol=3e-6 * np.abs(wanted).max())
